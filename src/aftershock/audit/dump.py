"""Everything that the on-call's identity can read, as one file of passages: where each is from, and its text.

The API is asked what there is (discovery), and everything listable is listed: cluster-wide where that is allowed,
else in each namespace. Then logs of all containers, and what a shell in each pod shows: processes, mounts,
environment, names of all files, what is in the small ones. What the agent is handed
counts too. What is refused is left out: an agent cannot read it either.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from aftershock.base.errors import AftershockError
from aftershock.cluster.api import Api

__all__ = ["dump"]

# One shell, as little as an image may have. What it lacks says so on standard error, which nobody reads.
LOOK = """
for file in /proc/self/mountinfo /proc/1/cgroup /etc/hosts /etc/resolv.conf /etc/passwd /proc/cmdline /proc/version; do
  echo "--- $file"; cat "$file"
done
echo "--- env"; env
for process in /proc/[0-9]*; do
  echo "--- $process/cmdline"; tr '\\000' ' ' <"$process/cmdline"
  echo; echo "--- $process/environ"; tr '\\000' '\\n' <"$process/environ"
done
echo "--- /"; ls -la / /tmp /run /var/log /root /home
echo "--- files"
find / -xdev -type f -not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/share/*' | head -n 40000
echo "--- what is in the small ones outside of /usr and /var/lib"
find / -xdev -type f -size -64k -not -path '/usr/*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/var/lib/*' \
  -exec grep -aH '' {} + | head -c 3000000
echo "--- network"; cat /proc/net/tcp /proc/net/route /proc/net/unix
"""
SIDE_BY_SIDE = 6


async def dump(api: Api, out: Path, given: Mapping[str, str]) -> Path:
    """Write it, a JSON object a line: `where`, `text`, and `data` where it is an object of the API.

    Args:
        given: texts that the agent is handed, by name: they are read too.
    """
    gate = asyncio.Semaphore(SIDE_BY_SIDE)
    with out.open("w") as file:

        def write(where: str, text: str = "", data: Any = None) -> None:
            file.write(json.dumps({"where": where, "text": text, "data": data}) + "\n")

        for name, text in given.items():
            write(name, text)
        write("version", data=await _json(api, "/version"))
        pods: list[dict[str, Any]] = []
        async for where, item in _objects(api):
            write(where, data=item)
            if where.startswith("pods.v1/"):
                pods.append(item)

        async def look(pod: dict[str, Any]) -> None:
            async with gate:
                await _look(api, pod, write)

        await asyncio.gather(*(look(pod) for pod in pods))
    return out


async def _json(api: Api, path: str) -> Any:
    """A document of the API, None where it is refused or is not there."""
    response = await api.request("GET", path)
    if response.is_error:
        return None
    try:
        return response.json()
    except ValueError:
        return None


async def _resources(api: Api) -> AsyncIterator[tuple[str, str, str, bool]]:
    """(group/version, path, plural, namespaced) of everything that can be listed."""
    roots = [("v1", "/api/v1")]
    for group in ((await _json(api, "/apis")) or {}).get("groups", []):
        version = group["preferredVersion"]["groupVersion"]
        roots.append((version, f"/apis/{version}"))
    for version, root in roots:
        for entry in ((await _json(api, root)) or {}).get("resources", []):
            if "/" not in entry["name"] and "list" in entry["verbs"]:
                yield version, root, entry["name"], entry["namespaced"]


async def _objects(api: Api) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    spaces = [n["metadata"]["name"] for n in ((await _json(api, "/api/v1/namespaces")) or {}).get("items", [])]
    async for version, root, plural, namespaced in _resources(api):
        whole = await _json(api, f"{root}/{plural}")
        found = [whole] if whole else []
        if not whole and namespaced:
            found = [part for space in spaces if (part := await _json(api, f"{root}/namespaces/{space}/{plural}"))]
        for part in found:
            for item in part.get("items") or []:
                meta = item.get("metadata", {})
                name = "/".join(word for word in (meta.get("namespace"), meta.get("name")) if word)
                yield f"{plural}.{version}/{name}", item


async def _look(api: Api, pod: dict[str, Any], write: Any) -> None:
    """Logs of all containers of a pod, and what a shell in each of them shows."""
    space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    for container in (*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]):
        place = f"{space}/{name}/{container['name']}"
        for previous in (False, True):
            try:
                text = await api.logs(space, name, container=container["name"], previous=previous)
            except AftershockError:
                continue
            write(f"log {place}{' before' if previous else ''}", text)
    if pod.get("status", {}).get("phase") != "Running":
        return
    for container in pod["spec"]["containers"]:
        shown = await api.exec(space, name, ["sh", "-c", LOOK], container=container["name"], timeout=60)
        if shown.out:
            write(f"exec {space}/{name}/{container['name']}", shown.out)
