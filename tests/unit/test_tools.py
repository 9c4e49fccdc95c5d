"""Programs built from pinned sources: what a part depends on, and how they get into an image."""

import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from aftershock.base.errors import BuildError, ProblemError, UsageError
from aftershock.base.paths import source_root
from aftershock.cluster import tools
from aftershock.cluster.image.build import build_images
from aftershock.cluster.image.spec import ImageSpec
from aftershock.cluster.parts import ensure
from aftershock.stack.load import read

GO_MOD = "module tools/echo\n\ngo 1.25.0\n\ntool example.org/echo/cmd/echo\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one tool, a cache of its own, and a compiler that writes down how it was called."""
    folder = tmp_path / "tools/echo"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text("")
    program = tmp_path / "bin/go"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\nargs = sys.argv[1:]\n"
        "if args[0] == 'build':\n    out = pathlib.Path(args[args.index('-o') + 1])\n"
        "    out.write_text(' '.join(args))\n    out.chmod(0o755)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("AFTERSHOCK_ROOT", str(tmp_path))
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_every_tool_names_one_pinned_program() -> None:
    assert {"nats-server", "victoria-metrics", "vmalert", "alertmanager", "vlagent"} <= set(tools.names())
    for name in tools.names():
        package = tools.package(name)
        text = (source_root() / "tools" / name / "go.mod").read_text()
        pinned = [line.split()[0] for line in text.splitlines() if line.startswith("\t")]
        assert any(package == module or package.startswith(f"{module}/") for module in pinned), name
        assert (source_root() / "tools" / name / "go.sum").stat().st_size


async def test_a_tool_is_built_from_what_its_module_names(root: Path) -> None:
    said: list[str] = []
    folder = await ensure(tools.tool("echo"), said.append)
    call = (folder / "echo").read_text().split()
    assert (call[0], call[-1]) == ("build", "example.org/echo/cmd/echo")
    assert "-trimpath" in call
    assert any("about 30 s" in line for line in said)


def test_the_key_follows_version_and_hashes_and_nothing_else(root: Path) -> None:
    folder = root / "tools/echo"
    keys = [tools.tool("echo").key]
    (folder / "README.md").write_text("words")
    assert tools.tool("echo").key == keys[0]
    for name in ("go.mod", "go.sum"):
        (folder / name).write_text((folder / name).read_text() + "// more\n")
        keys.append(tools.tool("echo").key)
    assert len(set(keys)) == 3


def test_faults_of_a_tool_are_told(root: Path) -> None:
    with pytest.raises(UsageError, match="no tool `ecko`") as unknown:
        tools.tool("ecko")
    assert "echo" in unknown.value.todo
    (root / "tools/echo/go.mod").write_text("module tools/echo\n")
    with pytest.raises(BuildError, match="names 0"):
        tools.tool("echo")


async def test_a_build_that_fails_says_what_the_compiler_said(root: Path) -> None:
    (root / "bin/go").write_text("#!/bin/sh\necho 'undefined: echo.Twice' >&2\nexit 1\n")
    with pytest.raises(BuildError, match=r"undefined: echo\.Twice"):
        await ensure(tools.tool("echo"))


async def test_an_image_holds_a_program_in_a_layer_that_others_share(root: Path) -> None:
    page = root / "page"
    page.write_text("x")
    specs = [
        ImageSpec("registry.internal/a", "1", packages=(), programs=(("echo", "/usr/bin/echo"),)),
        ImageSpec(
            "registry.internal/b", "1", packages=(), programs=(("echo", "/usr/bin/echo"),), files=((page, "/p"),)
        ),
    ]
    one, two = await build_images(specs)
    assert one.layers == two.layers[:1]
    assert len(two.layers) == 2
    with tarfile.open(one.layers[0].path) as tar:
        assert tar.getmember("usr/bin/echo").mode == 0o755


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """A copy of the orders stack whose gateway carries a program too."""
    folder = Path(shutil.copytree(source_root() / "stacks" / "orders", tmp_path / "stacks" / "orders"))
    image = folder / "gateway/image.yaml"
    image.write_text(image.read_text() + "programs: {nats-server: /usr/bin/nats-server}\n")
    return folder


def test_a_stack_takes_programs_and_its_digest_follows_their_versions(
    stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(stack)
    gateway = next(image for image in before.images() if image.name.endswith("/nginx"))
    assert gateway.programs == (("nats-server", "/usr/bin/nats-server"),)
    other = stack.parents[1] / "tools"
    shutil.copytree(source_root() / "tools", other)
    monkeypatch.setenv("AFTERSHOCK_ROOT", str(other.parent))
    assert read(stack).digest == before.digest
    (other / "nats-server/go.sum").write_text("")
    assert read(stack).digest != before.digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nats-server: /usr", "nats-sever: /usr", "no tool `nats-sever`"),
        ("nats-server: /usr", "nats-server: usr", "not absolute"),
    ],
)
def test_a_wrong_program_is_told_with_its_line(stack: Path, old: str, new: str, said: str) -> None:
    image = stack / "gateway/image.yaml"
    image.write_text(image.read_text().replace(old, new))
    with pytest.raises(ProblemError, match=said) as caught:
        read(stack)
    assert f"{image}:" in caught.value.where


def test_an_image_of_nothing_is_refused(stack: Path) -> None:
    image = stack / "gateway/image.yaml"
    text = image.read_text().replace("programs: {nats-server: /usr/bin/nats-server}\n", "")
    image.write_text("".join(line for line in text.splitlines(True) if not line.startswith("packages:")))
    with pytest.raises(ProblemError, match="needs `packages` or `programs`"):
        read(stack)
