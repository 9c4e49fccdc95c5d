#!/bin/sh
# expect: wrong
# decides: users-served
# changes: Deployment/pgbouncer
# The pooler is started again, which reads the same list.
set -eu
kubectl -n shop rollout restart deployment/pgbouncer
kubectl -n shop rollout status deployment/pgbouncer --timeout=60s
