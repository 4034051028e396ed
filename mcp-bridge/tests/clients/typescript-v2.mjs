// @modelcontextprotocol/client, its successor: it probes with `server/discover`, and then every request
// speaks for itself (MCP 2026-07-28).
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { command, listAndCall } from "./expect.mjs";

const client = new Client(
  { name: "typescript-client", version: "2" },
  { versionNegotiation: { mode: "auto" } },
);
const [program, ...args] = command;
await client.connect(new StdioClientTransport({ command: program, args }));
assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
console.log(await listAndCall(client));
await client.close();
