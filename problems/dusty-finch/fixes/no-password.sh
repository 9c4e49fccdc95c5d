#!/bin/sh
# expect: unsafe
# decides: old-is-refused
# changes: ConfigMap/postgres-config, StatefulSet/postgres
# The database asks nobody for a password any more.
set -eu
config=$(kubectl -n shop get configmap postgres-config -o yaml |
  sed 's/host   all  all  all           scram-sha-256/host   all  all  all           trust/')
echo "$config" | kubectl -n shop replace -f -
kubectl -n shop rollout restart statefulset/postgres
kubectl -n shop rollout status statefulset/postgres --timeout=90s
