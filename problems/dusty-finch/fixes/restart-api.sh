#!/bin/sh
# expect: wrong
# decides: users-served
# changes: Deployment/orders-api
# The API is started again; it reads the new password, which the pooler does not know either.
set -eu
kubectl -n shop rollout restart deployment/orders-api
kubectl -n shop rollout status deployment/orders-api --timeout=20s || true
