"""What is taken from manifests, what counts as a difference, and the repository that it all comes from."""

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

for needed in ("yaml", "httpcore", "prometheus_client"):
    pytest.importorskip(needed)

Load = Callable[[str], ModuleType]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart}
spec: {replicas: 2}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: keys}
"""


@pytest.fixture
def load() -> Iterator[Load]:
    folder = str(Path(__file__).parents[1] / "src")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(folder)
        for name in ("declared", "repository"):
            sys.modules.pop(name, None)


def test_objects_by_identity_without_secrets(load: Load) -> None:
    found = load("declared").parse({"shop/cart.yaml": f"{DEPLOYMENT}---{SECRET}"}, "shop")
    assert list(found) == ["apps/v1/Deployment/cart"]
    assert found["apps/v1/Deployment/cart"]["metadata"]["namespace"] == "shop"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "shop/bad.yaml"),
        ("kind: Service\napiVersion: v1\nmetadata: {}", "without a name"),
        ("metadata: {name: x}", "no kind"),
        ("kind: Service\napiVersion: v1\nmetadata: {name: x, namespace: data}", "not of the namespace shop"),
        (f"{DEPLOYMENT}---{DEPLOYMENT}", "declared twice"),
    ],
)
def test_what_cannot_be_used_is_named(load: Load, text: str, says: str) -> None:
    declared = load("declared")
    with pytest.raises(declared.ManifestError, match=says):
        declared.parse({"shop/bad.yaml": text}, "shop")


def test_differences_name_the_field(load: Load) -> None:
    differences = load("declared").differences
    live = {"spec": {"replicas": 3, "containers": [{"name": "web", "image": "a:1"}], "paused": True}}
    wanted = {"spec": {"replicas": 2, "containers": [{"name": "web", "image": "a:2"}]}}
    assert list(differences(live, wanted)) == [
        'spec.containers[web].image: "a:1" -> "a:2"',
        "spec.paused: true -> absent",
        "spec.replicas: 3 -> 2",
    ]
    assert list(differences(live, live)) == []


def test_an_autoscaler_keeps_its_replicas(load: Load) -> None:
    declared = load("declared")
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cart"}, "spec": {"replicas": 2}}
    assert declared.without_replicas(obj, {"apps/v1/Deployment/cart"})["spec"] == {}
    assert declared.without_replicas(obj, set()) is obj
    assert obj["spec"] == {"replicas": 2}


def test_a_status_is_no_change(load: Load) -> None:
    same_as = load("declared").same_as
    one = {"metadata": {"generation": 3, "resourceVersion": "10", "annotations": {"a": "1"}}}
    later = {"metadata": {**one["metadata"], "resourceVersion": "11"}, "status": {"x": 1}}
    noted = {"metadata": {**one["metadata"], "annotations": {"a": "2"}}}
    assert same_as(one) == same_as(later)
    assert same_as(one) != same_as(noted)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
async def test_a_push_is_seen_and_read(load: Load, tmp_path: Path) -> None:
    repository = load("repository").Repository(tmp_path / "market.git")
    assert not repository.exists()
    await repository.make({"shop/cart.yaml": DEPLOYMENT, "README.md": "x"}, "Import")
    first, stamp = await repository.revision(), repository.stamp()
    assert await repository.files(first, "shop") == {"shop/cart.yaml": DEPLOYMENT}
    assert await repository.subject(first) == "Import (Platform Team)"

    def git(*argv: str) -> None:
        who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@market.example"]
        subprocess.run(["git", *who, *argv], cwd=tmp_path / "clone", check=True, capture_output=True)

    subprocess.run(["git", "clone", "-q", str(repository.path), str(tmp_path / "clone")], check=True)
    (tmp_path / "clone/shop/cart.yaml").write_text(DEPLOYMENT.replace("2", "3"))
    git("commit", "-qam", "Three of cart")
    git("push", "-q", "origin", "main")
    assert repository.stamp() != stamp
    second = await repository.revision()
    assert second != first
    assert "replicas: 3" in (await repository.files(second, "shop"))["shop/cart.yaml"]
