"""A stand-in for the API server, for making plans: keeps what is posted, and gives it back.

It is there so that fixtures can be made without a cluster. No test runs against it.
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OBJECTS = {}


def pointer(document, path):
    *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:]]
    for part in parents:
        document = document[int(part)] if isinstance(document, list) else document.setdefault(part, {})
    return document, last


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in OBJECTS:
            return self.answer(200, OBJECTS[path])
        self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})

    def do_POST(self):
        item = self.body()
        path = self.path.split("?")[0] + "/" + item["metadata"]["name"]
        item["metadata"].update(uid="u-" + str(len(OBJECTS)), resourceVersion="1", generation=1)
        spec = item.get("spec") or {}
        pod = (spec.get("template") or {}).get("spec")
        if pod is not None:
            pod.setdefault("serviceAccountName", "default")
        OBJECTS[path] = item
        self.answer(201, item)

    def do_PATCH(self):
        item = OBJECTS[self.path.split("?")[0]]
        for op in self.body():
            parent, last = pointer(item, op["path"])
            if op["op"] == "remove":
                parent.pop(last, None)
            else:
                parent[last] = op["value"]
        self.answer(200, item)

    def do_DELETE(self):
        OBJECTS.pop(self.path.split("?")[0], None)
        self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
sys.stdout.close()
server.serve_forever()
