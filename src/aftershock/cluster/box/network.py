"""The wires of a box.

    machine ──link── [ world: bridge, users, external parties ] ──┬── node-0
                                                                  ├── node-1 …

The world is a network namespace: it is the internet of that box. Users come from 198.51.100.0/24,
external parties live on 203.0.113.0/24, front doors get addresses of 192.0.2.0/26 (the ranges that
RFC 5737 sets aside for documentation), spread over the nodes that answer. The machine has one link
into it and may open connections to the nodes; nothing inside can open one to the machine, and
there is no way out. Each node has a network namespace of its own, wired before the node starts.
"""

import ipaddress
import json
from pathlib import Path

from aftershock.base.errors import HostError
from aftershock.base.run import run
from aftershock.cluster.base import World
from aftershock.cluster.box import cgroups
from aftershock.cluster.box.layout import Layout
from aftershock.cluster.host import filter_bridges

__all__ = ["FRONT_DOORS", "POD_RANGE", "SERVICE_RANGE", "link_exists", "lower", "raise_network", "taken", "world"]

FRONT_DOORS = "192.0.2.0/26"
FRONT = "192.0.2.10"
USERS = "198.51.100.0/24"
PARTIES = "203.0.113.0/24"
POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"


def world(layout: Layout) -> World:
    groups = tuple(str(path) for path in cgroups.joins(layout, cgroups.WORLD))
    return World(layout.netns, FRONT, USERS, PARTIES, groups)


def pod_range(n: int) -> str:
    return f"10.244.{n}.0/24"


async def _batch(netns: str, lines: list[str]) -> None:
    """Run many `ip` commands in one process, in a namespace ("" for the machine's own)."""
    where = ["-n", netns] if netns else []
    await run(["ip", *where, "-batch", "-"], stdin="\n".join(lines) + "\n", timeout=20, where=netns or "the machine")


async def _sysctl(netns: str, settings: dict[str, str]) -> None:
    script = "".join(
        f"echo {value} > /proc/sys/{key.replace('.', '/')} 2>/dev/null || :\n" for key, value in settings.items()
    )
    await run(["ip", "netns", "exec", netns, "sh", "-c", script], timeout=10)


async def taken(net: str, slot: int) -> str:
    """Why a slot's addresses or link cannot be used now; empty when they can."""
    wanted = ipaddress.ip_network(f"{'.'.join(net.split('.')[:2])}.{slot}.0/24")
    if link_exists(f"as{slot}"):
        return f"a link as{slot} exists"
    routes = json.loads((await run(["ip", "-json", "route", "show", "table", "all"], timeout=10)).out or "[]")
    for route in routes:
        text = route.get("dst", "default")
        if text == "default" or ":" in text or text == "all":
            continue
        other = ipaddress.ip_network(text if "/" in text else f"{text}/32", strict=False)
        if other.prefixlen > 0 and other.overlaps(wanted):
            return f"the machine has a route to {text}"
    return ""


def link_exists(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()


async def raise_network(layout: Layout) -> None:
    """Make the world, the nodes' namespaces and all links between them."""
    if not filter_bridges():
        raise HostError(
            "packets between pods of a node would pass by its Services and policies",
            where="no /proc/sys/net/bridge",
            todo="load the module br_netfilter; `aftershock doctor` shows everything",
        )
    near, far = layout.uplink
    netns = layout.netns
    for name in (netns, *(layout.node_netns(n) for n in range(layout.nodes))):
        await run(["ip", "netns", "add", name], timeout=10)
    await _batch("", [f"link add {layout.link} type veth peer name up0 netns {netns}"])
    ports = []
    for n in range(layout.nodes):
        ports += [
            f"link add node{n} type veth peer name eth0 netns {layout.node_netns(n)}",
            f"link set node{n} master br0 up",
        ]
    hops = " ".join(f"nexthop via {layout.address(n)} dev br0" for n in range(layout.nodes))
    await _batch(
        netns,
        [
            "link set lo up",
            "link add br0 type bridge forward_delay 0",
            f"addr add {layout.gateway}/25 dev br0",
            "link set br0 up",
            f"addr add {far}/30 dev up0",
            "link set up0 up",
            f"route add local {USERS} dev lo",
            f"route add local {PARTIES} dev lo",
            *ports,
            f"route add {FRONT_DOORS} {hops}",
        ],
    )
    # A dead node's neighbour entry fails and its share of new connections goes to the others.
    await _sysctl(
        netns,
        {
            "net.ipv4.ip_forward": "1",
            "net.ipv4.fib_multipath_hash_policy": "1",
            "net.ipv4.fib_multipath_use_neigh": "1",
            "net.bridge.bridge-nf-call-iptables": "0",
            "net.ipv4.ip_local_port_range": "10000 65000",
            "net.ipv4.tcp_tw_reuse": "1",
        },
    )
    await run(
        ["ip", "netns", "exec", netns, "iptables-restore"],
        stdin="\n".join(
            [
                "*filter",
                ":INPUT ACCEPT [0:0]",
                ":FORWARD DROP [0:0]",
                ":OUTPUT ACCEPT [0:0]",
                "-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
                "-A FORWARD -i up0 -o br0 -j ACCEPT",
                "-A OUTPUT -o up0 -m conntrack --ctstate NEW -j REJECT",
                "COMMIT",
                "*nat",
                "-A POSTROUTING -s " + near + "/32 -o br0 -j MASQUERADE",
                "COMMIT",
                "",
            ]
        ),
        timeout=10,
    )
    for n in range(layout.nodes):
        others = [f"route add {pod_range(m)} via {layout.address(m)}" for m in range(layout.nodes) if m != n]
        await _batch(
            layout.node_netns(n),
            [
                "link set lo up",
                f"addr add {layout.address(n)}/25 dev eth0",
                "link set eth0 up",
                f"route add default via {layout.gateway}",
                *others,
            ],
        )
        await _sysctl(
            layout.node_netns(n),
            {
                "net.ipv4.ip_forward": "1",
                "net.bridge.bridge-nf-call-iptables": "1",
                # A Service without endpoints refuses. With the usual limit the seventh refusal within seconds is
                # never sent: a pod that looks up a name while the name server starts then waits for five seconds.
                "net.ipv4.icmp_ratelimit": "0",
                "net.ipv4.conf.all.route_localnet": "1",
            },
        )
        # Pods keep their addresses among themselves, so that policies can tell them apart; beyond the
        # cluster they speak with their node's.
        await run(
            ["ip", "netns", "exec", layout.node_netns(n), "iptables", "-t", "nat", "-A", "POSTROUTING",
             "-s", POD_RANGE, "!", "-d", POD_RANGE, "-j", "MASQUERADE"], timeout=10,
        )  # fmt: skip
    await _batch(
        "",
        [
            f"addr add {near}/30 dev {layout.link}",
            f"link set {layout.link} up",
            f"route add {layout.subnet} via {far} dev {layout.link}",
        ],
    )


async def lower(layout: Layout) -> None:
    """Remove what `raise_network` made, whatever of it is there."""
    if link_exists(layout.link):
        await run(["ip", "link", "del", layout.link], check=False, timeout=10)
    present = {p.name for p in Path("/run/netns").iterdir()} if Path("/run/netns").is_dir() else set()
    for name in (layout.netns, *(layout.node_netns(n) for n in range(layout.nodes))):
        if name in present:
            done = await run(["ip", "netns", "del", name], check=False, timeout=10)
            if not done.ok and (Path("/run/netns") / name).exists():
                raise HostError(
                    f"the network namespace {name} cannot be removed: {done.tail(200)}",
                    todo="see which process or mount holds it",
                )
