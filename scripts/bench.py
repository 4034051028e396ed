"""The figures of scripts/bench, which starts this: warm (spares ready) or cold (none).

    python3 scripts/bench.py SCRIPTS/AS warm|cold CALLS

Every call is a real one: MCP on standard input of mcp-bridge, a minted credential, a gVisor Job, revocation and its
proof. Beside it, in the same run, what people use today: kubectl with a standing credential.
"""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

NAMESPACE = "demo-app"


class Bridge:
    """An MCP client on the pipes of one mcp-bridge, any number of calls at a time."""

    def __init__(self, run_as):
        started = time.monotonic()
        self.process = subprocess.Popen(
            [run_as, "sandbox-agent", "mcp-bridge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.lock = threading.Lock()
        self.waiting = {}
        self.next = 0
        threading.Thread(target=self.read, daemon=True).start()
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", hello)
        self.started_ms = (time.monotonic() - started) * 1000

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "id" in message and ("result" in message or "error" in message):
                with self.lock:
                    slot = self.waiting.pop(message["id"])
                slot["answer"] = message
                slot["bytes"] = len(line)
                slot["done"].set()

    def ask(self, method, params):
        slot = {"done": threading.Event()}
        with self.lock:
            self.next += 1
            number = self.next
            self.waiting[number] = slot
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        if not slot["done"].wait(90):
            raise SystemExit(f"no answer to {method} within 90 s")
        if "error" in slot["answer"]:
            raise SystemExit(f"{method}: {slot['answer']['error']}")
        self.last_bytes = slot["bytes"]
        return slot["answer"]["result"]

    def call(self, tool, arguments):
        """Milliseconds, and the structured answer."""
        started = time.monotonic()
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        took = (time.monotonic() - started) * 1000
        if result.get("isError"):
            raise SystemExit(f"{tool} failed: {result['content'][0]['text']}")
        return took, result["structuredContent"]

    def rss_kib(self):
        # The bridge has a session of its own; scripts/as waits for it.
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            bridge = int(children.read())
        with open(f"/proc/{bridge}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def spread(values):
    ordered = sorted(values)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return f"p50 {at(0.5):7.1f}   p90 {at(0.9):7.1f}   p99 {at(0.99):7.1f}   max {ordered[-1]:7.1f}   ({len(ordered)} times)"


def row(what, value):
    print(f"  {what:<52} {value}", flush=True)


def status(run_as):
    out = subprocess.run([run_as, "sandbox-approver", "approver", "status", "--json"], capture_output=True, check=True)
    return json.loads(out.stdout)


def wait_for_spares(run_as):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        now = status(run_as)
        if now["pool_ready"] == now["pool_size"]:
            return
        time.sleep(0.2)
    raise SystemExit("the spares did not come up within 60 s")


def timed(command, times):
    taken = []
    for _ in range(times):
        started = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        taken.append((time.monotonic() - started) * 1000)
    return taken


def bare_job(number):
    """Creates the Job that sandboxd would create, by kubectl, and waits until the API shows it running."""
    image = subprocess.run(
        ["kubectl", "-n", "sandbox-jobs", "get", "configmap", "sandbox-images", "-o", "jsonpath={.data.*}"],
        capture_output=True, check=True, text=True,
    ).stdout.split()[0]
    container = {
        "name": "runner", "image": image, "imagePullPolicy": "IfNotPresent", "args": ["hold", "--idle-seconds", "60"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
                      "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "runtimeClassName": "gvisor", "serviceAccountName": "default", "automountServiceAccountToken": False,
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "dnsPolicy": "Default",
        "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": True,
                            "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    name = f"bench-{os.getpid()}-{number}"
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "sandbox-jobs"},
        "spec": {"backoffLimit": 0, "podReplacementPolicy": "Failed", "activeDeadlineSeconds": 120,
                 "template": {"spec": pod}},
    }
    started = time.monotonic()
    subprocess.run(["kubectl", "create", "-f", "-"], input=json.dumps(job).encode(), stdout=subprocess.DEVNULL, check=True)
    selector = ["-n", "sandbox-jobs", "-l", f"batch.kubernetes.io/job-name={name}"]
    subprocess.run(
        ["kubectl", "wait", "pod", *selector, "--for=jsonpath={.status.phase}=Running", "--timeout=60s"],
        stdout=subprocess.DEVNULL, check=True,
    )
    took = (time.monotonic() - started) * 1000
    subprocess.run(["kubectl", "-n", "sandbox-jobs", "delete", "job", name, "--wait=true"], stdout=subprocess.DEVNULL, check=True)
    return took


def warm(run_as, calls):
    ask = {"namespace": NAMESPACE}
    bridge = Bridge(run_as)
    bridge.ask("tools/list", {})
    print("\nThe bridge")
    row("start to initialize answer, ms (with setpriv and sh)", f"{bridge.started_ms:.1f}")
    row("tools/list, bytes", str(bridge.last_bytes))
    row("resident, KiB", str(bridge.rss_kib()))

    print("\nOne call at a time, spares ready, ms")
    taken = []
    for _ in range(calls):
        wait_for_spares(run_as)
        took, answer = bridge.call("k8s_get_pod_status", ask)
        taken.append(took)
    row("k8s_get_pod_status, MCP in to MCP out", spread(taken))
    row("kubectl get pods -o json, standing credential", spread(timed(["kubectl", "-n", NAMESPACE, "get", "pods", "-o", "json"], 30)))

    print("\nNo action: bridge and daemon alone, ms")
    of_itself = {"request_id": answer["request_id"]}
    row("get_request of an ended request", spread([bridge.call("get_request", of_itself)[0] for _ in range(500)]))

    time.sleep(60)  # the calls above are most of what a principal may make in a minute
    print("\nEight at a time")
    many = 2 * calls
    started = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: bridge.call("k8s_get_pod_status", ask)[0], range(many)))
    elapsed = time.monotonic() - started
    row("k8s_get_pod_status, ms", spread(taken))
    row("calls a second", f"{many / elapsed:.2f}  ({many} in {elapsed:.1f} s)")
    wait_for_spares(run_as)
    row("leases not proven dead afterwards", str(status(run_as)["leases_unproven"]))


def cold(run_as, calls):
    bridge = Bridge(run_as)
    print("\nWithout spares, alternating with the bare Job, ms")
    taken, bare = [], []
    for number in range(calls):
        taken.append(bridge.call("k8s_get_pod_status", {"namespace": NAMESPACE})[0])
        time.sleep(1)
        bare.append(bare_job(number))
        time.sleep(1)
    row("k8s_get_pod_status, MCP in to MCP out", spread(taken))
    row("the same Job by kubectl, create to Running", spread(bare))


def main():
    run_as, kind, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
    {"warm": warm, "cold": cold}[kind](run_as, calls)


main()
