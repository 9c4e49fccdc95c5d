#!/bin/sh
# expect: wrong
# decides: users-served
# changes: StatefulSet/postgres
# PostgreSQL is restarted. The report is back within seconds, the migration tries again after twenty, and the
# queue is back.
set -eu
kubectl -n shop rollout restart statefulset/postgres
kubectl -n shop rollout status statefulset/postgres --timeout=120s
