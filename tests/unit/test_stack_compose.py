"""What a stack is made of once a size and components have been asked for, and what is refused before anything starts.

The second stack here (`tiny`) knows nothing of the first, and the first nothing of it.
"""

import shutil
import stat
from pathlib import Path

import pytest

from aftershock.base.errors import HostError, ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.stack.content import in_order
from aftershock.stack.deploy import require_memory
from aftershock.stack.load import load, read

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {space}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: "registry.internal/tiny/{name}:1.0"}}]}}
"""
IMAGE = """
image: registry.internal/tiny/{name}
packages: [busybox-static]
versions: {{"1.0": {{}}}}
"""
STACK = """name: tiny
namespace: front
namespaces: [front, back]
front: {service: web, host: tiny.example}
components:
  store: {}
  store-cluster: {replaces: store}
  queue: {needs: [store]}
  web: {needs: [store], after: [queue]}
  extra: {needs: [queue]}
sizes:
  small: [web]
  full: [small, extra]
memory: {small: 300, full: 900}
"""
NAMES = ("store", "store-cluster", "queue", "web", "extra")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "stacks" / "tiny"
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        space = "front" if name == "web" else "back"
        (folder / name / "manifest.yaml").write_text(MANIFEST.format(name=name, space=space))
        (folder / name / "image.yaml").write_text(IMAGE.format(name=name))
    (folder / "stack.yaml").write_text(STACK)
    return folder


def edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "stack.yaml").read_text()
    assert old in text
    (folder / "stack.yaml").write_text(text.replace(old, new, 1))


def test_a_size_brings_what_its_components_need_in_dependency_order(tiny: Path) -> None:
    stack = read(tiny)
    assert (stack.size, stack.components, stack.memory) == ("small", ("store", "web"), 300 << 20)
    assert stack.namespaces == ("front", "back")
    full = read(tiny, size="full")
    assert full.components == ("store", "queue", "web", "extra")
    by_name = {service.name: service for service in full.services}
    assert by_name["web"].needs == ("store",)
    assert by_name["web"].after == ("queue",)
    assert by_name["extra"].needs == ("queue",)
    assert stack.label == "tiny:small"


def test_a_component_asked_for_comes_with_what_it_needs(tiny: Path) -> None:
    stack = read(tiny, components=["extra"])
    assert stack.components == ("store", "queue", "web", "extra")
    assert stack.label == "tiny:small+extra"


def test_a_variant_takes_the_place_of_what_it_replaces(tiny: Path) -> None:
    stack = read(tiny, size="full", components=["store-cluster"])
    assert "store" not in stack.components
    assert {s.name: s.needs for s in stack.services}["web"] == ("store-cluster",)
    assert stack.label == "tiny:full+store-cluster"
    with pytest.raises(UsageError, match="takes the place of `store`"):
        read(tiny, components=["store", "store-cluster"])


@pytest.mark.parametrize(
    ("size", "components", "said", "todo"),
    [
        ("ful", [], "no size `ful`", "did you mean `full`?"),
        ("", ["quue"], "no component `quue`", "did you mean `queue`?"),
    ],
)
def test_unknown_sizes_and_components_are_refused_with_the_nearest(
    tiny: Path, size: str, components: list[str], said: str, todo: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        read(tiny, size=size, components=components)
    assert caught.value.todo == todo
    assert "stack.yaml:" in caught.value.where


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("store: {}", "store: {needs: [extra]}", "ring: store needs extra needs queue needs store"),
        ("queue: {needs: [store]}", "queue: {needs: [stor]}", "there is no component `stor`"),
        ("small: [web]", "small: [web, full]", "ring: small needs full needs small"),
        ("full: [small, extra]", "full: [small, extr]", "there is no component `extr`"),
        ("extra: {needs: [queue]}", "extra: {folders: [web]}", "belongs to two components"),
        ("memory: {small", "memory: {smal", "`memory` names the size `smal`"),
    ],
)
def test_faults_of_a_stack_are_told_with_their_line(tiny: Path, old: str, new: str, said: str) -> None:
    edit(tiny, old, new)
    with pytest.raises(ProblemError, match=said) as caught:
        read(tiny, size="full")
    assert "stack.yaml:" in caught.value.where


def test_two_objects_of_one_name_are_refused_unless_one_overrides(tiny: Path) -> None:
    (tiny / "extra" / "manifest.yaml").write_text(MANIFEST.format(name="queue", space="back"))
    with pytest.raises(ProblemError, match="queue and extra both have Deployment/queue in back"):
        read(tiny, size="full")
    edit(tiny, "extra: {needs: [queue]}", "extra: {needs: [queue], overrides: [Deployment/queue]}")
    stack = read(tiny, size="full")
    assert {s.name: len(s.objects) for s in stack.services}["queue"] == 0


def test_too_little_memory_is_refused_before_anything_starts(tiny: Path) -> None:
    stack = read(tiny, size="full")
    require_memory(stack, 1 << 30, available=1 << 30)
    with pytest.raises(HostError, match="needs 900 MiB of memory, and 512 MiB are left"):
        require_memory(stack, available=512 << 20)
    with pytest.raises(HostError, match="the box may use 800 MiB"):
        require_memory(stack, 800 << 20, available=1 << 30)


def test_the_saved_state_is_keyed_by_what_was_resolved(tiny: Path) -> None:
    small, full = read(tiny), read(tiny, size="full")
    assert small.state != full.state
    (tiny / "extra" / "manifest.yaml").write_text(MANIFEST.format(name="extra", space="front"))
    assert read(tiny).state == small.state
    assert read(tiny, size="full").state != full.state
    (tiny / "journeys.py").write_text("JOURNEYS = {}\n")
    assert read(tiny).state == small.state
    assert read(tiny).digest != small.digest


def test_a_second_stack_needs_nothing_of_the_first(tiny: Path) -> None:
    shutil.copytree(source_root() / "stacks" / "orders", tiny.parent / "orders")
    before = read(tiny.parent / "orders")
    assert load("tiny", tiny.parents[1], size="full").name == "tiny"
    assert load("orders", tiny.parents[1]) == before
    with pytest.raises(UsageError, match="neither sizes nor components"):
        load("orders", tiny.parents[1], size="full")


def test_a_plain_list_waits_only_for_what_is_set_up() -> None:
    services = {service.name: service for service in load("orders").services}
    assert services["postgres"].needs == ()
    assert services["pgbouncer"].needs == ("postgres",)
    assert services["gateway"].needs == ("postgres",)
    assert services["gateway"].after == ("order-worker",)


def test_a_folder_of_plain_manifests_is_a_stack(tmp_path: Path) -> None:
    own = tmp_path / "own-things"
    (own / "deep").mkdir(parents=True)
    (own / "deployment.yml").write_text(MANIFEST.format(name="web", space="mine"))
    (own / "deep" / "space.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: mine}}\n")
    stack = load(f"{own}/")
    assert [obj["kind"] for obj in stack.services[0].objects] == ["Namespace", "Deployment"]
    assert stack.pulls == ("registry.internal/tiny/web:1.0",)
    assert stack.front.service == ""
    with pytest.raises(UsageError, match="no sizes"):
        load(f"{own}/", size="full")
    shutil.rmtree(own / "deep")
    (own / "deployment.yml").write_text("a: [")
    with pytest.raises(ProblemError, match="not YAML"):
        load(f"{own}/")


def test_a_chart_needs_helm_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = tmp_path / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="needs the program helm") as caught:
        load(f"{chart}/")
    assert "plain manifests" in caught.value.todo
    said = tmp_path / "helm"
    said.write_text("#!/bin/sh\necho 'Error: chart is broken' >&2\nexit 1\n")
    said.chmod(said.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ProblemError, match="helm refuses the chart: Error: chart is broken"):
        load(f"{chart}/")


def test_what_is_referred_to_is_applied_first() -> None:
    kinds = ["Deployment", "Service", "ConfigMap", "Namespace", "CustomResourceDefinition"]
    objects = in_order({"kind": kind, "metadata": {"name": "x"}} for kind in kinds)
    assert [obj["kind"] for obj in objects] == [
        "Namespace", "CustomResourceDefinition", "ConfigMap", "Service", "Deployment",
    ]  # fmt: skip


@pytest.mark.parametrize("size", ["small", "full"])
def test_the_shop_resolves(size: str) -> None:
    stack = load("shop", size=size)
    assert stack.components[0] == "access"
    assert set(stack.namespaces) == {"shop", "data", "monitoring", "platform"}
    variant = load("shop", size=size, components=["redis-sentinel", "read-proxy", "rabbitmq"])
    assert "redis" not in variant.components
    assert {"haproxy", "replica"} <= set(variant.components)
