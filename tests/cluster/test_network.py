"""Pods, Services, DNS, policies, front doors, and what lies outside."""

import asyncio
import json

from aftershock.base.run import run
from aftershock.base.wait import NotYet, until
from aftershock.cluster.box.network import FRONT_DOORS

from .conftest import SERVE, Cluster, service, workload


async def test_pods_reach_a_service_by_name_from_every_node(cluster: Cluster) -> None:
    await cluster.apply(workload("web", replicas=2), service("web"))
    await cluster.api.rolled_out("Deployment", "web", cluster.namespace)
    for node in cluster.box.nodes:
        await cluster.pod(f"client-{node}", "sleep 600", node=node)
        await cluster.until_reach(True, f"client-{node}", f"web.{cluster.namespace}.svc.cluster.local")
        address = (await cluster.api.get("Service", "web", cluster.namespace) or {})["spec"]["clusterIP"]
        full = f"web.{cluster.namespace}.svc.cluster.local"
        # It also asks for an IPv6 address, and calls the answer that there is none a failure.
        looked_up = await cluster.sh(f"client-{node}", f"/bin/busybox nslookup {full}", check=False)
        assert address in looked_up.out


async def test_policies_deny_and_allow_on_one_node_and_across(cluster: Cluster) -> None:
    near, far = cluster.box.nodes
    server = await cluster.pod("server", SERVE, node=near)
    await cluster.apply(service("server"))
    for name, node in (("near", near), ("far", far)):
        await cluster.pod(name, "sleep 600", node=node)
    address = server["status"]["podIP"]
    for client in ("near", "far"):
        await cluster.until_reach(True, client, address)

    deny = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny"},
        "spec": {"podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"]},
    }
    await cluster.apply(deny)
    for client in ("near", "far"):
        await cluster.until_reach(False, client, address)
        assert not await cluster.reaches(client, f"server.{cluster.namespace}.svc.cluster.local")

    allow = json.loads(json.dumps(deny))
    allow["metadata"]["name"] = "allow"
    allow["spec"]["ingress"] = [{"from": [{"podSelector": {"matchLabels": {"app": "far"}}}]}]
    await cluster.apply(allow)
    await cluster.until_reach(True, "far", address)
    await cluster.until_reach(True, "far", f"server.{cluster.namespace}.svc.cluster.local")
    assert not await cluster.reaches("near", address)

    for policy in ("deny", "allow"):
        await cluster.api.delete("NetworkPolicy", policy, cluster.namespace)
    await cluster.until_reach(True, "near", address)


async def test_users_outside_reach_a_load_balancer_and_pods_reach_parties_outside(cluster: Cluster) -> None:
    await cluster.apply(workload("shop"), service("shop", "LoadBalancer"))
    await cluster.api.rolled_out("Deployment", "shop", cluster.namespace)
    found = await cluster.api.wait_for(
        "Service",
        "shop",
        cluster.namespace,
        lambda s: "" if (s or {}).get("status", {}).get("loadBalancer", {}).get("ingress") else "no address",
        seconds=20,
    )
    assert found is not None
    address = found["status"]["loadBalancer"]["ingress"][0]["ip"]
    assert address.startswith(FRONT_DOORS.rsplit(".", 1)[0])
    world = cluster.box.world
    assert world is not None
    source = "198.51.100.77"
    ask = ["curl", "-s", "--max-time", "5", "--interface", source, f"http://{address}:8080/"]

    async def served() -> None:
        if "hello from a pod" not in (done := await run(world.argv(ask), timeout=10, check=False)).out:
            raise NotYet(done.tail(200) or f"curl ended with {done.code}")

    await until(served, what="the front door answers a user", seconds=20, every=0.3)

    # An external party: a program of ours on an address of the world, asked from a pod.
    party = await asyncio.create_subprocess_exec(
        *world.argv(["python3", "-m", "http.server", "--bind", "203.0.113.25", "--directory", "/etc", "8025"]),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await cluster.pod("caller", "sleep 600")
        ask_party = "printf 'GET /debian_version HTTP/1.0\\r\\n\\r\\n' | /bin/busybox nc -w 2 203.0.113.25 8025"

        async def answered() -> None:
            if "200 OK" not in (said := await cluster.sh("caller", ask_party, check=False)).out:
                raise NotYet(said.tail(200) or "nothing came back")

        await until(answered, what="a party outside answers a pod", seconds=30, every=0.3)
    finally:
        party.kill()
        await party.wait()


async def test_nothing_inside_can_open_a_connection_to_the_machine(cluster: Cluster) -> None:
    """The machine may ask the nodes; a listener on its end of the link is out of reach from inside."""
    near, _ = cluster.box.layout.uplink
    listener = await asyncio.start_server(lambda r, w: w.write(b"hello from a pod\n"), near, 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        await cluster.pod("prisoner", "sleep 600")
        assert not await cluster.reaches("prisoner", near, port)
        from_node = await cluster.box.node_run(
            "node-0", ["curl", "-s", "--max-time", "2", f"http://{near}:{port}/"], check=False
        )
        assert from_node.code != 0
    finally:
        listener.close()
        await listener.wait_closed()


async def test_a_dead_node_does_not_take_the_front_door_with_it(cluster: Cluster) -> None:
    """New connections go to nodes that answer: the kernel drops a next hop whose neighbour has failed."""
    world = cluster.box.world
    assert world is not None
    routes = (await run(["ip", "-n", world.netns, "route", "show", FRONT_DOORS], timeout=5)).out
    for n in range(len(cluster.box.nodes)):
        assert f"via {cluster.box.layout.address(n)}" in routes


async def test_a_service_without_endpoints_refuses_at_once(cluster: Cluster) -> None:
    """Also where a network policy has let the packet pass: what hangs instead costs its callers seconds."""
    await cluster.pod("asker", "sleep 600")
    await cluster.apply(service("nobody"))
    policy = {"podSelector": {"matchLabels": {"app": "asker"}}, "policyTypes": ["Egress"], "egress": [{}]}
    await cluster.apply({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "out"}, "spec": policy,
    })  # fmt: skip

    async def refused() -> None:
        done = await cluster.sh("asker", "/bin/busybox nc -w 5 nobody 8080 </dev/null", check=False, timeout=15)
        if "refused" not in done.err:
            raise NotYet(done.err.strip()[-200:] or f"it ended with {done.code}")

    await until(refused, what="the connection is refused", seconds=20)
