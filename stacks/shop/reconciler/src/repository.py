"""The repository with the declared state: a bare one on the volume, served to people by git's own daemon."""

import asyncio
import io
import os
import tarfile
import tempfile
from pathlib import Path

from marketlib.logs import log

__all__ = ["GitError", "Repository", "daemon"]

IDENTITY = {
    "GIT_AUTHOR_NAME": "Platform Team",
    "GIT_AUTHOR_EMAIL": "platform@market.example",
    "GIT_COMMITTER_NAME": "Platform Team",
    "GIT_COMMITTER_EMAIL": "platform@market.example",
}


class GitError(Exception):
    """git said no; the text is what it said."""


async def git(*argv: str, cwd: Path | None = None) -> bytes:
    """Run git; its output. Raises GitError."""
    process = await asyncio.create_subprocess_exec(
        "git",
        *argv,
        cwd=cwd,
        env={**os.environ, **IDENTITY},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode:
        raise GitError(f"git {argv[0]}: {err.decode(errors='replace').strip()[-400:]}")
    return out


class Repository:
    """A bare repository and the branch that counts."""

    def __init__(self, path: Path, branch: str = "main") -> None:
        self.path = path
        self.branch = branch

    def exists(self) -> bool:
        return (self.path / "HEAD").is_file()

    async def make(self, files: dict[str, str], message: str) -> None:
        """Make the repository with a first commit. A half-made one is made again."""
        beside = self.path.with_name(f".{self.path.name}.new")
        with tempfile.TemporaryDirectory() as folder:
            await git("init", "-q", "-b", self.branch, folder)
            for name, text in files.items():
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
            await git("add", "-A", cwd=Path(folder))
            await git("commit", "-q", "-m", message, cwd=Path(folder))
            if beside.exists():
                await asyncio.to_thread(_remove, beside)
            await git("clone", "-q", "--bare", folder, str(beside))
        await git("remote", "remove", "origin", cwd=beside)
        beside.rename(self.path)

    def stamp(self) -> tuple[int, ...]:
        """Changes whenever the branch may have; costs no program."""
        found = []
        for name in (f"refs/heads/{self.branch}", "packed-refs"):
            try:
                found.append((self.path / name).stat().st_mtime_ns)
            except OSError:
                found.append(0)
        return tuple(found)

    async def revision(self) -> str:
        """The branch's newest commit."""
        return (await git(f"--git-dir={self.path}", "rev-parse", f"refs/heads/{self.branch}")).decode().strip()

    async def subject(self, revision: str) -> str:
        """First line of a commit's message, and its author."""
        return (await git(f"--git-dir={self.path}", "log", "-1", "--format=%s (%an)", revision)).decode().strip()

    async def files(self, revision: str, folder: str) -> dict[str, str]:
        """The manifests below a folder, by path."""
        packed = await git(f"--git-dir={self.path}", "archive", "--format=tar", revision, folder)
        found = {}
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isfile() else None
                if data and member.name.endswith((".yaml", ".yml")):
                    found[member.name] = data.read().decode()
        return found


def _remove(path: Path) -> None:
    for entry in sorted(path.rglob("*"), reverse=True):
        entry.rmdir() if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    path.rmdir()


async def daemon(base: Path, stop: asyncio.Event) -> None:
    """Serve all repositories below a folder by git://, for reading and writing, until `stop`."""
    process = await asyncio.create_subprocess_exec(
        *("git", "daemon", "--reuseaddr", f"--base-path={base}", "--export-all", "--enable=receive-pack"),
        *("--informative-errors", "--listen=0.0.0.0", "--max-connections=16", str(base)),
    )
    ended, stopped = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            raise GitError(f"the git daemon ended with {process.returncode}")
    finally:
        stopped.cancel()
        if process.returncode is None:
            process.terminate()
            await process.wait()
        log.info("git daemon ended")
