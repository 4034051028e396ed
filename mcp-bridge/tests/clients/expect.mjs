// What both TypeScript clients expect of the bridge. The SDK itself checks every structured result
// against the output schema the bridge has shown, errors included, and throws if it does not fit.
import assert from "node:assert/strict";

export const command = JSON.parse(process.env.BRIDGE_COMMAND);
const tool = process.env.BRIDGE_TOOL;

/** Lists and calls over a connected client; resolves to a line about it. */
export async function listAndCall(client) {
  assert.equal(client.getServerVersion()?.name, "agent-sandbox");
  const { tools } = await client.listTools();
  const shown = tools.find(({ name }) => name === tool);
  assert(shown?.outputSchema, `${tool} is not listed with an output schema`);
  assert.equal(shown.annotations.readOnlyHint, true);

  const begin = performance.now();
  const good = await client.callTool({ name: tool, arguments: JSON.parse(process.env.BRIDGE_ARGUMENTS) });
  const took = Math.round(performance.now() - begin);
  assert(!good.isError, `the call failed: ${good.content[0]?.text}`);
  assert.equal(good.structuredContent.outcome, "finished");
  assert(good.content[0].text.length > 0);

  const bad = await client.callTool({ name: tool, arguments: JSON.parse(process.env.BRIDGE_BAD_ARGUMENTS) });
  assert.equal(bad.isError, true, "bad arguments were taken");
  assert.match(bad.structuredContent.code, /^[A-Z_]+$/);
  assert.match(bad.content[0].text, /\nNext: /);
  return `${tools.length} tools, call ${took} ms, bad arguments ${bad.structuredContent.code}`;
}
