"""The library of checks, live: each passes, fails and cannot tell, on a real state of each kind.

One box for all, with the shop restored on it and its real users outside. Tests put back what they change.
"""

import asyncio
import json

import pytest

from aftershock.base.errors import ProblemError
from aftershock.cluster.api import Object

from .live_shop import SHOP, Live, gone


async def test_objects_by_how_many(live: Live) -> None:
    ready = (
        "objects: {kind: Pod, selector: app.kubernetes.io/name=order-worker, "
        "field: 'status.conditions[type=Ready].status', equals: 'True', count: {all: true}, within: 8}"
    )

    async def scaled_away() -> None:
        await live.patch("Deployment/order-worker", {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}})
        await gone(live, "app.kubernetes.io/name=order-worker")

    await live.three(ready, scaled_away, "nothing is there that could be so, all must be")
    nothing = live.leaf("objects: {kind: Pod, selector: app=nobody, count: {all: true}}")
    with pytest.raises(ProblemError, match="nothing matches"):
        await nothing.check.baseline(live.bench)
    elsewhere = live.leaf(
        "objects: {kind: Pod, selector: app=nobody, namespace: nowhere, count: {at_most: 0}, within: 1}"
    )
    found = await live.judge(elsewhere, 0)
    assert (found.result, found.said) == ("fail", "the namespace nowhere is gone")


async def test_capacity_and_limits(live: Live) -> None:
    async def fewer() -> None:
        await live.patch("Deployment/order-worker", {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}})

    text = "capacity: {objects: [Deployment/order-worker, Deployment/gateway], within: 15}"
    await live.three(text, fewer, "Deployment/order-worker: 0 replicas are wanted, it were 1")
    await live.put_back()

    def memory(limit: str) -> Object:
        container = {"name": "worker", "resources": {"limits": {"memory": limit}}}
        return {"spec": {"template": {"spec": {"containers": [container]}}}}

    async def more() -> None:
        await live.patch("Deployment/order-worker", memory("1Gi"), memory("128Mi"), how="strategic")

    text = "limits: {objects: [Deployment/order-worker], factor: 2}"
    await live.three(text, more, "worker/memory is 1024Mi, at most 256Mi is allowed")


async def test_a_probe_in_place(live: Live) -> None:
    path = "/spec/template/spec/containers/0/readinessProbe"
    gateway = await live.api.get("Deployment", "gateway", SHOP)
    assert gateway is not None
    probe = gateway["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]

    async def removed() -> None:
        back = [{"op": "add", "path": path, "value": probe}]
        await live.patch("Deployment/gateway", [{"op": "remove", "path": path}], back, how="json")

    await live.three("probe: {object: Deployment/gateway, container: nginx}", removed, "it is gone")


async def test_a_probe_that_can_fail_and_one_that_cannot(live: Live) -> None:
    """Without the pooler the API is not ready, and the gateway's probe asks nobody but itself."""
    cut = "cut: [{scale: {object: Deployment/pgbouncer, replicas: 0}}], "
    cut += "back: [{scale: {object: Deployment/pgbouncer, replicas: 1}}], fails_within: LIMIT, within: 60"
    for name, container, limit, result in (("orders-api", "api", "40", "pass"), ("gateway", "nginx", "6", "fail")):
        text = f"probe: {{object: Deployment/{name}, container: {container}, {cut.replace('LIMIT', limit)}}}"
        leaf = live.leaf(text, "challenge")
        before = await leaf.check.baseline(live.bench)
        found = await live.judge(leaf, before)
        assert found.result == result, found
        pooler = await live.api.get("Deployment", "pgbouncer", SHOP)
        assert pooler is not None
        assert pooler["spec"]["replicas"] == 1, "what was cut off was not given back"
    assert "its probe saw nothing" in found.said


async def test_a_fingerprint_while_users_order(live: Live) -> None:
    table = "fingerprint: {table: orders, columns: [id, customer, amount], made: created_at, within: 2}"
    one = "(select id from orders where created_at < now() - interval '1 hour' order by id limit 1)"

    async def altered() -> None:
        await live.bench.scene.databases.run_once("shop", f"update orders set amount = amount + 1 where id = {one}")

        async def undo() -> None:
            sql = f"update orders set amount = amount - 1 where id = {one}"
            await live.bench.scene.databases.run_once("shop", sql)

        live.undone.append(undo)

    good, bad, _ = await live.three(table, altered, "some are altered")
    assert int(good.measured["rows"]) >= 60000
    assert bad.measured["sum"] != good.measured["sum"]
    for text, what in (
        ("fingerprint: {table: nothing}", "cannot be read"),
        ("fingerprint: {table: orders, columns: [id]}", "changes while all is well"),
    ):
        with pytest.raises(ProblemError, match=what):
            await live.leaf(text).check.baseline(live.bench)


async def test_logs_and_programs(live: Live) -> None:
    metrics = "app.kubernetes.io/name=business-metrics"
    lines = f"log_lines: {{selector: {metrics}, pattern: '\"sales\"', at_least: 1, fresh: 15, within: 12}}"

    async def stopped() -> None:
        await live.patch("Deployment/business-metrics", {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}})
        await gone(live, metrics)

    await live.three(lines.replace("within: 12", "within: 3"), stopped, "nothing is there")
    absent = live.leaf(f"log_lines: {{selector: {metrics}, pattern: ERROR, at_most: 0, alive: sales, within: 1}}")
    assert (await live.judge(absent, 1)).result == "fail", "who is gone logs no errors"
    await live.put_back()
    await live.api.rolled_out("Deployment", "business-metrics", SHOP, seconds=40)
    wrong = live.leaf(lines.replace("fresh: 15", "container: nobody").replace("within: 12", "within: 1"))
    assert (await live.judge(wrong, 1)).result == "unknown", "a log that cannot be read tells nothing"
    postgres = "selector: app.kubernetes.io/name=postgres"
    asked = "[psql, -X, -A, -t, -U, postgres, -d, shop, -c, 'select count(*) from products']"
    for text, result in (
        (f"command: {{{postgres}, run: {asked}, at_least: 50, within: 1}}", "pass"),
        (f"command: {{{postgres}, run: {asked}, at_least: 5000, within: 1}}", "fail"),
        (f"command: {{{postgres}, run: [no-such-program], matches: x, within: 1}}", "unknown"),
    ):
        assert (await live.judge(live.leaf(text), 1)).result == result


async def test_held_for_a_window(live: Live) -> None:
    """A pod is deleted: at the next moment all are ready again, and for the window they were not."""
    pods = "kind: Pod, selector: app.kubernetes.io/name=orders-api, field: 'status.conditions[type=Ready].status'"
    leaf = live.leaf(f"objects: {{{pods}, equals: 'True', count: {{equals: 2}}, hold: 4, within: 1}}")
    before = await leaf.check.baseline(live.bench)
    assert (await live.judge(leaf, before)).result == "pass"
    judged = asyncio.create_task(live.judge(leaf, before))
    await asyncio.sleep(1.0)
    name = (await live.api.list("Pod", SHOP, labels="app.kubernetes.io/name=orders-api"))[0]["metadata"]["name"]
    await live.api.delete("Pod", name, SHOP)
    assert (await judged).result == "fail"
    await live.api.rolled_out("Deployment", "orders-api", SHOP, seconds=60)


async def test_one_journey_among_all(live: Live) -> None:
    """Nobody can order, everybody can browse: the journey fails alone, and its neighbour passes."""
    text = "journey: {kinds: [KIND], hold: 8, within: 9, least: 5, success: 0.95, fast: {share: 0.5, under: 1}}"
    leaves = {kind: live.leaf(text.replace("KIND", kind), "outcome") for kind in ("order", "browse")}
    before = {kind: await leaf.check.baseline(live.bench) for kind, leaf in leaves.items()}
    await live.bench.scene.databases.run_once("shop", "revoke insert on orders from app", role="postgres")

    async def undo() -> None:
        await live.bench.scene.databases.run_once("shop", "grant insert on orders to app", role="postgres")

    live.undone.append(undo)
    found = dict(zip(leaves, await asyncio.gather(*(live.judge(leaves[k], before[k]) for k in leaves)), strict=True))
    assert found["order"].result == "fail", found["order"]
    assert "success" in found["order"].measured["faults"]
    assert found["browse"].result == "pass", found["browse"]
    await live.put_back()
    assert (await live.judge(leaves["order"], before["order"])).result == "pass"
    nobody = live.leaf(text.replace("KIND", "pay").replace("within: 9", "baseline_within: 8, within: 9"), "outcome")
    with pytest.raises(ProblemError, match="no request is one of"):
        await nobody.check.baseline(live.bench)


HOOKS = """
import subprocess

def workers(context):
    argv = [context.kubectl, "--kubeconfig", context.kubeconfig, "-n", context.namespace, "get", "deploy"]
    out = subprocess.run([*argv, "order-worker", "-o", "jsonpath={.spec.replicas}"], capture_output=True, text=True)
    if out.returncode:
        return {"result": "unknown", "said": out.stderr}
    count, orders = int(out.stdout), int(context.rows["orders"][0][0])
    said = f"{count} workers, {orders} orders, {len(context.promises)} promises"
    return {"result": "pass" if count == (context.before or 1) else "fail", "said": said, "before": count}
"""


async def test_a_hook_on_the_live_shop(live: Live) -> None:
    (live.folder / "hooks.py").write_text(HOOKS)

    async def fewer() -> None:
        await live.patch("Deployment/order-worker", {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}})

    text = "hook: {function: workers, ask: {orders: select count(*) from orders}, within: 1}"
    await live.three(text, fewer, "0 workers")


async def test_a_node_is_drained_and_a_workload_rolled_out_again(live: Live) -> None:
    """With real users watching: two replicas on two nodes take it, and the node is given back."""
    await live.api.rolled_out("Deployment", "order-worker", SHOP, seconds=60)
    database = await live.api.get("Pod", "postgres-0", SHOP)
    assert database is not None
    # the database's volume is on its node, so that it could not move
    node = next(name for name in live.box.nodes if name != database["spec"]["nodeName"])
    steps = [
        {"drain_node": {"node": node}},
        {"roll_out_again": {"object": "Deployment/order-worker"}},
        {
            "next_turn": {
                "selector": "app.kubernetes.io/name=business-metrics", "pattern": '"sales"', "within": 60,
            }
        },
    ]  # fmt: skip
    users = "{watch: 3, stall: 60, bad_seconds: 100}"
    text = f"challenge: {{steps: {json.dumps(steps)}, users: {users}}}"
    leaf = live.leaf(text, "challenge")
    found = await live.judge(leaf, await leaf.check.baseline(live.bench))
    assert found.result == "pass", found
    assert [n for n in await live.api.list("Node") if n["spec"].get("unschedulable")] == []
    never = json.dumps([{"next_turn": {"selector": "app.kubernetes.io/name=gateway", "pattern": "xx+y", "within": 3}}])
    leaf = live.leaf(f"challenge: {{steps: {never}, users: {users}}}", "challenge")
    found = await live.judge(leaf, await leaf.check.baseline(live.bench))
    assert found.result == "fail"
    assert "0 of 1 turns" in found.said
