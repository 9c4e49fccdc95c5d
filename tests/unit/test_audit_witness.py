"""What an answer changed, from the namespace before and after."""

from typing import Any

from aftershock.audit.witness import differences, entered, state_of


def obj(kind: str, name: str, uid: str = "1", **said: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": uid, "resourceVersion": said.pop("version", "1"), "annotations": said.pop("notes", {})}
    return {"kind": kind, "metadata": meta, **said}


def after(*changes: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, str]:
    return differences(state_of([old for old, _ in changes]), state_of([new for _, new in changes]))


def test_what_controllers_write_by_themselves_is_no_change():
    old = obj(
        "Deployment", "web", spec={"replicas": 2}, status={"ready": 2}, notes={"deployment.kubernetes.io/revision": "1"}
    )
    new = obj("Deployment", "web", spec={"replicas": 2}, status={"ready": 0}, version="9")
    assert after((old, new)) == {}


def test_a_spec_data_or_note_that_changes_is_named():
    assert after((obj("Deployment", "web", spec={"replicas": 2}), obj("Deployment", "web", spec={"replicas": 0}))) == {
        "Deployment/web": "changed: spec"
    }
    assert after((obj("ConfigMap", "c", data={"a": "1"}), obj("ConfigMap", "c", data={"a": "2"}))) == {
        "ConfigMap/c": "changed: data"
    }
    assert after((obj("Service", "s", notes={}), obj("Service", "s", notes={"by": "hand"}))) == {
        "Service/s": "changed: annotations"
    }


def test_made_deleted_and_replaced():
    before = state_of([obj("Pod", "a"), obj("Pod", "b"), obj("Job", "j", spec={})])
    now = state_of([obj("Pod", "b", uid="2"), obj("Pod", "c"), obj("Job", "j", spec={})])
    assert differences(before, now) == {"Pod/a": "deleted", "Pod/b": "replaced", "Pod/c": "made"}


def test_the_inside_of_a_pod_is_not_a_change_of_the_pod():
    assert after((obj("Pod", "a", spec={"x": 1}), obj("Pod", "a", spec={"x": 2}))) == {}


def test_the_pods_that_were_entered():
    commands = [
        "kubectl -n shop exec postgres-0 -c postgres -- sh -c 'kill 1'",
        "kubectl -n shop exec -i pod/cache-0 -- redis-cli",
        "kubectl -n shop exec postgres-0 -- true",
        "kubectl -n shop get pods",
        "exec 9>file",
    ]
    assert entered(commands) == ["exec/postgres-0", "exec/cache-0"]
