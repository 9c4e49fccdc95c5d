#!/bin/sh
# expect: wrong
# decides: report-runs
# changes: Deployment/sales-report
# Team data's report is scaled to nothing. Everything else is well.
set -eu
kubectl -n shop scale deployment/sales-report --replicas=0
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=60s
kubectl -n shop rollout status deployment/orders-api --timeout=60s
