// @modelcontextprotocol/sdk, the client most MCP hosts are built on: it opens with `initialize`.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { command, listAndCall } from "./expect.mjs";

const client = new Client({ name: "typescript-sdk", version: "1" });
const [program, ...args] = command;
await client.connect(new StdioClientTransport({ command: program, args }));
console.log(await listAndCall(client));
await client.close();
