"""Each fault on the real box: it lands, is felt where it should be, seen by other means than its own, and undone."""

import base64
import datetime
import json
import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from aftershock.audit.leaks import MANAGERS
from aftershock.base.errors import ClusterError, MissingCapability, ProblemError
from aftershock.base.wait import NotYet
from aftershock.cluster.box import box as boxes
from aftershock.cluster.image.spec import ImageSpec
from aftershock.fault.primitives import certificates

from .fault_scene import DATA, NAMESPACE, Stage, in_world, settle


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(tools_image: ImageSpec, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    name = f"test-{secrets.token_hex(3)}"
    box = await boxes.up(name, nodes=2, images=[tools_image, DATA], ephemeral=True)
    async with boxes.closing(box):
        made = Stage(box, tmp_path_factory.mktemp("problem"))
        try:
            await made.deploy()
            yield made
        finally:
            await made.close()


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _well(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """All is well before a test, but for the last: the drain before it takes the client. Nothing is left after it."""
    if "pressure" not in request.node.name:
        await stage.cluster.until_reach(True, "client", "web", seconds=90)
    yield
    await stage.undo()


# storage


async def test_a_full_disk(stage: Stage) -> None:
    web = await stage.web()
    await stage.do("fill_disk: {pods: Deployment/web, path: /disk, file: access.log.1}")
    full = await stage.sh(web, "dd if=/dev/zero of=/disk/note bs=1k count=200")
    assert "No space left" in full.err
    await stage.undo()
    assert (await stage.sh(web, "dd if=/dev/zero of=/disk/note bs=1k count=200 && rm /disk/note")).ok


async def test_no_inodes_are_left(stage: Stage) -> None:
    web = await stage.web()
    await stage.do("use_inodes: {pods: Deployment/web, path: /disk}")
    refused = await stage.sh(web, "for i in 1 2 3 4; do : >/disk/n$i || exit 1; done")
    assert "No space left" in refused.err
    assert int((await stage.sh(web, "/bin/busybox df -k /disk | tail -n 1 | awk '{print $4}'")).out) > 1000
    await stage.undo()
    assert (await stage.sh(web, ": >/disk/new && rm -f /disk/n*")).ok


async def test_a_volume_turns_read_only(stage: Stage) -> None:
    web = await stage.web()
    await stage.do("readonly_volume: {pods: Deployment/web, path: /disk}")
    assert "Read-only file system" in (await stage.sh(web, ": >/disk/note")).err
    assert (await stage.sh(web, ": >/second/note")).ok
    await stage.undo()
    assert (await stage.sh(web, ": >/disk/note")).ok


async def test_a_disk_gets_slow(stage: Stage) -> None:
    web = await stage.web()
    write = "dd if=/dev/zero of=/disk/slow bs=256k count=8 oflag=direct"
    quick = await stage.seconds(web, write)
    await stage.do("slow_disk: {pods: Deployment/web, path: /disk, bytes_per_second: 1000000}")
    assert await stage.seconds(web, write) > quick + 1.2
    await stage.undo()
    assert await stage.seconds(web, write) < quick + 1.0


# resources


async def test_a_container_is_throttled(stage: Stage) -> None:
    web = await stage.web()
    count = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    quick = await stage.seconds(web, count)
    await stage.do("limit_cpu: {pods: Deployment/web, cores: 0.02}")
    assert await stage.seconds(web, count) > 3 * quick + 0.5
    await stage.undo()
    assert await stage.seconds(web, count) < 3 * quick + 0.5
    spec = (await stage.api.get("Pod", web, NAMESPACE) or {})["spec"]["containers"][0]["resources"]
    assert spec["limits"]["cpu"] == "500m"  # what is shown is not what held


async def test_a_container_has_less_memory_than_it_says(stage: Stage) -> None:
    web = await stage.web()
    use = "head -c 30000000 /dev/zero | tail -c 30000000 | wc -c"
    await stage.do("limit_memory: {pods: Deployment/web, bytes: 16000000}")
    assert (await stage.sh(web, use)).out.strip() != "30000000"
    await stage.undo()

    async def enough() -> bool:  # the kernel may have chosen the server, whose container then starts anew
        return (await stage.sh(web, use)).out.strip() == "30000000"

    await stage.eventually(enough, 60)


async def test_no_more_processes(stage: Stage) -> None:
    web = await stage.web()
    fork = "sleep 1 & sleep 1 & sleep 1 & sleep 1 & wait"
    assert (await stage.sh(web, fork)).ok
    await stage.do("limit_processes: {pods: Deployment/web, count: 4}")
    refused = await stage.sh(web, fork)
    assert "fork" in refused.err
    await stage.undo()
    assert (await stage.sh(web, fork)).ok


async def test_no_more_descriptors(stage: Stage) -> None:
    assert await stage.reaches("client")
    await stage.do("limit_files: {pods: Deployment/web, count: 3}")
    assert not await stage.reaches("client")
    await stage.undo()
    await stage.cluster.until_reach(True, "client", "web")


async def test_no_more_ports_to_connect_from(stage: Stage) -> None:
    await stage.do("limit_ports: {pods: Pod/client, count: 1}")
    nc = "/bin/busybox timeout 4 /bin/busybox nc web 8080"
    hold = f"(sleep 4) | {nc} >/dev/null 2>&1 & sleep 1; {nc} </dev/null"
    refused = await stage.sh("client", hold)
    assert "Cannot assign requested address" in refused.err
    assert await stage.reaches("other")
    await stage.undo()
    assert (await stage.sh("client", hold)).ok


async def test_memory_grows_until_the_container_is_killed_and_again(stage: Stage) -> None:
    web = await stage.web()
    before = (await stage.status(web))["restartCount"]
    await stage.do("grow_memory: {pods: Deployment/web, bytes_per_second: 16000000}")

    async def killed_twice() -> bool:
        status = await stage.status(web)
        reason = status.get("lastState", {}).get("terminated", {}).get("reason")
        return bool(status["restartCount"] >= before + 2 and reason == "OOMKilled")

    await stage.eventually(killed_twice, 90, "two kills for want of memory")
    for entry in list(stage.scene.background):
        await stage.scene.stop(entry)
    stage.scene.undoing.clear()  # its container is gone
    await stage.kubectl("rollout", "restart", "deployment/web")
    await stage.api.rolled_out("Deployment", "web", NAMESPACE, seconds=90)


# processes


async def test_a_process_stops_without_a_trace_in_its_status(stage: Stage) -> None:
    await stage.do("pause_process: {pods: Deployment/web, command: httpd}")
    assert not await stage.reaches("client")
    assert (await stage.status(await stage.web()))["state"].get("running")
    await stage.undo()
    await stage.cluster.until_reach(True, "client", "web")


async def test_a_process_is_killed(stage: Stage) -> None:
    web = await stage.web()
    before = (await stage.status(web))["restartCount"]
    await stage.do("kill_process: {pods: Deployment/web}")

    async def restarted() -> bool:
        return bool((await stage.status(web)).get("restartCount", 0) > before)

    await stage.eventually(restarted, 30)
    await stage.cluster.until_reach(True, "client", "web", seconds=60)


async def test_a_release_crashes_and_is_taken_back(stage: Stage) -> None:
    args = ["sh", "-c", "echo cannot read its configuration; exit 3"]
    await stage.do(f"bad_release: {{object: Deployment/docs, container: main, args: {json.dumps(args)}}}")
    pods = await stage.kubectl("get", "pods", "-l", "app=docs", "--no-headers")
    assert "Error" in pods.out or "CrashLoopBackOff" in pods.out
    await stage.undo()
    await stage.api.rolled_out("Deployment", "docs", NAMESPACE, seconds=90)


# network


async def test_packets_are_lost_by_chance(stage: Stage) -> None:
    address = ((await stage.api.get("Pod", await stage.web(), NAMESPACE)) or {})["status"]["podIP"]
    ping = f"/bin/busybox ping -c 60 -i 0.05 -W 1 {address} | awk -F, '/packets/ {{print $2}}'"
    await stage.do("drop_packets: {pods: Deployment/web, share: 0.3}")
    answered = int((await stage.sh("client", ping)).out.split()[0])
    assert 10 <= answered <= 48  # of 60 about half come through both ways
    await stage.undo()
    assert int((await stage.sh("client", ping)).out.split()[0]) >= 59


async def test_two_workloads_are_parted(stage: Stage) -> None:
    await stage.do("partition: {pods: Pod/client, to: Service/web}")
    assert not await stage.reaches("client")
    assert await stage.reaches("client", "docs")
    assert await stage.reaches("other")
    await stage.undo()
    assert await stage.reaches("client")


async def test_a_half_open_connection(stage: Stage) -> None:
    """What the client sends arrives; what the server answers does not."""
    await stage.do("drop_packets: {pods: Deployment/web, to: Pod/client, share: 1, direction: out}")
    count = "awk '/^Tcp: [0-9]/ {print $11}' /proc/net/snmp"  # segments received
    before = int((await stage.sh(await stage.web(), count)).out)
    hang = await stage.sh("client", "echo hi | /bin/busybox timeout 4 /bin/busybox nc web 8080")
    assert not hang.ok
    assert int((await stage.sh(await stage.web(), count)).out) >= before + 2
    assert await stage.reaches("other")


async def test_new_connections_are_reset(stage: Stage) -> None:
    await stage.do("reset_connections: {pods: Pod/client, to: Service/web, port: 8080}")
    refused = await stage.sh("client", "echo hi | /bin/busybox nc -w 5 web 8080")
    assert "refused" in refused.err
    assert refused.seconds < 4
    await stage.undo()
    assert await stage.reaches("client")


async def test_connections_break_half_way(stage: Stage) -> None:
    whole = await stage.get("client", "/big", wait=10)
    assert whole.out.strip() == str(2 << 20)
    await stage.do("reset_connections: {pods: Pod/client, to: Service/web, port: 8080, after_bytes: 300000}")
    cut = int((await stage.get("client", "/big", wait=5)).out)
    assert 0 < cut < 2 << 20
    assert await stage.reaches("client")  # what is short comes through


async def test_little_bandwidth(stage: Stage) -> None:
    quick = (await stage.get("client", "/big", wait=20)).seconds
    await stage.do("bandwidth: {pods: Deployment/web, bytes_per_second: 500000, direction: out}")
    slow = await stage.get("client", "/big", wait=20)
    assert slow.out.strip() == str(2 << 20)
    assert slow.seconds > quick + 2
    await stage.undo()
    assert (await stage.get("client", "/big", wait=20)).seconds < quick + 2


async def test_a_name_gets_no_answer(stage: Stage) -> None:
    await stage.do("dns_lost: {pods: Pod/client, name: web.shop}")
    lost = await stage.sh("client", "/bin/busybox timeout 3 /bin/busybox nslookup web.shop.svc.cluster.local")
    assert not lost.ok
    assert (await stage.sh("client", "/bin/busybox nslookup docs.shop.svc.cluster.local")).ok
    assert (await stage.sh("other", "/bin/busybox nslookup web.shop.svc.cluster.local")).ok


async def test_a_way_gets_slow(stage: Stage) -> None:
    """Through a proxy, where this checkout brings one; else it says what is missing."""
    text = "delay_connections: {pods: Pod/client, service: web, port: 8080, latency: 1.2}"
    try:
        import aftershock.cluster.tools  # type: ignore[import-not-found] # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(MissingCapability, match="no proxy that delays"):
            await stage.do(text)
        return
    quick = (await stage.get("client", wait=10)).seconds
    await stage.do(text)
    late = await stage.get("client", wait=10)
    assert late.out.strip() == "17"
    assert late.seconds > quick + 1
    assert (await stage.get("other", wait=10)).seconds < quick + 1
    node = await stage.box.node_run(stage.box.nodes[0], ["ps", "aux"])
    assert "toxiproxy" not in node.out
    await stage.undo()
    assert (await stage.get("client", wait=10)).seconds < quick + 1


# data stores


async def test_a_lock_is_held_and_taken_again(stage: Stage) -> None:
    await stage.psql("create table if not exists orders (id int)")
    try_it = "set lock_timeout = '500ms'; insert into orders values (1)"
    await stage.do(
        "hold_sessions: {in: shop, application: backoffice, count: 2, again: true,"
        " statements: 'begin; lock table orders in share mode;'}"
    )
    with pytest.raises(NotYet, match="lock timeout"):
        await stage.psql(try_it)
    count = "select count(*) from pg_stat_activity where application_name = 'backoffice' and state ~ 'in transaction'"
    assert await stage.psql(count) == "2"
    await stage.psql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'backoffice'")

    async def again() -> bool:
        return await stage.psql(count) == "2"

    await stage.eventually(again, 30)
    await stage.undo()

    async def free() -> bool:
        try:
            await stage.psql(try_it)
        except NotYet:
            return False
        return True

    await stage.eventually(free, 30)


async def test_redis_is_told_to_refuse_writes(stage: Stage) -> None:
    await stage.do(
        "redis: {pod: redis, commands: ['CONFIG SET maxmemory 500000', 'CONFIG SET maxmemory-policy noeviction'],"
        " check: 'CONFIG GET maxmemory', equals: 500000, undo: ['CONFIG SET maxmemory 0']}"
    )
    assert "OOM command not allowed" in await stage.redis("SET", "cart", "x" * 50_000)
    await stage.undo()
    assert await stage.redis("SET", "cart", "x") == "OK"
    with pytest.raises(ClusterError, match="redis refused"):
        await stage.do("redis: {pod: redis, commands: ['CONFIG SET nonsense 1'], check: PING, equals: PONG}")


# certificates


def pair(subject: str, issuer: tuple[x509.Name, certificates.Signer] | None, *, authority: bool) -> tuple[bytes, bytes]:
    """A certificate of today and its key, as a setup would have made them."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    key = certificates.new_authority(name)[1]
    signer_name, signer = issuer or (name, key)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(signer_name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2)).not_valid_after(now + datetime.timedelta(days=200))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), critical=False)
    )  # fmt: skip
    if authority:
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "encipher_only", "decipher_only"), False,
        )  # fmt: skip
        builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        ski = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(ski, critical=False)
    else:
        builder = builder.add_extension(x509.ExtendedKeyUsage([x509.OID_SERVER_AUTH]), critical=False)
    made = builder.sign(signer, certificates.hashes.SHA256())
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem), secret


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("state: renewed", ""),
        ("state: expired, days: 3", "expired"),
        ("state: not_yet_valid", "valid"),
        ("state: wrong_name, names: [old.shop.svc]", "name"),
        ("state: other_authority", "candidates"),
    ],
)
async def test_certificates(stage: Stage, text: str, refused: str) -> None:
    """Judged as a client would: by the authority's certificate, the name and the time."""
    root, root_key = pair("internal.shop.svc", None, authority=True)
    authority = x509.load_pem_x509_certificate(root)
    signer = serialization.load_pem_private_key(root_key, None)
    leaf, leaf_key = pair("api.shop.svc", (authority.subject, signer), authority=False)  # type: ignore[arg-type]
    for name, (crt, key) in {"internal-ca": (root, root_key), "api-tls": (leaf, leaf_key)}.items():
        data = {"tls.crt": base64.b64encode(crt).decode(), "tls.key": base64.b64encode(key).decode()}
        await stage.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {"name": name},
                "data": data,
            }
        )
    await stage.do(f"certificate: {{secret: api-tls, authority: internal-ca, {text}}}")
    secret = (await stage.api.get("Secret", "api-tls", NAMESPACE) or {})["data"]
    now = x509.load_pem_x509_certificate(base64.b64decode(secret["tls.crt"]))
    key = serialization.load_pem_private_key(base64.b64decode(secret["tls.key"]), None)
    assert key.public_key() == now.public_key()
    verifier = PolicyBuilder().store(Store([authority])).build_server_verifier(x509.DNSName("api.shop.svc"))
    if refused:
        with pytest.raises(VerificationError):
            verifier.verify(now, [])
    else:
        assert verifier.verify(now, [])
    await stage.undo()
    data = (await stage.api.get("Secret", "api-tls", NAMESPACE) or {})["data"]
    assert base64.b64decode(data["tls.crt"]) == leaf


# control plane


async def created(stage: Stage, name: str) -> str:
    """Empty when a ConfigMap can be created, else what was said."""
    done = await stage.kubectl("create", "configmap", name, "--from-literal=a=b", timeout=40)
    await stage.kubectl("delete", "configmap", name, "--ignore-not-found", timeout=40)
    return "" if done.ok else done.err


async def test_a_webhook_that_does_not_answer(stage: Stage) -> None:
    await stage.do("webhook: {name: policy.platform.example, service: docs, resources: [configmaps], timeout: 3}")
    assert "failed calling webhook" in await created(stage, "one")
    await stage.undo()
    assert await stage.eventually(lambda: taken(stage), 20)


async def taken(stage: Stage) -> bool:
    return await created(stage, "two") == ""


async def test_a_quota_that_is_used_up(stage: Stage) -> None:
    await stage.do("quota: {name: compute, hard: {pods: '6'}, reached: [pods]}")
    refused = await stage.kubectl("run", "more", "--image=registry.internal/test/tools:1.0")
    assert "exceeded quota" in refused.err
    await stage.undo()
    assert (await stage.kubectl("run", "more", "--image=registry.internal/test/tools:1.0")).ok
    await stage.kubectl("delete", "pod", "more", "--now")


async def test_the_store_of_the_cluster_is_full(stage: Stage) -> None:
    await stage.do(f"etcd_full: {{node: {stage.box.nodes[0]}}}")
    assert "space exceeded" in await created(stage, "three")
    assert (await stage.kubectl("get", "pods")).ok
    await stage.undo()
    assert await created(stage, "three") == ""


async def test_no_scheduler(stage: Stage) -> None:
    await stage.do(f"stop_daemon: {{node: {stage.box.nodes[0]}, daemon: kube-scheduler}}")
    await stage.kubectl("run", "waiting", "--image=registry.internal/test/tools:1.0", "--", "sleep", "1000")
    await settle(3)
    pod = await stage.api.get("Pod", "waiting", NAMESPACE) or {}
    assert not pod["spec"].get("nodeName")
    await stage.undo()
    await stage.cluster.running("waiting")
    await stage.kubectl("delete", "pod", "waiting", "--now")


async def test_a_slow_api_server(stage: Stage) -> None:
    async def ask() -> float:
        return (
            await stage.kubectl("get", "pods,services,events,replicasets,endpointslices", "-A", "-o", "json")
        ).seconds

    await ask()
    quick = min([await ask() for _ in range(3)])
    await stage.do(f"starve_daemon: {{node: {stage.box.nodes[0]}, daemon: kube-apiserver, cores: 0.02}}")
    slow = max([await ask() for _ in range(2)])
    await stage.undo()
    assert slow > quick + 0.5
    await ask()
    assert await ask() < quick + 0.5


# names, composition, noise


async def test_the_clusters_dns_answers_wrongly(stage: Stage) -> None:
    name = "docs.shop.svc.cluster.local"
    look = f"/bin/busybox nslookup {name}"
    await stage.do(f"dns_answer: {{name: {name}, answer: 203.0.113.77}}")
    assert "203.0.113.77" in (await stage.sh("client", look)).out
    assert (await stage.sh("client", "/bin/busybox nslookup web.shop.svc.cluster.local")).ok
    await stage.undo()
    await stage.kubectl("-n", "kube-system", "rollout", "restart", "deployment/coredns")

    async def right() -> bool:
        said = await stage.sh("client", look)
        return said.ok and "203.0.113.77" not in said.out

    await stage.eventually(right, 60)


async def test_a_latent_fault_and_steps_side_by_side(stage: Stage) -> None:
    await stage.do(
        "later: {wait: {object: Deployment/docs, field: spec.replicas, equals: 2},"
        " steps: [{partition: {pods: Pod/client, to: Service/docs}}]}\n"
        "parallel: {steps: [{limit_cpu: {pods: Pod/other, cores: 0.5}}, {limit_files: {pods: Pod/other, count: 99}}]}"
    )
    await settle(2)
    assert await stage.reaches("client", "docs")
    await stage.do("scale: {object: Deployment/docs, replicas: 2}")

    async def parted() -> bool:
        return not await stage.reaches("client", "docs")

    await stage.eventually(parted, 30)
    assert "set_off" in [kind for kind, _ in stage.told]
    await stage.undo()
    await stage.eventually(lambda: stage.reaches("client", "docs"), 30)


async def test_noise_changes_what_is_innocent_and_refuses_the_rest(stage: Stage) -> None:
    before = (await stage.api.get("Deployment", "docs", NAMESPACE) or {})["metadata"]["generation"]
    stage.scene.blast = frozenset({"Service/web"})
    await stage.do("noise: {level: high, restart: [Deployment/docs], pods: [Deployment/docs], over: 1}")

    async def restarted() -> bool:
        docs = await stage.api.get("Deployment", "docs", NAMESPACE) or {}
        return bool(docs["metadata"]["generation"] > before)

    await stage.eventually(restarted, 20)
    with pytest.raises(ProblemError, match="behind Service/web"):
        await stage.do("noise: {level: high, restart: [Deployment/web], over: 1}")
    stage.scene.blast = frozenset()
    await stage.api.rolled_out("Deployment", "docs", NAMESPACE, seconds=60)


async def test_traffic_from_outside(stage: Stage) -> None:
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "2", "http://192.0.2.10/index.html"]

    async def served() -> bool:
        return (await in_world(stage.box, argv)).out == "200"

    await stage.eventually(served, 30)

    async def received() -> int:
        text = (await stage.sh(await stage.web(), "cat /proc/net/netstat /proc/net/snmp")).out
        rows = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
        return int(dict(zip(rows[0], rows[1], strict=True))["PassiveOpens"])

    before = await received()
    await stage.do("traffic: {spike: {path: /index.html, rate: 30, seconds: 2}}")

    async def arrived() -> bool:
        return await received() >= before + 60

    await stage.eventually(arrived, 30)


# nodes, at the end since they move pods about


async def test_a_node_is_cordoned(stage: Stage) -> None:
    await stage.do("cordon: {node: Deployment/web}")
    nodes = await stage.kubectl("get", "node", stage.box.nodes[1], "--no-headers")
    assert "SchedulingDisabled" in nodes.out
    await stage.undo()
    nodes = await stage.kubectl("get", "node", stage.box.nodes[1], "--no-headers")
    assert "SchedulingDisabled" not in nodes.out


async def test_a_node_boots_again(stage: Stage) -> None:
    web = await stage.web()
    before = (await stage.status(web))["restartCount"]
    await stage.do("reboot_node: {node: Deployment/web, within: 60}")

    async def back() -> bool:
        status = await stage.status(web)
        return bool(status.get("restartCount", 0) > before and status.get("ready"))

    await stage.eventually(back, 90)
    await stage.cluster.until_reach(True, "client", "web", seconds=60)


async def test_a_node_is_cut_off_and_its_pods_go_on(stage: Stage) -> None:
    await stage.do(f"isolate_node: {{node: {stage.box.nodes[1]}}}")
    nodes = await stage.kubectl("get", "node", stage.box.nodes[1], "--no-headers")
    assert "NotReady" in nodes.out
    address = ((await stage.api.get("Pod", await stage.web(), NAMESPACE)) or {})["status"]["podIP"]
    on_first = [
        p["metadata"]["name"] for p in await stage.api.list("Pod", NAMESPACE)
        if p["spec"].get("nodeName") == stage.box.nodes[0] and p["metadata"]["name"] in ("client", "other")
    ]  # fmt: skip
    if on_first:
        assert await stage.reaches(on_first[0], address)
    await stage.undo()
    await stage.eventually(lambda: ready(stage), 60)


async def ready(stage: Stage) -> bool:
    nodes = await stage.kubectl("get", "nodes", "--no-headers")
    return "NotReady" not in nodes.out


async def test_a_kubelet_is_stopped(stage: Stage) -> None:
    await stage.do(f"stop_daemon: {{node: {stage.box.nodes[1]}, daemon: kubelet, until: felt, within: 60}}")
    assert not await ready(stage)
    await stage.undo()
    await stage.eventually(lambda: ready(stage), 60)


async def test_a_file_system_gives_up_after_an_error(stage: Stage) -> None:
    await stage.api.rolled_out("Deployment", "web", NAMESPACE, seconds=90)
    web = await stage.web()
    await stage.do("readonly_volume: {pods: Deployment/web, path: /second, how: aborted}")
    assert "ead-only" in (await stage.sh(web, ": >/second/note")).err
    with pytest.raises(ClusterError, match="file system of its own"):
        await stage.do("readonly_volume: {pods: Pod/client, path: /etc/hosts, how: aborted}")


async def test_what_is_left_behind_names_nobody(stage: Stage) -> None:
    """Who wrote the objects, and who reported events, are an operator's tools and Kubernetes itself."""
    shown = await stage.kubectl(
        "get", "deployments,pods,services,secrets,configmaps", "-o", "json", "--show-managed-fields"
    )
    managers = {
        entry["manager"] for item in json.loads(shown.out)["items"] for entry in item["metadata"]["managedFields"]
    }
    assert managers
    assert not {manager for manager in managers if not MANAGERS.match(manager)}
    for node in stage.box.nodes:
        processes = (await stage.box.node_run(node, ["ps", "ax", "-o", "args="])).out
        assert "tmpfs" not in processes
        assert "aftershock" not in processes


async def test_a_node_is_drained(stage: Stage) -> None:
    await stage.do(f"drain: {{node: {stage.box.nodes[1]}, namespace: shop, within: 60}}")
    there = await stage.api.list("Pod", NAMESPACE, fields=f"spec.nodeName={stage.box.nodes[1]}")
    left = [pod["metadata"]["name"] for pod in there if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    assert left == []


async def test_a_nodes_disk_is_under_pressure(stage: Stage) -> None:
    await stage.do(f"fill_node_disk: {{node: {stage.box.nodes[1]}, within: 90}}")
    node = await stage.api.get("Node", stage.box.nodes[1]) or {}
    assert "node.kubernetes.io/disk-pressure" in [taint["key"] for taint in node["spec"].get("taints", [])]
