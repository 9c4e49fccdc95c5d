#!/bin/sh
# expect: wrong
# decides: users-served
# PostgreSQL is restarted. The report is back within a second, the Job within ten, and so is the queue.
set -eu
kubectl -n shop rollout restart statefulset/postgres
kubectl -n shop rollout status statefulset/postgres --timeout=120s
