"""How stack.yaml and image.yaml are written."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["FrontFile", "ImageFile", "SetupFile", "StackFile", "VersionFile"]

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
    """A command run once in a pod, right after the service `after` is up. `stdin` is a file of the stack."""

    after: str = Field(pattern=NAME)
    pod: str = Field(min_length=1)
    run: list[str] = Field(min_length=1)
    stdin: str = ""


class StackFile(Strict):
    name: str = Field(pattern=NAME)
    nodes: int = Field(1, ge=1, le=8)
    namespace: str = Field(pattern=NAME)
    front: FrontFile
    order: list[str] = Field(min_length=1)
    setup: list[SetupFile] = Field(default_factory=list)
    journey: str = Field(pattern=NAME)

    @model_validator(mode="after")
    def _known(self) -> "StackFile":
        twice = {name for name in self.order if self.order.count(name) > 1}
        if twice:
            raise ValueError(f"`order` names {', '.join(sorted(twice))} twice")
        for step in self.setup:
            if step.after not in self.order:
                raise ValueError(f"setup comes after `{step.after}`, which `order` does not name")
        return self


class VersionFile(Strict):
    """Files of one version: source relative to the service folder -> absolute destination."""

    files: dict[str, str] = Field(default_factory=dict)


class ImageFile(Strict):
    image: str = Field(pattern=r"^[a-z0-9.-]+(/[a-z0-9._-]+)+$")
    packages: list[str] = Field(min_length=1)
    requirements: str = ""
    versions: dict[str, VersionFile] = Field(min_length=1)
    entrypoint: list[str] = Field(default_factory=list)
    cmd: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    user: str = "0"
    workdir: str = Field("/", pattern="^/")
