"""What an image is made of, as plain data: what the builder takes and what its digest depends on."""

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ImageSpec"]


@dataclass(frozen=True)
class ImageSpec:
    """One image.

    Args:
        name: repository, without a tag (`registry.internal/shop/orders-api`).
        tag: its version.
        packages: Debian packages of its base layer; images with the same packages share it.
        programs: (tool of `tools/`, absolute destination); each a layer of its own, shared by all images with it.
        requirements: hash-locked Python requirements of a layer of their own.
        files: (source file or folder, absolute destination); the top layer. A folder's content is laid
            into the destination, over what sources before it put there.
        entrypoint, cmd, env, user, workdir: as in an OCI image configuration.
    """

    name: str
    tag: str
    packages: tuple[str, ...]
    requirements: Path | None = None
    programs: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[Path, str], ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=())
    user: str = "0"
    workdir: str = "/"

    @property
    def reference(self) -> str:
        """Name and tag, as in a pod."""
        return f"{self.name}:{self.tag}"
