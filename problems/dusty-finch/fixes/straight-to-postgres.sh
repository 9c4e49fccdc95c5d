#!/bin/sh
# expect: wrong
# decides: through-the-pooler
# changes: Deployment/orders-api
# The API goes around the pooler.
set -eu
kubectl -n shop set env deployment/orders-api 'DATABASE_URL=postgresql://app:$(DATABASE_PASSWORD)@postgres:5432/shop'
kubectl -n shop rollout status deployment/orders-api --timeout=60s
