"""Lists from the API server, with the pod's own credentials, over one connection that is kept."""

import http.client
import json
import os
import ssl
import threading
from pathlib import Path
from typing import Any

CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT = 5.0


class Api:
    """What the API server knows. Lists come from its cache: a little late, and cheap."""

    def __init__(self, credentials: Path = CREDENTIALS) -> None:
        self.credentials = credentials
        self.host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        self.port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
        self._lock = threading.Lock()
        self._connection: http.client.HTTPSConnection | None = None

    def objects(self, path: str) -> list[dict[str, Any]]:
        """All objects of a collection; a connection that the server closed meanwhile is opened again."""
        with self._lock:
            for last in (False, True):
                try:
                    return self._ask(path)
                except (OSError, http.client.HTTPException):
                    self._close()
                    if last:
                        raise
        raise AssertionError("unreachable")

    def _ask(self, path: str) -> list[dict[str, Any]]:
        if self._connection is None:
            trust = ssl.create_default_context(cafile=str(self.credentials / "ca.crt"))
            self._connection = http.client.HTTPSConnection(self.host, self.port, timeout=TIMEOUT, context=trust)
        # The kubelet replaces the token from time to time.
        token = (self.credentials / "token").read_text().strip()
        self._connection.request("GET", f"{path}?resourceVersion=0", headers={"Authorization": f"Bearer {token}"})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"{path}: the API server answered {answer.status}: {body[:200]!r}")
        return json.loads(body).get("items") or []

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
