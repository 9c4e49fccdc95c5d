"""Steps: how they are read, and the pure parts of what they do."""

from pathlib import Path

import pytest

from aftershock.base.errors import MissingCapability, ProblemError
from aftershock.fault.base import Primitive, compile_steps, primitive, require_all
from aftershock.fault.fields import MISSING, Expect, covers, field_of, parse_path
from aftershock.fault.primitives.jobs import fresh_job
from aftershock.fault.primitives.objects import _pointer_state, as_kept
from aftershock.problem.schema import read_steps
from aftershock.problem.source import Source

POD = {
    "spec": {
        "containers": [
            {"name": "api", "image": "api:1", "readinessProbe": {"httpGet": {"path": "/readyz"}}},
            {"name": "log", "image": "log:2"},
        ]
    },
    "data": {"run.sh": "echo"},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.containers[name=api].image", "api:1"),
        ("spec.containers[1].name", "log"),
        ("spec.containers[*].image", ["api:1", "log:2"]),
        ('data["run.sh"]', "echo"),
        ("spec.containers[name=api].readinessProbe.httpGet.path", "/readyz"),
        ("spec.containers[name=web].image", MISSING),
        ("spec.containers[5]", MISSING),
        ("spec.containers[*].livenessProbe", MISSING),
        ("status.readyReplicas", MISSING),
        ("data.run", MISSING),
    ],
)
def test_fields(path, value):
    assert field_of(POD, path) == value


@pytest.mark.parametrize("path", ["", "a[", "a[x", 'a["b'])
def test_what_is_no_path(path):
    with pytest.raises(ValueError, match="field path"):
        parse_path(path)


@pytest.mark.parametrize(
    ("expect", "value", "passes"),
    [
        ({"equals": 0}, "0", True),
        ({"equals": "1"}, 1, True),
        ({"equals": 1}, "1.0", True),
        ({"equals": "on"}, "on", True),
        ({"equals": True}, "true", True),
        ({"equals": 0}, None, False),
        ({"equals": 0}, "", False),
        ({"at_least": 2}, 2, True),
        ({"at_least": 2}, "1.99", False),
        ({"at_least": 2}, "many", False),
        ({"at_least": 2}, MISSING, False),
        ({"at_most": 40}, "40", True),
        ({"at_most": 40}, "41", False),
        ({"at_least": 1, "at_most": 3}, 2, True),
    ],
)
def test_expectations(expect, value, passes):
    assert (Expect(**expect).refuse(value) == "") is passes


def test_an_expectation_expects_something():
    with pytest.raises(ValueError, match="say what is expected"):
        Expect()
    with pytest.raises(ValueError, match="does not go with"):
        Expect(equals=1, at_least=1)


def test_a_patch_has_landed_when_the_object_covers_it():
    assert covers({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1"}})
    assert not covers({"data": {"a": "2"}}, {"data": {"a": "1"}})
    assert covers({"data": {"b": "2"}}, {"data": {"a": None}})
    assert not covers({"data": {"a": "2"}}, {"data": {"a": None}})
    assert covers(POD, {"spec": {"containers": [{"name": "log", "image": "log:2"}]}})
    assert not covers(POD, {"spec": {"containers": [{"name": "log", "image": "log:3"}]}})


def test_what_a_secret_is_given_in_plain_text_is_looked_for_as_it_is_kept():
    secret = {"kind": "Secret", "data": {"app": "bmV3", "worker": "b2xk"}}
    assert covers(secret, as_kept({"stringData": {"app": "new"}}))
    assert not covers(secret, as_kept({"stringData": {"worker": "new"}}))
    assert covers(secret, as_kept({"data": {"worker": "b2xk"}, "stringData": {"app": "new"}}))


@pytest.mark.parametrize(
    ("operation", "landed"),
    [
        ({"op": "replace", "path": "/spec/containers/0/image", "value": "api:1"}, True),
        ({"op": "replace", "path": "/spec/containers/0/image", "value": "api:2"}, False),
        ({"op": "remove", "path": "/spec/containers/1/readinessProbe"}, True),
        ({"op": "remove", "path": "/spec/containers/0/readinessProbe"}, False),
        ({"op": "add", "path": "/data/run.sh", "value": "echo"}, True),
        ({"op": "add", "path": "/metadata/labels/a~1b", "value": "x"}, False),
    ],
)
def test_json_patch_operations(operation, landed):
    assert (_pointer_state(POD, operation) == "") is landed


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "migrate-0042",
        "namespace": "shop",
        "uid": "1-2-3",
        "resourceVersion": "7",
        "labels": {"app": "migrate", "batch.kubernetes.io/job-name": "migrate-0042"},
        "annotations": {"note": "x"},
        "managedFields": [{}],
    },
    "spec": {
        "backoffLimit": 6,
        "selector": {"matchLabels": {"controller-uid": "1-2-3"}},
        "template": {
            "metadata": {"labels": {"controller-uid": "1-2-3", "job-name": "migrate-0042", "app": "migrate"}},
            "spec": {
                "containers": [{"name": "m", "args": ["run.sh", "0042"], "env": [{"name": "A", "value": '"0042"'}]}]
            },
        },
    },
    "status": {"failed": 2},
}


def test_a_job_is_run_again_as_it_is_now_under_another_name():
    again = fresh_job(JOB, "migrate-0043", {"0042": "0043"})
    assert again["metadata"] == {"name": "migrate-0043", "namespace": "shop", "labels": {"app": "migrate"}}
    assert "selector" not in again["spec"]
    assert "status" not in again
    assert again["spec"]["backoffLimit"] == 6
    template = again["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "migrate"}
    assert template["spec"]["containers"][0]["args"] == ["run.sh", "0043"]
    assert template["spec"]["containers"][0]["env"][0]["value"] == '"0043"'
    assert JOB["spec"]["template"]["metadata"]["labels"]["controller-uid"] == "1-2-3"  # the original is untouched


def test_a_job_from_a_cronjob_takes_its_template():
    cron = {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": JOB}}
    again = fresh_job(cron, "c-1", {})
    assert again["kind"] == "Job"
    assert again["spec"]["template"]["spec"] == JOB["spec"]["template"]["spec"]


def steps(text: str) -> tuple[Primitive, ...]:
    source = Source(Path("problem.yaml"), text)
    return compile_steps(read_steps(source, source.data, ()))


def test_steps_are_found_by_name_and_checked():
    patch, wait = steps(
        "- patch: {object: ConfigMap/a, patch: {data: {x: y}}}\n"
        "- wait: {sql: select 1, in: shop, at_least: 1, within: 60}\n"
    )
    assert (patch.kind, patch.where) == ("patch", "problem.yaml:1")
    assert (wait.kind, wait.within) == ("wait", 60)


@pytest.mark.parametrize(
    ("text", "line", "what", "todo"),
    [
        ("- wait: {sql: a, at_least: 1}\n- pach: {}\n", 2, "no step `pach`", "did you mean `patch`?"),
        ("- scale: {object: Deployment/a, replica: 1}\n", 1, "unknown key `replica`", "did you mean `replicas`?"),
        ("- scale:\n    object: a\n    replicas: 1\n", 2, "`object`", "'a'"),
        ("- wait: {sql: a}\n", 1, "say what is expected", ""),
        ("- wait: {sql: a, users: served}\n", 1, "one of `sql`", ""),
        ("- apply: {}\n", 1, "`manifest` or `objects`", ""),
        ("- create_job: {like: Job/a}\n", 1, "needs the `name`", ""),
        ("- patch: {object: Deployment/a, patch: {}, how: json}\n", 1, "list of operations", ""),
        ("- set_image: {object: Job/a, container: b, image: c}\n", 1, "Deployment", ""),
    ],
)
def test_faults_of_steps_are_named_with_their_line(text, line, what, todo):
    with pytest.raises(ProblemError) as caught:
        steps(text)
    assert what in caught.value.what
    assert todo in caught.value.todo
    assert caught.value.where == f"problem.yaml:{line}"


def test_capabilities_are_asked_for_before_anything_runs():
    @primitive("needs_the_machine")
    class NeedsTheMachine(Primitive):
        needs = frozenset({"machine"})

        async def run(self, scene):
            return {}

        async def landed(self, scene, done):
            pass

    class Existing:
        name = "theirs"
        capabilities = frozenset({"world"})

    made = steps("- needs_the_machine: {}\n")
    with pytest.raises(MissingCapability) as caught:
        require_all(Existing(), made)  # type: ignore[arg-type]
    assert "machine" in caught.value.what
    assert "problem.yaml:1" in caught.value.where
