"""What kubectl and aws need of a server to understand a command: kinds, objects by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PLURALS = {
    "v1": ["Pod pods", "ConfigMap configmaps", "Secret secrets", "ServiceAccount serviceaccounts",
           "Namespace namespaces", "Service services", "Node nodes"],
    "apps/v1": ["Deployment deployments"],
    "policy/v1": ["PodDisruptionBudget poddisruptionbudgets"],
    "autoscaling/v2": ["HorizontalPodAutoscaler horizontalpodautoscalers"],
    "networking.k8s.io/v1": ["NetworkPolicy networkpolicies", "Ingress ingresses"],
    "monitoring.coreos.com/v1": ["PodMonitor podmonitors"],
    "ray.io/v1": ["RayCluster rayclusters", "RayJob rayjobs"],
}  # fmt: skip


@contextmanager
def api_server() -> Iterator[str]:
    """The address of a server that lists no objects, and has each that is asked for by its name."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if not path.path.startswith("/api"):  # S3
            self._answer("<ListBucketResult/>")
        else:
            self._answer("" if "watch=" in path.query else json.dumps(_read(path.path)))

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer("")

    def do_POST(self) -> None:  # ECR
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer('{"authorizationData": [{"authorizationToken": "eDp4"}]}')

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer('{"kind": "Status", "apiVersion": "v1", "status": "Success"}')

    def _answer(self, text: str) -> None:
        self.send_response(404 if text == "null" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def _read(path: str) -> Any:
    """`/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME`, or what comes before."""
    parts = path.strip("/").split("/")
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        known = [
            {"groupVersion": each, "version": each.split("/")[1]} for each in PLURALS if "/" in each
        ]
        groups = [
            {"name": each["groupVersion"].split("/")[0], "versions": [each]} for each in known
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = "/".join(parts[1:2] if parts[0] == "api" else parts[1:3])
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    kinds = dict(reversed(each.split()) for each in PLURALS.get(version, ()))
    if not rest:
        verbs = ["get", "list", "watch", "delete", "create", "patch"]
        resources = [
            {"name": plural, "kind": kind, "singularName": kind.lower(), "verbs": verbs,
             "namespaced": kind not in ("Namespace", "Node")}
            for plural, kind in kinds.items()
        ]  # fmt: skip
        listed = {"groupVersion": version, "resources": resources}
        return {"kind": "APIResourceList", "apiVersion": "v1", **listed} if kinds else None
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    document = {"kind": kinds[rest[0]], "apiVersion": version}
    if len(rest) == 1:
        kind = f"{kinds[rest[0]]}List"
        return {**document, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []}
    metadata = {"name": rest[1], "namespace": "oka"}
    return {**document, "metadata": metadata, "spec": {"containers": [{"name": "ray"}]}}
