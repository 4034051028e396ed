// The inspector's command line, as its users run it: each run initializes, does one thing and ends.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const { BRIDGE_COMMAND, BRIDGE_TOOL, BRIDGE_ARGUMENTS, BRIDGE_BAD_ARGUMENTS } = process.env;
const [command, ...args] = JSON.parse(BRIDGE_COMMAND);
const inspector = dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json"));

const home = mkdtempSync(join(tmpdir(), "inspector-"));
process.on("exit", () => rmSync(home, { recursive: true, force: true }));
const config = join(home, "mcp.json");
writeFileSync(config, JSON.stringify({ mcpServers: { bridge: { command, args } } }));

/** Runs it and gives what it prints; it ends with an error code for a result that is one. */
function inspect(...what) {
  const program = join(inspector, "clients/launcher/build/index.js");
  const flags = ["--cli", "--config", config, "--server", "bridge", ...what];
  const options = { env: { ...process.env, HOME: home }, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] };
  try {
    return JSON.parse(execFileSync(process.execPath, [program, ...flags], options));
  } catch (error) {
    if (error.stdout?.trim()) return JSON.parse(error.stdout);
    throw error;
  }
}

/** JSON members as the inspector wants them. */
function asFlags(json) {
  return Object.entries(JSON.parse(json)).flatMap(([key, value]) => ["--tool-arg", `${key}=${value}`]);
}

const { tools } = inspect("--method", "tools/list");
assert(tools.some(({ name, outputSchema }) => name === BRIDGE_TOOL && outputSchema));
const call = ["--method", "tools/call", "--tool-name", BRIDGE_TOOL];
const begin = performance.now();
const good = inspect(...call, ...asFlags(BRIDGE_ARGUMENTS));
const took = Math.round(performance.now() - begin);
assert.equal(good.structuredContent?.outcome, "finished", JSON.stringify(good));
const bad = inspect(...call, ...asFlags(BRIDGE_BAD_ARGUMENTS));
assert.equal(bad.isError, true, JSON.stringify(bad));
console.log(`${tools.length} tools, run ${took} ms, bad arguments ${bad.structuredContent.code}`);
