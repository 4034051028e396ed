"""One MCP call through mcp-bridge, and what the audit trail says of it. scripts/demo starts this.

    python3 scripts/demo.py SCRIPTS/AS

Speaks MCP on standard input and output of the bridge, as any client does, with nothing but the standard library.
Every line of the demonstration is checked: it exits with 1 where something is not as it should be.
"""

import json
import subprocess
import sys
import threading
import time

PROTOCOL = "2025-11-25"
NAMESPACE = "demo-app"
PROOF_SECONDS = 60


def main():
    run_as = sys.argv[1]
    bridge = Bridge([run_as, "sandbox-agent", "mcp-bridge"])
    heading("The agent, user sandbox-agent, starts mcp-bridge and asks what there is")
    server = bridge.ask(
        "initialize",
        {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}},
    )
    bridge.notify("notifications/initialized")
    tools = {tool["name"]: tool for tool in bridge.ask("tools/list", {})["tools"]}
    told("server", f"{server['serverInfo']['name']} {server['serverInfo']['version']}, MCP {server['protocolVersion']}")
    told("tools", ", ".join(sorted(tools)))
    check("k8s_get_pod_status" in tools, "there is no tool k8s_get_pod_status")

    heading("It makes one call")
    arguments = {"namespace": NAMESPACE}
    told("call", f"k8s_get_pod_status {json.dumps(arguments)}")
    started = time.monotonic()
    result = bridge.ask("tools/call", {"name": "k8s_get_pod_status", "arguments": arguments})
    took_ms = (time.monotonic() - started) * 1000
    answer = result.get("structuredContent") or {}
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    told("answer", f"after {took_ms:.0f} ms")
    print(indented(text))
    check(not result.get("isError"), "the call failed")
    check(answer.get("outcome") == "finished", f"the outcome is {answer.get('outcome')}")
    pods = answer["pods"]
    well = [pod["name"] for pod in pods if pod["healthy"]]
    # Between two crashes it says Error or Running for a moment; that it crashed is told all the same.
    looping = [pod["name"] for pod in pods if pod.get("restarts") and not pod["healthy"] and pod.get("last_termination")]
    check(well, "no pod is healthy")
    check(looping, "no pod is crash-looping")
    bridge.close()

    request = answer["request_id"]
    heading(f"What sandboxd did: approver audit --request-id {request}")
    lines = proven_lines(run_as, request)
    events = Events(lines)
    show(events)

    heading("The same, line by line, as it stands in the trail")
    for line in lines:
        print(indented(line))

    heading("In short")
    issued, revoked = events["credential.issued"], events["credential.revoked"]
    started, dead = events["sandbox.started"], events["credential.proven_dead"]
    print(
        f"  {len(well)} pod is well and {len(looping)} crash-loops in {NAMESPACE}; the agent learned it in {took_ms:.0f} ms.\n"
        f"  It never held a credential. The one that was used did not exist before the call ({issued['service_account']}),\n"
        f"  was only ever in the memory of a gVisor sandbox that is gone (pod {started['pod']}),\n"
        f"  and was refused with {revoked['refused_with']} before the answer was given; proven dead with {dead['refused_with']}."
    )


def show(events):
    """One line for each step, in words."""
    asked, decision = events["tool.request"], events["guardrail.decision"]
    told("request", f"{asked['action']} {json.dumps(asked['parameters'])}, from uid {asked['uid']}, client \"{asked['client_unverified']}\" (unverified)")
    told("decision", f"{decision['decision']}, by the rule {decision['rule']}")
    issued = events["credential.issued"]
    told("credential", f"scope {issued['scope']}, {issued['ttl_seconds']} s")
    told("lease", issued["lease_id"])
    started = events["sandbox.started"]
    told("sandbox", f"pod {started['pod']} of Job {started['job']}, runtime class {started['runtime_class']}")
    told("kernel", started["kernel_reported"].strip())
    told("egress", started["egress"])
    for call in events.all("api.call"):
        told("API call", f"{call['method']} {call['path']}: {call['status']} in {call['elapsed_ms']} ms")
    told("revoked", f"the API server then refused the credential with {events['credential.revoked']['refused_with']}")
    told("proof", f"refused with {events['credential.proven_dead']['refused_with']}, and the pod is {events['credential.proven_dead']['pod']}")
    told("result", events["tool.result"]["outcome"])
    check(decision["decision"] == "allow", "the decision was not to allow")
    check("gvisor" in started["kernel_reported"].lower(), "the kernel is not gVisor's")


class Bridge:
    """mcp-bridge as a child process; answers come in by id, each within a minute."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.last_id = 0

    def ask(self, method, params):
        self.last_id += 1
        self._send({"id": self.last_id, "method": method, "params": params})
        # A bridge that says nothing for a minute is ended, and reading its output then comes to an end too.
        watchdog = threading.Timer(60, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                message = json.loads(line)
                if message.get("id") == self.last_id and "method" not in message:
                    check("error" not in message, f"{method}: {message.get('error')}")
                    return message["result"]
        finally:
            watchdog.cancel()
        sys.exit(f"error: mcp-bridge ended, or was silent for a minute, while it was asked for {method}")

    def notify(self, method):
        self._send({"method": method})

    def _send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        check(self.process.wait(timeout=30) == 0, "mcp-bridge did not end well")


class Events:
    """The fields of a request's events, by name."""

    def __init__(self, lines):
        self.events = [json.loads(line) for line in lines]

    def all(self, name):
        return [event["fields"] for event in self.events if event["event"] == name]

    def __getitem__(self, name):
        found = self.all(name)
        check(len(found) == 1, f"the trail has {len(found)} events {name} of this request")
        return found[0]


def proven_lines(run_as, request):
    """The request's audit lines, once its credential is proven dead."""
    deadline = time.monotonic() + PROOF_SECONDS
    while True:
        said = subprocess.run(
            [run_as, "sandbox-approver", "approver", "audit", "--request-id", request, "--json"],
            check=True, stdout=subprocess.PIPE, text=True,
        )
        lines = said.stdout.splitlines()
        if Events(lines).all("credential.proven_dead"):
            return lines
        check(time.monotonic() < deadline, f"no proof within {PROOF_SECONDS} s that the credential is dead")
        time.sleep(0.2)


def heading(text):
    print(f"\n{text}", flush=True)


def told(what, text):
    print(f"  {what:<11} {text}", flush=True)


def indented(text):
    return "\n".join("    " + line for line in text.splitlines())


def check(holds, problem):
    if not holds:
        sys.exit(f"error: {problem}")


if __name__ == "__main__":
    main()
