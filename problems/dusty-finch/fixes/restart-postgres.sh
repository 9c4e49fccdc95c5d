#!/bin/sh
# expect: wrong
# decides: users-served
# changes: StatefulSet/postgres
# The database is blamed and started again.
set -eu
kubectl -n shop rollout restart statefulset/postgres
kubectl -n shop rollout status statefulset/postgres --timeout=90s
