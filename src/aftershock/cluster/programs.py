"""The cluster's own programs and the root file system of its nodes.

`programs` are a few static binaries from the Go module in `box/`, under every name they answer to.
`node-root` is a small Debian made by mmdebstrap; as no maintainer script runs (variant `extract`), the
few things those would have done are done here, in the open.
"""

import asyncio
import shutil
from pathlib import Path

from aftershock.base.errors import BuildError, CommandFailed, HostError
from aftershock.base.paths import source_root
from aftershock.base.run import run
from aftershock.cluster.parts import Part, Progress, digest

__all__ = [
    "DEBIAN",
    "FILES",
    "KUBERNETES",
    "PROGRAMS_BIN",
    "extract_packages",
    "go_program",
    "node_root",
    "programs",
    "say_still",
]

KUBERNETES = "1.34.4"
DEBIAN = "bookworm"
# file -> (package of the Go module, the names that it answers to)
FILES = {
    "kube": (".", ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
                   "coredns", "metrics-server")),
    "agents": ("./agents", ("cloud-controller-manager", "local-path-provisioner", "network-policy-agent")),
    "kubectl": ("./kubectl", ()),
    "pause": ("./pause", ()),
}  # fmt: skip
NODE_PACKAGES = (
    "base-files", "base-passwd", "bash", "dash", "coreutils", "grep", "sed", "mawk", "findutils", "tar",
    "gzip", "hostname", "libc-bin", "netbase", "procps", "util-linux", "mount", "login", "passwd",
    "containerd", "runc", "runit", "iptables", "nftables", "ipset", "iproute2", "conntrack",
    "containernetworking-plugins", "e2fsprogs", "ethtool", "kmod", "iputils-ping", "ca-certificates", "less",
    "curl",
)  # fmt: skip
NODE_RECIPE = "3"
# Where the programs lie in their part, which is a layer of every node's root.
PROGRAMS_BIN = "root/opt/kubernetes/bin"


def go_program() -> str:
    """The Go tool of this machine; it fetches the toolchain that a module asks for."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not found:
        raise HostError(
            "Go is not installed",
            where="needed to build the cluster's programs",
            todo="install Go 1.21 or newer (it fetches the toolchain it needs) and have it on the PATH",
        )
    return found


def programs() -> Part:
    """The binaries and a link for each of their names (about 5 minutes on two cores, cold)."""
    module = source_root() / "box"
    sources = [p for p in sorted(module.rglob("*")) if p.suffix in (".go", ".mod", ".sum") and "_test.go" not in p.name]
    if not sources:
        raise BuildError(
            "the Go module of the cluster's programs is not there",
            where=str(module),
            todo="run from a checkout, or set AFTERSHOCK_ROOT to one",
        )
    version = f"v{KUBERNETES}"
    major, minor, _ = KUBERNETES.split(".")
    stamps = {
        "k8s.io/component-base/version.gitVersion": version,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": version,
    }
    flags = [
        "-trimpath",
        "-tags",
        "providerless",
        "-ldflags",
        " ".join(["-s", "-w", *(f"-X {k}={v}" for k, v in stamps.items())]),
    ]

    async def build(folder: Path, progress: Progress) -> None:
        out = folder / PROGRAMS_BIN
        out.mkdir(parents=True)
        env = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}
        try:
            progress("programs: fetching modules")
            await run([go_program(), "mod", "download"], cwd=module, env=env, timeout=1200)
            progress("programs: compiling Kubernetes, etcd and CoreDNS")
            beat = asyncio.create_task(say_still(progress, "programs: still compiling"))
            try:
                for file, (package, names) in FILES.items():
                    await run(
                        [go_program(), "build", *flags, "-o", str(out / file), package],
                        cwd=module,
                        env=env,
                        timeout=3600,
                    )
                    for name in names:
                        (out / name).symlink_to(file)
            finally:
                beat.cancel()
        except CommandFailed as error:
            raise BuildError(
                f"the cluster's programs do not build: {error.what[-1500:]}",
                where=str(module),
                todo="check the network (module downloads) and the Go version",
            ) from error

    return Part(
        "programs",
        digest(*(p for p in sources), *(str(p.relative_to(module)) for p in sources), *flags, str(FILES), PROGRAMS_BIN),
        build,
        estimate=330,
    )


async def say_still(progress: Progress, text: str) -> None:
    """Say every 15 s that something long goes on, until cancelled."""
    passed = 0
    while True:
        await asyncio.sleep(15)
        passed += 15
        progress(f"{text} ({passed} s)")


async def extract_packages(packages: tuple[str, ...], target: Path) -> None:
    """Unpack Debian packages and all that they depend on into a folder; no maintainer script runs."""
    tar = target.with_name(f"{target.name}.tar")
    hide = [f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("man", "locale", "doc", "info", "lintian", "bug")]
    try:
        await run(
            ["mmdebstrap", "--variant=extract", "--quiet", '--aptopt=APT::Install-Recommends "false"', *hide,
             f"--include={','.join(packages)}", DEBIAN, str(tar)],
            env={"SOURCE_DATE_EPOCH": "1700000000"}, timeout=900,
        )  # fmt: skip
        target.mkdir(parents=True, exist_ok=True)
        await run(["tar", "-xpf", str(tar), "-C", str(target)], timeout=120)
    except CommandFailed as error:
        raise BuildError(
            f"Debian packages could not be unpacked: {error.what[-800:]}",
            todo="check the network and the machine's package sources",
        ) from error
    finally:
        tar.unlink(missing_ok=True)


def node_root() -> Part:
    """The root file system that all nodes share, read-only."""

    async def build(folder: Path, progress: Progress) -> None:
        root = folder / "root"
        await extract_packages(NODE_PACKAGES, root)
        sbin = root / "usr/sbin"
        for family in ("iptables", "ip6tables"):
            for suffix in ("", "-save", "-restore"):
                (sbin / f"{family}{suffix}").unlink(missing_ok=True)
                (sbin / f"{family}{suffix}").symlink_to("xtables-nft-multi")
        etc = root / "etc"
        (etc / "passwd").write_text(
            "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        )
        (etc / "group").write_text("root:x:0:\ndaemon:x:1:\ntty:x:5:\ndisk:x:6:\nnogroup:x:65534:\n")
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
        (root / "bin/sh").unlink(missing_ok=True)
        (root / "bin/sh").symlink_to("dash")
        for name in ("awk",):
            (root / f"usr/bin/{name}").unlink(missing_ok=True)
            (root / f"usr/bin/{name}").symlink_to("mawk")
        (etc / "service").unlink(missing_ok=True)
        for place in (
            "etc/kubernetes",
            "etc/service",
            "etc/containerd",
            "etc/cni/net.d",
            "mnt",
        ):
            (root / place).mkdir(parents=True, exist_ok=True)
        for cached in ("var/cache/apt", "var/lib/apt/lists", "boot"):
            shutil.rmtree(root / cached, ignore_errors=True)
        await run(["chroot", str(root), "/sbin/ldconfig"], timeout=30)

    return Part("node-root", digest(DEBIAN, *NODE_PACKAGES, NODE_RECIPE), build, estimate=60)
