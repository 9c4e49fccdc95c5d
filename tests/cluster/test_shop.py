"""The shop on a real box: every journey, every promise, the loss of a pod, what the on-call can read.

One box in the size `full` serves all of these, in the order of this file: users arrive while the others
look on. What is measured here is the healthy system's own resilience; oracles lean on it.
"""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from aftershock.base.wait import NotYet, until
from aftershock.cluster.box import box as boxes
from aftershock.cluster.box import cgroups
from aftershock.cluster.box.box import Box
from aftershock.stack.deploy import deploy
from aftershock.stack.load import Stack, load
from aftershock.stack.provide import box_memory
from aftershock.workload.crowd import Users
from aftershock.workload.outside import Outside
from aftershock.workload.reconcile import Reconciled, reconcile
from aftershock.workload.served import Window, by_kind

JOURNEYS = {"browse", "search", "cart", "buy", "track", "return", "sell"}
SERVICES = ("accounts", "cart", "catalog", "flags", "gateway", "inventory", "notify", "orders", "payments", "search",
            "shipping", "storefront")  # fmt: skip
# Words that a real shop's cluster would not have. Bounded, so that `retrial` or `injection` are words of their own.
TELLTALE = re.compile(
    r"aftershock|benchmark|chaos|\bfault[-_ ]?inject\w*|\bprobe-cluster\b|\boracle\b|\btrials?\b|\btest rig\b"
    r"|\bproblem\.yaml\b|\bsimulat(?:ed|or|ion)\b|\bsynthetic\b|\bmock(?:ed)?\b|\bfake\b",
    re.IGNORECASE,
)
KINDS = (
    "pods", "deployments", "statefulsets", "daemonsets", "jobs", "cronjobs", "services", "configmaps",
    "endpointslices", "persistentvolumeclaims", "networkpolicies", "events", "replicasets", "poddisruptionbudgets",
    "serviceaccounts", "horizontalpodautoscalers", "resourcequotas", "limitranges", "roles", "rolebindings",
)  # fmt: skip
CLUSTER_KINDS = ("nodes", "namespaces", "persistentvolumes", "storageclasses")


@dataclass
class Shop:
    """The shop, its users and its external parties, while all run."""

    box: Box
    stack: Stack
    users: Users
    parties: Outside
    out: Path

    async def kubectl(self, *argv: str, user: str = "oncall", timeout: float = 60.0) -> str:
        from aftershock.base.run import run

        async with self.box.api(user) as api:
            return (await run([*api.kubectl_argv(), *argv], timeout=timeout)).out

    async def served_for(self, seconds: float) -> tuple[float, float]:
        """Let users come for so long; the window, all of whose requests have ended."""
        since = self.users.now()
        return since, await self._come(since + seconds)

    async def _come(self, end: float) -> float:
        async def probe() -> None:
            self.users.check()
            if self.users.now() < end:
                raise NotYet("users are still coming")
            if waiting := self.users.window(end - 20, end).pending:
                raise NotYet(f"{waiting} requests have no answer yet")

        await until(probe, what="the window is over", seconds=end - self.users.now() + 30, every=0.5)
        return end

    async def reconciled(self, seconds: float = 120.0) -> Reconciled:
        """Compare what was promised until now, until nothing of it is open any more."""
        before = self.users.now()
        async with self.box.api() as api:

            async def probe() -> Reconciled:
                found = await reconcile(api, self.stack.folder / "books.py", self.out, self.parties, before=before)
                if found.counts()["open"]:
                    raise NotYet(f"{found.counts()}: {found.differences[:3]}")
                return found

            return await until(probe, what="every promise is due", seconds=seconds, every=5.0)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    stack = load("shop", size="full")
    folder = tmp_path_factory.mktemp("shop")
    made = await boxes.up(
        f"test-{secrets.token_hex(3)}",
        nodes=stack.nodes,
        images=stack.images(),
        memory=box_memory(stack),
        ephemeral=True,
        stack=stack.label,
    )
    async with boxes.closing(made), Outside(made.world, stack.parties, folder / "parties") as parties:
        await deploy(made, stack, seconds=300)
        async with Users(
            made.world,
            out=folder / "users",
            host=stack.front.host,
            front=made.front_url,
            seed=11,
            journey=stack.journey,
            journeys=stack.journeys,
            components=stack.components,
        ) as users:
            yield Shop(made, stack, users, parties, folder / "users")


def shown(window: Window) -> str:
    return f"{window.success:.4f} of {window.expected}, p50 {window.p50}, p95 {window.p95}: {window.errors}"


async def test_every_journey_ends_well(shop: Shop) -> None:
    since, end = await shop.served_for(60)
    cpu = cgroups.cpu_seconds(shop.box.layout)
    window = shop.users.window(since, end)
    print(shown(window), f"memory {cgroups.memory_used(shop.box.layout) >> 20} MiB, {cpu:.0f} s of processor so far")
    assert window.success >= 0.995, shown(window)
    journeys = by_kind(shop.users.requests(since, end), since, end)
    assert journeys.keys() >= JOURNEYS
    for name in JOURNEYS:
        assert journeys[name].success >= 0.97, (name, shown(journeys[name]))


async def test_every_promise_is_kept(shop: Shop) -> None:
    """After two minutes of users in all nothing is lost, doubled, wrong or late."""
    await shop.served_for(60)
    found = await shop.reconciled()
    assert found.judged > 80
    assert found.kept, found.differences[:5]
    assert sum(found.counts().values()) == 0
    assert not [line for line in shop.parties.ledger("pager") if firing(line)], "nobody is paged on a good day"


def firing(line: dict[str, Any]) -> list[str]:
    """Names of the alerts that a page tells of."""
    alerts = (line["body"] or {}).get("alerts", [])
    return [alert["labels"]["alertname"] for alert in alerts if alert.get("status") == "firing"]


@pytest.mark.parametrize("service", SERVICES)
async def test_the_loss_of_a_pod_is_survived(shop: Shop, service: str) -> None:
    """A pod is deleted as by a drain; users notice little."""
    async with shop.box.api() as api:
        pods = await api.list("Pod", "shop", labels=f"app.kubernetes.io/name={service}")
        since = shop.users.now()
        await api.delete("Pod", pods[0]["metadata"]["name"], "shop")
        await api.rolled_out("Deployment", service, "shop", seconds=90)
    end = await shop._come(max(shop.users.now(), since + 10))
    window = shop.users.window(since, end)
    replicas = len(pods)
    print(f"{service} with {replicas} replicas: {shown(window)}")
    assert window.success >= (0.99 if replicas > 1 else 0.80), shown(window)


async def test_a_charge_without_an_answer_is_neither_lost_nor_doubled(shop: Shop) -> None:
    since = shop.users.now()
    await shop.parties.tell("payments", mood="drop-after", count=5)
    await shop.parties.tell("mail", mood="drop-after", count=3)
    await shop._come(since + 15)
    await shop.parties.tell("payments")
    await shop.parties.tell("mail")
    found = await shop.reconciled(seconds=240)
    counts = found.counts()
    doubled = [d for d in found.differences if d.kind == "doubled"]
    assert counts["lost"] == counts["wrong"] == 0, found.differences[:5]
    # A relay that took a mail and broke off may get it again: that is what mail is like, and no charge is.
    assert all("mails" in d.what for d in doubled), doubled
    assert len(doubled) <= 3


async def test_logs_of_a_deleted_pod_are_found(shop: Shop) -> None:
    async with shop.box.api() as api:
        pod = (await api.list("Pod", "shop", labels="app.kubernetes.io/name=cart"))[0]["metadata"]["name"]
        await api.delete("Pod", pod, "shop")
        await api.rolled_out("Deployment", "cart", "shop", seconds=60)
    path = "/api/v1/namespaces/monitoring/services/logs:9428/proxy/select/logsql/query"

    async def probe() -> None:
        async with shop.box.api() as api:
            query = f'kubernetes.pod_name:"{pod}"'
            answer = await api.request("GET", path, query=query, limit="5")
        if answer.status_code != 200 or not answer.text.strip():
            raise NotYet(f"{answer.status_code}: {answer.text[:200]}")

    await until(probe, what=f"lines of {pod} are found", seconds=30, every=1.0)


async def test_nothing_that_the_on_call_can_read_gives_it_away(shop: Shop) -> None:
    texts = {}
    for kind in (*KINDS, *CLUSTER_KINDS):
        texts[kind] = await shop.kubectl("get", kind, "-A", "-o", "json", "--show-managed-fields", timeout=60)
    async with shop.box.api() as api:
        pods = [p for space in shop.stack.namespaces for p in await api.list("Pod", space)]
        for pod in pods:
            for container in pod["spec"]["containers"]:
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{container['name']}"
                ref = (pod["metadata"]["namespace"], pod["metadata"]["name"])
                texts[f"logs of {name}"] = await api.logs(*ref, container=container["name"], tail=2000)
        path = "/api/v1/namespaces/monitoring/services/metrics:8428/proxy/api/v1/label/__name__/values"
        texts["names of metrics"] = (await api.request("GET", path)).text
    found = {where: sorted({m[0] for m in TELLTALE.finditer(text)}) for where, text in texts.items()}
    assert {where: words for where, words in found.items() if words} == {}


async def test_files_in_pods_name_nothing_of_ours(shop: Shop) -> None:
    """What an on-call finds who opens a shell in a pod: names of files, environment, mounts."""
    script = "env; cat /proc/self/mountinfo /proc/1/cgroup; ls -R /app /etc/market /usr/local/bin 2>/dev/null"

    async def look(name: str) -> tuple[str, list[str]]:
        async with shop.box.api() as api:
            done = await api.exec("shop", f"deploy/{name}", ["sh", "-c", script], timeout=30)
        return name, sorted({m[0] for m in TELLTALE.finditer(done.out)})

    found = dict(await asyncio.gather(*(look(name) for name in ("orders", "storefront", "gateway"))))
    assert {name: words for name, words in found.items() if words} == {}


async def test_pages_that_a_person_opens_are_told(shop: Shop) -> None:
    from aftershock.base.run import run
    from aftershock.stack.links import links

    found = {link["title"]: link["url"] for link in await links(shop.box, shop.stack)}
    assert found.keys() == {"the shop", "dashboards"}
    for url in found.values():
        done = await run(["curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", url], timeout=10)
        assert done.out == "200", url


async def test_what_never_gets_healthy_is_told(shop: Shop) -> None:
    """Which component, why, and since when: with the pod's own last lines."""
    from aftershock.base.errors import DeadlinePassed
    from aftershock.stack.health import Board

    broken = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "labels", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": "labels"}},
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": "labels"}},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.internal/platform/migrations:1.11.0",
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["sh", "-c", "echo no printer found >&2; exit 3"],
                            # Without one, Kubernetes calls a container ready for as long as it runs at all.
                            "readinessProbe": {"exec": {"command": ["test", "-e", "/run/printer"]}},
                        }
                    ]
                },
            },
        },
    }
    async with shop.box.api() as api, Board(api) as board:
        board.expect(await api.apply(broken), "labels")
        with pytest.raises(DeadlinePassed) as caught:
            await board.healthy([broken], "shop", seconds=20, what="the stack")
        await api.delete("Deployment", "labels", "shop")
    said = caught.value.what
    for part in ("Deployment shop/labels (component labels): 0 of 1", "since 20", "no printer found", "ended with 3"):
        assert part in said, said
    assert "event BackOff" in said, said


async def test_the_ledger_tells_what_it_is_told(shop: Shop) -> None:
    """Whole lines only, at any moment."""
    lines = (shop.out / "ledger.jsonl").read_text().splitlines()
    assert all(json.loads(line)["id"] for line in lines)
