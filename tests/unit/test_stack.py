"""Stack folders: what is read from them, and how faults in them are told."""

import shutil
from pathlib import Path

import pytest
import yaml

from aftershock.base.errors import ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.stack.load import find, load, pod_images, read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the orders stack to be broken."""
    return Path(shutil.copytree(source_root() / "stacks" / "orders", tmp_path / "stacks" / "orders"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_orders_brings_every_image_that_its_pods_name() -> None:
    stack = load("orders")
    named = {image for service in stack.services for image in pod_images(service.objects)}
    built = {image.reference for image in stack.images()}
    assert named <= built
    api = sorted(image.tag for image in stack.images() if image.name.endswith("/orders-api"))
    assert api == ["2.3.1", "2.4.0", "2.5.0"]
    assert len({image.packages for image in stack.images()}) == 3  # as many base layers


def test_pods_name_nothing_that_would_be_pulled_and_nothing_of_ours() -> None:
    stack = load("orders")
    text = yaml.safe_dump_all(obj for service in stack.services for obj in service.objects).lower()
    for word in ("aftershock", "benchmark", "chaos", "inject", "incident", "oracle", "trial"):
        assert word not in text
    containers = [
        container
        for service in stack.services
        for obj in service.objects
        if obj["kind"] in ("Deployment", "StatefulSet")
        for container in obj["spec"]["template"]["spec"]["containers"]
    ]
    assert len(containers) == 7
    assert all(container["imagePullPolicy"] == "IfNotPresent" for container in containers)
    assert all(container["resources"]["requests"] for container in containers)


def test_the_passwords_of_logins_agree() -> None:
    stack = load("orders")
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for service in stack.services for obj in service.objects}
    logins = objects["Secret", "database-logins"]["stringData"]
    roles = (stack.folder / "postgres/setup/roles.sql").read_text()
    for name in ("app", "worker", "reports", "migrator", "monitoring", "oncall"):
        assert f"create role {name:<10} login password '{logins[name]}'" in roles
    users = objects["Secret", "pgbouncer-users"]["stringData"]["userlist.txt"]
    for name in ("app", "worker"):
        assert f'"{name}" "{logins[name]}"' in users


def test_an_unknown_key_is_told_with_its_line(folder: Path) -> None:
    edit(folder / "stack.yaml", "namespace: shop", "namespace: shop\nnamespac: shop")
    with pytest.raises(ProblemError, match="unknown key `namespac`") as caught:
        read(folder)
    assert caught.value.where.endswith("stack.yaml:5")
    assert "namespace" in caught.value.todo


def test_an_unknown_key_of_an_image_is_told_with_its_line(folder: Path) -> None:
    edit(folder / "gateway/image.yaml", "workdir: /", "workdirs: /")
    with pytest.raises(ProblemError, match="unknown key `workdirs`") as caught:
        read(folder)
    assert "image.yaml:9" in caught.value.where


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("stack.yaml", "  - gateway\n", "  - gatway\n", "no gatway/manifest.yaml"),
        ("stack.yaml", "  - gateway\n", "  - postgres\n", "`order` names postgres twice"),
        ("stack.yaml", "after: postgres", "after: redis", "which `order` does not name"),
        ("stack.yaml", "name: orders", "name: other", "lies in the folder orders"),
        ("postgres/image.yaml", "start.sh: /usr", "begin.sh: /usr", "there is no `begin.sh`"),
        ("postgres/image.yaml", "start.sh: /usr", "../../x: /usr", "outside the stack's folder"),
        ("postgres/image.yaml", "start.sh: /usr/local/bin", "start.sh: usr", "not absolute"),
        ("postgres/manifest.yaml", "postgres:15-bookworm", "postgres:16", "is in no image.yaml"),
        ("postgres/manifest.yaml", "kind: Service\n", "kind: [\n", "not YAML"),
    ],
)
def test_faults_are_told(folder: Path, file: str, old: str, new: str, said: str) -> None:
    edit(folder / file, old, new)
    with pytest.raises(ProblemError) as caught:
        read(folder)
    assert said in caught.value.what
    assert str(folder) in caught.value.where


def test_the_digest_changes_with_what_reaches_the_cluster_and_with_nothing_else(folder: Path) -> None:
    before = read(folder).digest
    (folder / "README.md").write_text("other words")
    (folder / "orders-api/src/__pycache__").mkdir()
    (folder / "orders-api/src/__pycache__/main.pyc").write_bytes(b"x")
    assert read(folder).digest == before
    edit(folder / "sales-report/report.py", "BATCH_ROWS", "BATCH_SIZE")
    assert read(folder).digest != before


def test_an_unknown_stack_is_told_with_what_was_probably_meant() -> None:
    assert "orders" in find()
    with pytest.raises(UsageError) as caught:
        load("order")
    assert "`orders`" in caught.value.todo
