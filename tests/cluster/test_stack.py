"""Stacks other than ours: a tiny one with components, in a folder of its own, and a user's plain manifests."""

from pathlib import Path

from aftershock.base.run import run
from aftershock.cluster.box import box as boxes

from .conftest import aftershock, record

STACK = """name: tiny
nodes: 1
namespace: front
namespaces: [front, back]
front: {service: web, port: 8080, host: tiny.example}
components:
  spaces: {}
  store: {needs: [spaces]}
  store-trio: {needs: [spaces], replaces: store}
  web: {needs: [store]}
sizes: {small: [web]}
memory: {small: 200}
links: [{title: the tiny one, service: web}]
"""
IMAGE = """image: registry.internal/tiny/NAME
packages: [busybox-static, coreutils]
versions: {"1.0": {files: {index.html: /www/index.html}}}
entrypoint: [/bin/busybox, httpd, -f, -p, "8080", -h, /www]
"""
SPACES = "".join(
    f"---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n" for name in ("front", "back")
)
WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: SPACE}
spec:
  replicas: COUNT
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: main
          image: IMAGE
          imagePullPolicy: IfNotPresent
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: SPACE}
spec: {type: LoadBalancer, selector: {app: NAME}, ports: [{port: 8080}]}
"""


def workload(name: str, space: str, image: str, count: int = 1) -> str:
    text = WORKLOAD.replace("SPACE", space).replace("COUNT", str(count)).replace("IMAGE", image)
    return text.replace("LoadBalancer", "LoadBalancer" if name == "web" else "ClusterIP").replace("NAME", name)


def tiny(folder: Path) -> Path:
    for name, space, count in (("web", "front", 1), ("store", "back", 1), ("store-trio", "back", 3)):
        (folder / name).mkdir(parents=True)
        (folder / name / "image.yaml").write_text(IMAGE.replace("NAME", name))
        (folder / name / "index.html").write_text(f"this is {name}\n")
        image = f"registry.internal/tiny/{name}:1.0"
        (folder / name / "manifest.yaml").write_text(workload(name, space, image, count))
    (folder / "spaces").mkdir()
    (folder / "spaces" / "manifest.yaml").write_text(SPACES)
    (folder / "stack.yaml").write_text(STACK)
    return folder


async def test_a_second_stack_comes_up_from_its_own_folder(tmp_path: Path, gone: list[str]) -> None:
    gone.append("test-tiny")
    folder = tiny(tmp_path / "tiny")
    done = aftershock("up", "--name", "test-tiny", "--stack", str(folder), "--component", "store-trio", "--json")
    made = record(done)
    assert made["stack"] == "tiny:small+store-trio", done.stderr
    box = boxes.open_box("test-tiny")
    async with box.api() as api:
        assert await api.get("Deployment", "store", "back") is None, "the variant takes its place"
        trio = await api.get("Deployment", "store-trio", "back")
        web = await api.get("Deployment", "web", "front")
    assert trio is not None
    assert web is not None
    assert trio["status"]["availableReplicas"] == 3
    assert trio["metadata"]["creationTimestamp"] <= web["metadata"]["creationTimestamp"]
    (link,) = made["links"]
    said = await run(["curl", "-s", "-m", "5", link["url"]], timeout=10)
    assert said.out == "this is web\n"

    own = tmp_path / "own"
    own.mkdir()
    (own / "a.yaml").write_text(workload("own", "back", "registry.internal/tiny/store-trio:1.0"))
    from aftershock.stack.deploy import deploy
    from aftershock.stack.load import load

    await deploy(box, load(f"{own}/"), seconds=60)


def test_what_makes_no_sense_is_refused_before_anything_starts(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "tiny")
    for argv, said in (
        (("--size", "smal"), "did you mean `small`?"),
        (("--component", "store-tri"), "did you mean `store-trio`?"),
        (("--memory", "100"), "the box may use 100 MiB"),
    ):
        done = aftershock("up", "--name", "test-never", "--stack", str(folder), *argv)
        assert done.returncode in (2, 3)
        assert said in " ".join((done.stdout + done.stderr).split()), done.stderr
    assert "test-never" not in aftershock("list").stdout
