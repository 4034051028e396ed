"""A change that looks like a label edit, and what becomes of it. scripts/demo starts this.

    python3 scripts/demo_terraform.py SCRIPTS/AS FOLDER

FOLDER is the Terraform root "demo", which the agent's user may edit. kubectl in PATH is an operator's, to look at what
really lives in the cluster. Every line of the demonstration is checked: it exits with 1 where something is not as it
should be.
"""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time

from demo import Bridge, Events, check, heading, indented, told

ROOT = "demo"
OBJECT = "Deployment/demo-app/shop"
# One run of the demonstration makes the one into the other, the next run that into the first.
LABELS = ["app = \"shop\"", "app = \"storefront\""]


def main():
    run_as, folder = sys.argv[1:3]
    agent = Agent(run_as)
    human = Human(run_as)

    if not deployment():
        heading("First, what should be there: the agent asks to apply the root demo")
        approval = pending(agent.apply("Bring up the shop"))
        human.grant(approval)
        agent.use(approval)
    heading("A shop that runs")
    before = deployment()
    check(before, f"there is no {OBJECT}")
    told("cluster", f"{OBJECT} lives, uid {before}")

    heading("The agent edits one line of its folder")
    old, new = edit(run_as, folder)
    told("edit", f"main.tf: {old} becomes {new}")

    heading("It asks what that would do: terraform_plan")
    plan = agent.call("terraform_plan", {"working_dir": ROOT, "reason": "Rename a label"})
    told("answer", plan["summary"])
    for change in plan["changes"]:
        told(change["action"], f"{change['address']}, {change.get('reason', '')}")
    check([c["action"] for c in plan["changes"]] == ["replace"], "the plan does not replace just one resource")
    check(deployment() == before, "the plan has changed the cluster")

    heading("It asks to apply it: terraform_apply, without an approval")
    asked = agent.apply("Rename a label")
    approval = pending(asked)
    check(deployment() == before, "an apply that nobody approved has changed the cluster")

    heading("It cannot approve itself: the agent's user runs approver grant")
    refused = subprocess.run([run_as, "sandbox-agent", "approver", "grant", approval], capture_output=True, text=True)
    print(indented(refused.stderr.strip()))
    check(refused.returncode != 0, "the agent's user could run approver")
    early = agent.apply("Rename a label", approval, fails=True)
    told("apply", f"{early['code']}: {early['message']}")
    check(early["code"] == "APPROVAL_NOT_GRANTED", "an approval that nobody granted was not refused as such")

    heading(f"A human looks, as sandbox-approver: approver show {approval}")
    print(indented(human.show(approval)))

    heading(f"and grants it at a terminal, typing what will be destroyed: approver grant {approval}")
    human.grant(approval, typed=OBJECT)
    check(deployment() == before, "a grant alone has changed the cluster")

    heading("The agent applies it, once")
    applied = agent.use(approval)
    after = deployment()
    told("cluster", f"{OBJECT} lives, uid {after}; it was {before}")
    check(after != before, "the Deployment was not replaced")
    again = agent.apply("Rename a label", approval, fails=True)
    told("again", f"{again['code']}: {again['message']}")
    check(again["code"] == "APPROVAL_USED", "a second use was not refused as such")
    agent.close()

    heading("The story as it stands in the trail")
    for request in (asked["request_id"], applied["request_id"]):
        for event in trail(run_as, request):
            told(event["time"][11:23], f"{event['event']}  {short(event['fields'])}")

    heading("In short")
    print(
        f"  One edited label would have replaced {OBJECT}, and the agent's own words said nothing of it.\n"
        f"  Nothing happened until a human of another user had seen that and typed its name; then exactly the\n"
        f"  plan that was seen was applied, once. Its uid was {before} and is {after}."
    )


class Agent:
    """The agent: its calls over MCP, as the user sandbox-agent."""

    def __init__(self, run_as):
        self.bridge = Bridge([run_as, "sandbox-agent", "mcp-bridge"])
        client = {"name": "demo", "version": "1"}
        self.bridge.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.bridge.notify("notifications/initialized")

    def call(self, tool, arguments, fails=False):
        """The structured answer, once it is there: get_request is asked for what takes longer."""
        result = self.bridge.ask("tools/call", {"name": tool, "arguments": arguments})
        answer = result.get("structuredContent") or {}
        deadline = time.monotonic() + 300
        while answer.get("outcome") == "running":
            check(time.monotonic() < deadline, f"{tool} still runs after 300 s")
            ask = {"request_id": answer["request_id"], "wait_seconds": 40}
            result = self.bridge.ask("tools/call", {"name": "get_request", "arguments": ask})
            answer = result["structuredContent"]
            if "result_json" in answer:
                answer = json.loads(answer["result_json"])
        text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
        failed = bool(result.get("isError")) or "code" in answer
        check(failed == fails, f"{tool}: {text}")
        return answer

    def apply(self, reason, approval=None, fails=False):
        arguments = {"working_dir": ROOT, "reason": reason}
        if approval:
            arguments["approval_id"] = approval
        return self.call("terraform_apply", arguments, fails)

    def use(self, approval):
        started = time.monotonic()
        answer = self.apply("Use it", approval)
        told("applied", f"{answer['summary']} ({time.monotonic() - started:.1f} s)")
        return answer

    def close(self):
        self.bridge.close()


class Human:
    """A person at the command line of approver, as the user sandbox-approver."""

    def __init__(self, run_as):
        self.command = [run_as, "sandbox-approver", "approver"]

    def show(self, approval):
        said = subprocess.run([*self.command, "show", approval], check=True, stdout=subprocess.PIPE, text=True)
        return said.stdout

    def grant(self, approval, typed="yes"):
        """At a terminal: what is typed comes once the question has been asked."""
        process, terminal = pty.fork()
        if process == 0:
            os.execv(self.command[0], [*self.command, "grant", approval])
        said, answered, deadline = b"", False, time.monotonic() + 60
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # the terminal's way of saying that it ended
                break
            if not piece:
                break
            said += piece
            if not answered and re.search(rb"(To grant it, type|Type yes to grant it)[^\n]*:\s*$", said.rstrip(b" > ")):
                os.write(terminal, typed.encode() + b"\n")
                answered = True
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        lines = said.decode(errors="replace").replace("\r", "").strip().splitlines()
        told("typed", typed)
        told("answer", lines[-1].strip() if lines else "nothing")
        check(status == 0, "the grant failed:\n" + "\n".join(lines[-20:]))


def pending(answer):
    """The id of the approval that an apply has opened."""
    check(answer["outcome"] == "approval_pending", f"the outcome is {answer['outcome']}")
    told("answer", f"{answer['summary']}; approval {answer['approval_id']} is {answer['approval_state']}")
    told("next", answer["next"])
    return answer["approval_id"]


def deployment():
    """The uid of the shop's Deployment; empty while there is none."""
    said = subprocess.run(
        ["kubectl", "-n", "demo-app", "get", "deployment", "shop", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"],
        check=True, stdout=subprocess.PIPE, text=True,
    )
    return said.stdout


def edit(run_as, folder):
    """Renames the label in main.tf, with the agent's rights; gives what stood there, and what stands there now."""
    path = f"{folder}/main.tf"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = [label for label in LABELS if text.count(label) == 1]
    check(len(found) == 1, f"{path} does not have just one of {' and '.join(LABELS)}: remove it, and run scripts/up")
    old = found[0]
    new = LABELS[1 - LABELS.index(old)]
    subprocess.run([run_as, "sandbox-agent", "sed", "-i", f"s/{old}/{new}/", path], check=True)
    return old, new


def trail(run_as, request):
    said = subprocess.run(
        [run_as, "sandbox-approver", "approver", "audit", "--request-id", request, "--json"],
        check=True, stdout=subprocess.PIPE, text=True,
    )
    return Events(said.stdout.splitlines()).events


def short(fields):
    text = json.dumps(fields, ensure_ascii=True)
    return text if len(text) <= 150 else text[:150] + "…"


if __name__ == "__main__":
    main()
