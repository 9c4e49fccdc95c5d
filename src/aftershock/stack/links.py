"""Where a person can open what a stack shows: Services with a port on the nodes, reached from this machine."""

from aftershock.cluster.base import Cluster
from aftershock.stack.model import Stack

__all__ = ["links"]


async def links(cluster: Cluster, stack: Stack) -> list[dict[str, str]]:
    """Title and URL of each page of the stack that this composition has."""
    found = []
    async with cluster.api() as api:
        nodes = await api.list("Node")
        addresses = [a["address"] for n in nodes for a in n["status"]["addresses"] if a["type"] == "InternalIP"]
        for link in stack.links:
            service = await api.get("Service", link.service, link.namespace)
            ports = (service or {}).get("spec", {}).get("ports", [])
            port = next((p for p in ports if p.get("nodePort") and link.port in ("", p.get("name"))), None)
            if port and addresses:
                scheme = "https" if port.get("name") == "https" else "http"
                url = f"{scheme}://{addresses[0]}:{port['nodePort']}{link.path}"
                found.append({"title": link.title, "url": url})
    return found
