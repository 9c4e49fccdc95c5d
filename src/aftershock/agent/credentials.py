"""The agent's kubeconfig: in its own home, whole in one file, so that no path tells where it comes from."""

import base64
import json
from pathlib import Path
from typing import Any

import yaml

from aftershock.base.errors import ClusterError

__all__ = ["hand_over"]

# What a kubeconfig may name as a file, and what it may hold in its place.
FILES = ("certificate-authority", "client-certificate", "client-key")


def hand_over(kubeconfig: Path, home: Path) -> Path:
    """Write a kubeconfig into a home folder as `.kube/config`, with the files that it names put inside it.

    Raises:
        ClusterError: it or one of its files cannot be read.
    """
    try:
        document = yaml.safe_load(kubeconfig.read_text())
        for kind, entry in (("clusters", "cluster"), ("users", "user")):
            for item in document.get(kind) or []:
                _embed(item[entry], kubeconfig.parent)
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise ClusterError(f"not a usable kubeconfig: {error}", where=str(kubeconfig)) from error
    own = home / ".kube" / "config"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.touch(mode=0o600)
    own.write_text(json.dumps(document, indent=1) + "\n")
    return own


def _embed(entry: dict[str, Any], base: Path) -> None:
    for name in FILES:
        if path := entry.pop(name, ""):
            entry[f"{name}-data"] = base64.b64encode((base / path).read_bytes()).decode()
    if path := entry.pop("tokenFile", ""):
        entry["token"] = (base / path).read_text().strip()
