"""mcp, the Python SDK, in the mode given: "legacy" opens with initialize, "auto" probes first."""

import asyncio
import json
import os
import sys
import time

from mcp import Client, StdioServerParameters


async def main(mode: str, version: str) -> None:
    program, *args = json.loads(os.environ["BRIDGE_COMMAND"])
    tool = os.environ["BRIDGE_TOOL"]
    async with Client(StdioServerParameters(command=program, args=args), mode=mode) as client:
        assert client.protocol_version == version, client.protocol_version
        assert client.server_info.name == "agent-sandbox"
        tools = (await client.list_tools()).tools
        shown = next(shown for shown in tools if shown.name == tool)
        assert shown.output_schema and shown.annotations.read_only_hint

        begin = time.monotonic()
        # The SDK checks the structured result against the output schema, and raises.
        good = await client.call_tool(tool, json.loads(os.environ["BRIDGE_ARGUMENTS"]))
        took = round((time.monotonic() - begin) * 1000)
        assert not good.is_error, good.content[0].text
        assert good.structured_content["outcome"] == "finished"
        assert good.content[0].text

        bad = await client.call_tool(tool, json.loads(os.environ["BRIDGE_BAD_ARGUMENTS"]))
        assert bad.is_error, "bad arguments were taken"
        code = bad.structured_content["code"]
        assert "\nNext: " in bad.content[0].text
    print(f"{len(tools)} tools, call {took} ms, bad arguments {code}")


asyncio.run(main(*sys.argv[1:]))
