#!/bin/sh
# expect: right
# changes: ConfigMap/sales-report, Deployment/sales-report
# The report reads in short queries from now on (its own setting), so it holds nobody up; started anew,
# it lets go of the table, and the waiting migration goes through.
set -eu
# step: batches, without it: next-migration
kubectl -n shop patch configmap sales-report --type=merge -p '{"data":{"READ_MODE":"batches"}}'
# step: restart, without it: users-served
kubectl -n shop rollout restart deployment/sales-report
# check
kubectl -n shop rollout status deployment/sales-report --timeout=90s
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=90s
kubectl -n shop rollout status deployment/orders-api --timeout=60s
for try in 1 2 3 4 5 6 7 8 9 10; do
  kubectl -n shop logs deployment/sales-report | grep -q '"read_mode": "batches"' && exit 0
  sleep 1
done
exit 1
