"""How stack.yaml and image.yaml are written."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["ChartFile", "ComponentFile", "FrontFile", "ImageFile", "LinkFile", "SetupFile", "StackFile", "VersionFile"]

NAME = r"^[a-z][a-z0-9-]*$"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FrontFile(Strict):
    """The Service that users come to. `path` answers 200 when the whole way down works."""

    service: str = Field(pattern=NAME)
    port: int = Field(80, gt=0, lt=65536)
    host: str = Field(min_length=1)
    path: str = Field("/", pattern="^/")


class SetupFile(Strict):
    """A command run once in a pod, right after the folder `after` is up. `stdin` is a file of the stack."""

    after: str = Field(pattern=NAME)
    pod: str = Field(min_length=1)
    namespace: str = ""
    run: list[str] = Field(min_length=1)
    stdin: str = ""


class ChartFile(Strict):
    """A Helm chart in a folder of the stack, rendered by the `helm` program of this machine."""

    folder: str = Field(min_length=1)
    release: str = Field("", pattern=r"^([a-z][a-z0-9-]*)?$")
    namespace: str = ""
    values: list[str] = Field(default_factory=list)


class ComponentFile(Strict):
    """A part of the system that can be asked for by its name.

    `folders` (with a manifest.yaml each; the folder of its own name when nothing is said), `manifests`
    (files) and `chart` say what it is made of. It is deployed once the components in `needs` are healthy
    and those in `after` are applied. One that `replaces` another takes its place for all that need it.
    Objects named in `overrides` (`ConfigMap/name`) replace those of the same name in other components.
    """

    folders: list[str] = Field(default_factory=list)
    manifests: list[str] = Field(default_factory=list)
    chart: ChartFile | None = None
    needs: list[str] = Field(default_factory=list)
    after: list[str] = Field(default_factory=list)
    replaces: str = ""
    overrides: list[str] = Field(default_factory=list)


class LinkFile(Strict):
    """A page that a person can open: a Service with a port on the nodes."""

    title: str = Field(min_length=1)
    service: str = Field(pattern=NAME)
    namespace: str = ""
    port: str = ""
    path: str = Field("/", pattern="^/")


class StackFile(Strict):
    """The keys of stack.yaml: either `order`, a plain list of folders, or `components` and `sizes`.

    `history`: for so many seconds users come before the stack's state is saved, so that telemetry has a past.
    A size is a list of components and of other sizes. `memory` is what a box needs for a size, in MiB.
    """

    name: str = Field(pattern=NAME)
    nodes: int = Field(1, ge=1, le=8)
    namespace: str = Field("default", pattern=NAME)
    namespaces: list[str] = Field(default_factory=list)
    front: FrontFile | None = None
    order: list[str] = Field(default_factory=list)
    components: dict[str, ComponentFile] = Field(default_factory=dict)
    sizes: dict[str, list[str]] = Field(default_factory=dict)
    memory: dict[str, int] = Field(default_factory=dict)
    setup: list[SetupFile] = Field(default_factory=list)
    journey: str = ""
    parties: list[str] = Field(default_factory=list)
    links: list[LinkFile] = Field(default_factory=list)
    pull: bool = False
    history: float = Field(0, ge=0)

    @model_validator(mode="after")
    def _known(self) -> "StackFile":
        if bool(self.order) == bool(self.components):
            raise ValueError("a stack has either `order` or `components`")
        if self.components and not self.sizes:
            raise ValueError("a stack with `components` has `sizes`")
        twice = {name for name in self.order if self.order.count(name) > 1}
        if twice:
            raise ValueError(f"`order` names {', '.join(sorted(twice))} twice")
        for step in self.setup:
            if self.order and step.after not in self.order:
                raise ValueError(f"setup comes after `{step.after}`, which `order` does not name")
        for size in self.memory:
            if size not in self.sizes:
                raise ValueError(f"`memory` names the size `{size}`, which `sizes` does not")
        return self


class VersionFile(Strict):
    """Files of one version: source relative to the service folder -> absolute destination."""

    files: dict[str, str] = Field(default_factory=dict)


class ImageFile(Strict):
    """An image. `programs` are tools of `tools/`, each with its destination in the image."""

    image: str = Field(pattern=r"^[a-z0-9.-]+(/[a-z0-9._-]+)+$")
    packages: list[str] = Field(default_factory=list)
    programs: dict[str, str] = Field(default_factory=dict)
    requirements: str = ""
    versions: dict[str, VersionFile] = Field(min_length=1)
    entrypoint: list[str] = Field(default_factory=list)
    cmd: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    user: str = "0"
    workdir: str = Field("/", pattern="^/")

    @model_validator(mode="after")
    def _runs_something(self) -> "ImageFile":
        if not self.packages and not self.programs:
            raise ValueError("an image needs `packages` or `programs`")
        return self
