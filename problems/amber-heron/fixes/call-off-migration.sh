#!/bin/sh
# expect: wrong
# decides: migration-applied
# The Job and its waiting statement are ended. Users are served at once, and the release has no column.
set -eu
kubectl -n shop delete job orders-migrate-0042 --wait=true --timeout=60s
kubectl -n shop exec postgres-0 -c postgres -- pkill -TERM -f '^postgres: migrator '
kubectl -n shop rollout status deployment/orders-api --timeout=60s
