"""Objects as the API server shows them, and the metrics that come of them."""

import importlib
import json
import ssl
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SRC = Path(__file__).parents[1] / "src"
NAMES = ("text", "state", "api")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The program's own modules, whose short names others use too."""
    monkeypatch.syspath_prepend(str(SRC))
    before = {name: sys.modules.pop(name, None) for name in NAMES}
    yield {name: importlib.import_module(name) for name in NAMES}
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module:
            sys.modules[name] = module


def named(name: str, **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "labels": {"app.kubernetes.io/name": name}}
    return {"metadata": {**meta, **more.pop("metadata", {})}, **more}


CLUSTER: dict[str, list[dict[str, Any]]] = {
    "/apis/apps/v1/deployments": [named("cart", spec={"replicas": 3}, status={"availableReplicas": 2})],
    "/api/v1/pods": [
        named(
            "cart",
            spec={
                "nodeName": "node-1",
                "containers": [{"name": "main", "resources": {"limits": {"memory": "96Mi"}}}],
            },
            status={
                "phase": "Running",
                "startTime": "2024-05-01T10:00:00Z",
                "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [
                    {
                        "name": "main",
                        "restartCount": 4,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"reason": "OOMKilled"}},
                    }
                ],
            },
        )
    ],
    "/api/v1/nodes": [
        {
            "metadata": {"name": "node-1"},
            "spec": {"unschedulable": True},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "allocatable": {"cpu": "2"}},
        }
    ],
    "/apis/batch/v1/jobs": [
        named(
            "sales-1",
            metadata={"ownerReferences": [{"kind": "CronJob", "name": "sales"}]},
            status={"failed": 3, "conditions": [{"type": "Failed", "status": "True"}]},
        )
    ],
    "/apis/batch/v1/cronjobs": [named("sales", spec={"suspend": True}, status={})],
    "/apis/autoscaling/v2/horizontalpodautoscalers": [
        named("cart", spec={"maxReplicas": 5}, status={"currentReplicas": 5, "desiredReplicas": 5})
    ],
}


def test_what_is_told_of_each_kind(modules: dict[str, ModuleType]) -> None:
    text = str(modules["state"].collect(lambda path: CLUSTER.get(path, [])))
    lines = set(text.splitlines())
    of = 'namespace="shop",app="cart"'
    pod = f'{of},pod="cart",node="node-1"'
    assert {
        f'kube_deployment_spec_replicas{{{of},deployment="cart"}} 3',
        f'kube_deployment_status_replicas_available{{{of},deployment="cart"}} 2',
        f'kube_pod_status_phase{{phase="Running",{pod}}} 1',
        f'kube_pod_status_ready{{condition="true",{pod}}} 0',
        f"kube_pod_start_time_seconds{{{pod}}} 1714557600",
        f'kube_pod_container_status_restarts_total{{{pod},container="main"}} 4',
        f'kube_pod_container_status_waiting_reason{{reason="CrashLoopBackOff",{pod},container="main"}} 1',
        f'kube_pod_container_status_last_terminated_reason{{reason="OOMKilled",{pod},container="main"}} 1',
        f'kube_pod_container_resource_limits{{container="main",resource="memory",{pod}}} 100663296',
        'kube_node_status_condition{node="node-1",condition="Ready",status="unknown"} 1',
        'kube_node_status_condition{node="node-1",condition="Ready",status="true"} 0',
        'kube_node_spec_unschedulable{node="node-1"} 1',
        'kube_job_failed{namespace="shop",app="sales-1",job_name="sales-1",owner_name="sales"} 1',
        'kube_cronjob_spec_suspend{namespace="shop",app="sales",cronjob="sales"} 1',
        f'kube_horizontalpodautoscaler_status_current_replicas{{{of},horizontalpodautoscaler="cart"}} 5',
    } <= lines
    # A job that never succeeded has no time of it, rather than one in 1970.
    assert "kube_cronjob_status_last_successful_time" not in text
    assert text.count("# TYPE kube_pod_status_phase gauge") == 1


def test_text_is_escaped(modules: dict[str, ModuleType]) -> None:
    out = modules["text"].Families()
    out.add("x", 0.5, a='say "hi"\\\n', b=None)
    assert str(out) == '# TYPE x gauge\nx{a="say \\"hi\\"\\\\\\n"} 0.5\n'


@pytest.mark.parametrize(("text", "value"), [("64Mi", 2**26), ("250m", 0.25), ("2", 2), ("1500k", 1_500_000)])
def test_quantities(modules: dict[str, ModuleType], text: str, value: float) -> None:
    assert modules["text"].quantity(text) == value


def test_a_closed_connection_is_opened_again_and_a_refusal_is_told(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            body = json.dumps({"items": [{"n": len(seen)}]}).encode()
            self.send_response(403 if self.path.startswith("/secret") else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True  # without saying so

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        http = modules["api"].http.client
        monkeypatch.setattr(
            http, "HTTPSConnection", lambda host, port, timeout, context: http.HTTPConnection(host, port)
        )
        monkeypatch.setattr(ssl, "create_default_context", lambda cafile: None)
        (tmp_path / "token").write_text("first\n")
        api = modules["api"].Api(tmp_path)
        api.host, api.port = "127.0.0.1", server.server_port
        assert api.objects("/api/v1/pods") == [{"n": 1}]
        (tmp_path / "token").write_text("second\n")
        assert api.objects("/api/v1/pods") == [{"n": 2}]
        assert seen == ["Bearer first", "Bearer second"]
        with pytest.raises(OSError, match="answered 403"):
            api.objects("/secrets")
        api._close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
