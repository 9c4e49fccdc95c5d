"""The library of faults: how its steps are read, and everything in them that needs no cluster."""

import asyncio
import datetime
import struct
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from aftershock.base.errors import ProblemError
from aftershock.base.paths import source_root
from aftershock.base.wait import NotYet
from aftershock.fault import listing
from aftershock.fault.base import NotLanded, Primitive, blast_of, compile_steps, perform, primitive
from aftershock.fault.innocent import clash, parts_of
from aftershock.fault.primitives import certificates, control, names, network, noise, proxy
from aftershock.fault.scene import Scene
from aftershock.problem.schema import read_steps
from aftershock.problem.source import Source

HAPPENED: list[str] = []


@primitive("note_it")
class NoteIt(Primitive):
    """For these tests: writes down that it ran and that it was undone; with `fail` it never lands."""

    what: str
    pause: float = 0
    fail: bool = False

    async def run(self, scene):
        await asyncio.sleep(self.pause)
        HAPPENED.append(self.what)
        return {}

    async def landed(self, scene, done):
        if self.fail:
            raise NotYet("never")

    async def undo(self, scene, done):
        HAPPENED.append(f"not {self.what}")


@primitive("note_outside")
class NoteOutside(NoteIt):
    """The same, with something left outside of the cluster."""

    outside = True


class Cluster:
    """Only what a scene asks of one when it is closed."""

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = frozenset(capabilities)


@pytest.fixture
def scene(tmp_path):
    HAPPENED.clear()
    return Scene(Cluster("snapshot"), None, "shop", tmp_path, None, None)  # type: ignore[arg-type]


def steps(text: str, path: Path = Path("problem.yaml")) -> tuple[Primitive, ...]:
    source = Source(path, text)
    return compile_steps(read_steps(source, source.data, ()))


@pytest.mark.parametrize(
    "text",
    [
        "fill_disk: {pods: StatefulSet/db, path: /var/lib/data, leave: 1000000}",
        "slow_disk: {pods: app=db, path: /data, operations_per_second: 20}",
        "limit_ports: {pods: 'app=api,tier=front', count: 5, which: one}",
        "drop_packets: {pods: Deployment/api, to: Service/db, protocol: tcp, port: 5432, share: 0.2}",
        "partition: {pods: Deployment/api, to: 203.0.113.0/24}",
        "reset_connections: {pods: Deployment/api, to: Service/db, port: 5432, after_bytes: 4096}",
        "dns_answer: {name: db.shop.svc.cluster.local, answer: NXDOMAIN}",
        "certificate: {secret: api-tls, state: wrong_name, names: [localhost]}",
        "stop_daemon: {node: StatefulSet/db, daemon: kubelet, until: felt}",
        "hold_sessions: {in: shop, role: reports, count: 3, application: metabase, again: true}",
        "redis: {pod: redis-0, commands: ['CONFIG SET maxmemory 1mb'], check: 'CONFIG GET maxmemory', equals: 1048576}",
        "later: {requests: 100, steps: [{scale: {object: Deployment/a, replicas: 0}}]}",
        "later: {wait: {users: suffering}, steps: [{scale: {object: Deployment/a, replicas: 0}}]}",
        "parallel: {steps: [{delay: {seconds: 1}}, {sequence: {steps: [{delay: {seconds: 1}}]}}]}",
        "noise: {level: high, restart: [Deployment/docs], spikes: [{path: /products}]}",
        "delay_connections: {pods: Deployment/api, service: db, port: 5432, latency: 0.2}",
        "bad_release: {object: Deployment/a, container: main, args: ['--wrong']}",
    ],
)
def test_steps_that_are_right(text):
    (step,) = steps(f"- {text}\n")
    assert step.kind == text.partition(":")[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fill_disk: {pods: web, path: /data}", "pods"),
        ("fill_disk: {pods: app=web, path: data}", "path"),
        ("fill_disk: {pods: app=web, path: /a/../../etc}", "`..`"),
        ("slow_disk: {pods: app=web, path: /data}", "bytes_per_second"),
        ("drop_packets: {pods: app=web, share: 0}", "share"),
        ("drop_packets: {pods: app=web, share: 1, port: 80}", "`port` needs `protocol"),
        ("drop_packets: {pods: app=web, share: 1, to: 'db; reboot'}", "to"),
        ("limit_ports: {pods: app=web, count: 0}", "count"),
        ("certificate: {secret: a, state: wrong_name}", "`names`"),
        ("certificate: {secret: a, state: expired, names: [a]}", "`names`"),
        ("later: {steps: [{delay: {seconds: 1}}]}", "one of `after`"),
        ("later: {after: 1, requests: 3, steps: [{delay: {seconds: 1}}]}", "one of `after`"),
        ("later: {after: 1, steps: []}", "steps"),
        ("parallel: {steps: [{delai: {seconds: 1}}]}", "no step `delai`"),
        ("noise: {level: high}", "what may change"),
        ("traffic: {spike: {path: '/a[1-9]'}}", "path"),
        ("delay_connections: {pods: app=web, service: db, port: 1}", "latency"),
        ("bad_release: {object: Deployment/a, container: main}", "what the release changes"),
        ("bad_release: {object: Job/a, container: main, args: [x]}", "belongs here"),
        ("stop_daemon: {node: node-1, daemon: sshd}", "daemon"),
        ("redis: {pod: redis-0, commands: [PING], check: PING}", "say what is expected"),
        ("dns_answer: {name: a.b, answer: MAYBE}", "answer"),
        ("webhook: {name: policy, service: s, resources: [pods]}", "name"),
    ],
)
def test_steps_that_are_wrong(text, says):
    with pytest.raises(ProblemError) as caught:
        steps(f"- {text}\n")
    assert says in f"{caught.value.what} {caught.value.todo}"
    assert caught.value.where == "problem.yaml:1"


def test_faults_in_nested_steps_are_named_with_their_own_line():
    text = "- parallel:\n    steps:\n      - delay: {seconds: 1}\n      - scale: {object: Deployment/a}\n"
    with pytest.raises(ProblemError) as caught:
        steps(text)
    assert caught.value.where == "problem.yaml:4"


async def test_closing_undoes_what_outlives_a_box_and_everything_elsewhere(scene):
    text = "- note_it: {what: a}\n- note_outside: {what: b}\n- note_outside: {what: c}\n"
    await perform(steps(text), scene)
    await scene.close()
    assert HAPPENED == ["a", "b", "c", "not c", "not b"]
    HAPPENED.clear()
    scene.cluster = Cluster()
    await perform(steps(text), scene)
    await scene.close()
    assert HAPPENED == ["a", "b", "c", "not c", "not b", "not a"]


async def test_a_step_that_never_landed_is_undone_too(scene):
    with pytest.raises(NotLanded):
        await perform(steps("- note_outside: {what: a, fail: true, within: 0.3}\n"), scene)
    await scene.undo()
    assert HAPPENED == ["a", "not a"]


async def test_parallel_runs_side_by_side_and_ends_with_the_first_failure(scene):
    pair = "[{note_it: {what: slow, pause: 0.3}}, {note_it: {what: quick}}]"
    await perform(steps(f"- parallel: {{steps: {pair}}}\n"), scene)
    assert HAPPENED == ["quick", "slow"]
    HAPPENED.clear()
    pair = "[{note_it: {what: slow, pause: 30}}, {note_it: {what: bad, fail: true, within: 0.2}}]"
    with pytest.raises(NotLanded):
        await asyncio.wait_for(perform(steps(f"- parallel: {{steps: {pair}}}\n"), scene), 5)
    assert HAPPENED == ["bad"]


async def test_repeat_counts_and_goes_on_beside_the_trial(scene):
    await perform(steps("- repeat: {times: 3, every: 0, steps: [{note_it: {what: x}}]}\n"), scene)
    assert HAPPENED == ["x"] * 3
    HAPPENED.clear()
    await perform(steps("- repeat: {times: 1000, every: 0.02, beside: true, steps: [{note_it: {what: y}}]}\n"), scene)
    before = len(HAPPENED)
    await asyncio.sleep(0.3)
    assert before < 5 < len(HAPPENED) < 1000
    await scene.close()
    after = len(HAPPENED)
    await asyncio.sleep(0.1)
    assert len(HAPPENED) == after


async def test_a_latent_fault_waits_for_its_trigger(scene):
    class Crowd:
        made = 0

        def now(self):
            return 100.0

        def requests(self, since, until):
            return [None] * self.made

    scene.users = Crowd()
    heard = []
    scene.tell = lambda kind, **data: heard.append(kind)
    await perform(steps("- later: {requests: 10, steps: [{note_it: {what: x}}]}\n"), scene)
    await asyncio.sleep(0.7)
    assert HAPPENED == []
    Crowd.made = 10
    await asyncio.sleep(1.0)
    assert HAPPENED == ["x"]
    assert heard == ["set_off", "step"]
    scene.check()


async def test_a_latent_fault_that_does_not_land_is_raised_by_check(scene):
    await perform(steps("- later: {after: 0.01, steps: [{note_it: {what: x, fail: true, within: 0.1}}]}\n"), scene)
    await asyncio.sleep(0.5)
    with pytest.raises(NotLanded):
        scene.check()
    scene.check()  # told once


def test_chance_depends_on_the_seed_and_the_purpose_alone(scene):
    draws = [scene.random("a").random(), scene.random("b").random(), scene.random("a").random()]
    assert draws[0] == draws[2] != draws[1]
    scene.seed = 2
    assert scene.random("a").random() != draws[0]


def test_rules_of_packets():
    (step,) = steps("- partition: {pods: app=a, to: 10.0.0.1}\n")
    assert step.rules(["10.0.0.1/32"]) == [
        ["INPUT", "-s", "10.0.0.1/32", "-j", "DROP"],
        ["OUTPUT", "-d", "10.0.0.1/32", "-j", "DROP"],
    ]
    (step,) = steps(
        "- drop_packets: {pods: app=a, share: 0.25, direction: in, protocol: tcp, port: 80, serving: true}\n"
    )
    assert step.rules([]) == [
        ["INPUT", "-p", "tcp", "--dport", "80", "-m", "statistic", "--mode", "random", "--probability", "0.2500",
         "-j", "DROP"],
    ]  # fmt: skip
    (step,) = steps("- reset_connections: {pods: app=a, to: app=b, port: 5432}\n")
    assert step.rules(["10.0.0.2/32"]) == [
        ["OUTPUT", "-d", "10.0.0.2/32", "-p", "tcp", "--dport", "5432", "--syn", "-j", "REJECT", "--reject-with",
         "tcp-reset"],
    ]  # fmt: skip


def test_connections_are_spread_evenly_over_the_proxys_listeners():
    rules = proxy.ways([("a", 1), ("b", 2), ("c", 3)], "10.91.2.1", "10.96.0.5", 80)
    assert [rule[rule.index("--every") + 1] if "--every" in rule else "" for rule in rules] == ["3", "2", ""]
    assert [rule[-1] for rule in rules] == ["10.91.2.1:1", "10.91.2.1:2", "10.91.2.1:3"]


COREFILE = """cluster.local:53 in-addr.arpa:53 {
  errors
  kubernetes cluster.local in-addr.arpa {
    pods insecure
  }
}
.:53 {
  errors
  template ANY ANY {
    rcode NXDOMAIN
  }
}
"""


def test_a_wrong_answer_is_put_into_the_server_that_serves_the_name():
    changed = names.with_answer(COREFILE, "db.shop.svc.cluster.local", "NXDOMAIN")
    lines = changed.splitlines()
    assert lines[1].strip() == "template ANY ANY {"
    assert lines[2].strip() == "match ^db[.]shop[.]svc[.]cluster[.]local[.]$"
    assert lines[3].strip() == "rcode NXDOMAIN"
    outside = names.with_answer(COREFILE, "pay.example.com", "203.0.113.9")
    head, tail = outside.split(".:53 {")
    assert head + ".:53 {" == COREFILE[: len(head) + 6]
    assert tail.index("match ^pay[.]example[.]com[.]$") < tail.index("rcode NXDOMAIN")
    assert '"{{ .Name }} 60 IN A 203.0.113.9"' in tail
    with pytest.raises(ValueError, match="no server"):
        names.with_answer("example.org {\n}\n", "db.shop", "NXDOMAIN")


def test_names_and_answers_as_they_travel():
    assert network.wire_name("db.shop") == "02" + b"db".hex() + "04" + b"shop".hex()
    asked = names.query("db.shop")
    assert asked[12:] == b"\x02db\x04shop\x00\x00\x01\x00\x01"
    head = struct.pack(">6H", 0x2B1D, 0x8180, 1, 1, 0, 0)
    record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 30, 4) + bytes([203, 0, 113, 9])
    assert names.read_answer(head + asked[12:] + record) == ("NOERROR", ["203.0.113.9"])
    refused = struct.pack(">6H", 0x2B1D, 0x8183, 1, 0, 0, 0) + asked[12:]
    assert names.read_answer(refused) == ("NXDOMAIN", [])
    with pytest.raises(ValueError, match="not an answer"):
        names.read_answer(b"")


def test_certificates_keep_all_but_what_is_wrong():
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api.shop.svc")])
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    authority = certificates.new_authority(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "internal")]))
    key = certificates.new_authority(name)[1]
    old = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(7).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.shop.svc")]), critical=False)
        .sign(key, certificates.hashes.SHA256())
    )  # fmt: skip

    def made(state, names=("api.shop.svc",), issuer=authority):
        pem, _ = certificates.issue(old, state, 3 * day, list(names), issuer)
        return x509.load_pem_x509_certificate(pem)

    expired = made("expired")
    assert expired.not_valid_after_utc < now - 2.9 * day
    assert expired.subject == old.subject
    assert certificates.names_of(expired) == ["api.shop.svc"]
    authority[1].public_key().verify(
        expired.signature, expired.tbs_certificate_bytes, certificates.ec.ECDSA(certificates.hashes.SHA256())
    )
    assert made("not_yet_valid").not_valid_before_utc > now + 2.9 * day
    wrong = made("wrong_name", ["10.0.0.1", "old.shop.svc"])
    assert certificates.names_of(wrong) == ["10.0.0.1", "old.shop.svc"]
    renewed = made("renewed")
    assert renewed.not_valid_before_utc < now < renewed.not_valid_after_utc
    assert renewed.public_key() != old.public_key()
    own = made("renewed", issuer=None)
    own.verify_directly_issued_by(own)


WEB = {
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "volumes": [
                    {"name": "a", "secret": {"secretName": "web-tls"}},
                    {"name": "b", "projected": {"sources": [{"configMap": {"name": "banner"}}]}},
                ],
                "containers": [
                    {
                        "name": "main",
                        "envFrom": [{"configMapRef": {"name": "flags"}}],
                        "env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "db-login", "key": "p"}}}],
                    }
                ],
            },
        }
    },
}
FRONT = {"kind": "Service", "metadata": {"name": "front"}, "spec": {"selector": {"app": "web"}}}


def test_what_a_workload_is_made_of():
    assert parts_of(WEB) == {
        "Deployment/web", "Secret/web-tls", "ConfigMap/banner", "ConfigMap/flags", "Secret/db-login",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("blast", "says"),
    [
        ({"Deployment/web"}, "Deployment/web"),
        ({"Secret/db-login"}, "Secret/db-login"),
        ({"ConfigMap/flags"}, "ConfigMap/flags"),
        ({"app=web"}, "match app=web"),
        ({"Pod/web-5d9-x"}, "one of its pods"),
        ({"Service/front"}, "behind Service/front"),
        ({"Deployment/webshop", "app=other", "Service/back", "Secret/other"}, ""),
    ],
)
def test_innocent_changes_touch_nothing_of_the_fault(blast, says):
    assert says in clash(WEB, blast, [FRONT])
    if not says:
        assert clash(WEB, blast, [FRONT]) == ""


def test_the_blast_is_all_that_steps_name(tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/job.yaml").write_text("kind: Job\nmetadata: {name: import}\n")
    path = tmp_path / "problem.yaml"
    text = (
        "- apply: {manifest: manifests/job.yaml}\n"
        "- apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: rates}}]}\n"
        "- later: {after: 1, steps: [{scale: {object: Deployment/api, replicas: 0}}]}\n"
        "- drop_packets: {pods: app=db, share: 1}\n"
        "- certificate: {secret: api-tls, state: expired, restart: [Deployment/gate]}\n"
        "- noise: {restart: [Deployment/docs]}\n"
    )
    assert blast_of(steps(text, path)) == {
        "Job/import", "ConfigMap/rates", "Deployment/api", "app=db", "Secret/api-tls", "Deployment/gate",
    }  # fmt: skip


def test_noise_is_the_same_for_the_same_seed_and_grows_with_its_level(scene):
    text = (
        "- noise: {level: LEVEL, restart: [Deployment/a, Deployment/b], scale: [Deployment/c], "
        "label: [ConfigMap/d], pods: [Deployment/e], spikes: [{path: /}], over: 5}\n"
    )
    chosen = {level: steps(text.replace("LEVEL", level))[0].chosen(scene) for level in ("off", "low", "high")}
    assert [len(plan) for plan in chosen.values()] == [0, 2, 6]
    assert chosen["low"] == steps(text.replace("LEVEL", "low"))[0].chosen(scene)
    assert all(0 <= when <= 5 for when, _, _ in chosen["high"])
    assert chosen["high"] == sorted(chosen["high"])
    scene.seed = 9
    assert chosen["high"] != steps(text.replace("LEVEL", "high"))[0].chosen(scene)
    scene.noise = "off"
    assert steps(text.replace("LEVEL", "high"))[0].chosen(scene) == []


def test_a_spike_sends_the_same_path_each_time():
    argv = noise.Spike(path="/products", host="shop.example", rate=5, seconds=2).argv("http://192.0.2.10")
    assert argv[-1] == "http://192.0.2.10/products#[1-10]"
    assert "Host: shop.example" in argv


def test_quantities():
    assert [control.quantity(text) for text in ("500m", "2Ki", "3", "1M")] == [0.5, 2048.0, 3.0, 1e6]


def test_every_fault_says_what_it_does_and_the_page_is_in_step():
    shown = listing.rows()
    assert len(shown) >= 40
    assert all(len(row.does) > 20 for row in shown)
    path = source_root() / "docs" / "faults.md"
    assert path.read_text() == listing.page(), "`aftershock.fault.listing.page` says something else: write it anew"
