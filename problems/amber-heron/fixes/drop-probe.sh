#!/bin/sh
# expect: wrong
# decides: readiness-kept
# changes: Deployment/orders-api, ConfigMap/sales-report, Deployment/sales-report
# The report reads in batches and the migration goes through, but readiness, the loudest signal of the
# outage, is taken off on the way.
set -eu
kubectl -n shop patch deployment orders-api --type=json \
  -p '[{"op":"remove","path":"/spec/template/spec/containers/0/readinessProbe"}]'
kubectl -n shop patch configmap sales-report --type=merge -p '{"data":{"READ_MODE":"batches"}}'
kubectl -n shop rollout restart deployment/sales-report
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=90s
kubectl -n shop rollout status deployment/orders-api --timeout=90s
