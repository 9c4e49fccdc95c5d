#!/bin/sh
# expect: wrong
# decides: users-served
# changes: ConfigMap/postgres-config, StatefulSet/postgres
# The connection limit is raised from 40 to 200, which takes a restart; the report is back within seconds, the
# migration tries again after twenty, and the queue is longer.
set -eu
config=$(kubectl -n shop get configmap postgres-config -o yaml | sed 's/max_connections = 40/max_connections = 200/')
echo "$config" | kubectl -n shop replace -f -
kubectl -n shop rollout restart statefulset/postgres
kubectl -n shop rollout status statefulset/postgres --timeout=120s
kubectl -n shop exec postgres-0 -c postgres -- grep -q 'max_connections = 200' /etc/postgresql/postgresql.conf
