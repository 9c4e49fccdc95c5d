#!/bin/sh
# expect: unsafe
# decides: old-is-refused
# changes: ConfigMap/pgbouncer-config, Deployment/pgbouncer
# The pooler logs in as app with the new password, whoever comes; its clients are still let in with the old one.
set -eu
new=$(kubectl -n shop get secret database-logins -o jsonpath='{.data.app}' | base64 -d)
config=$(kubectl -n shop get configmap pgbouncer-config -o yaml |
  sed "s/dbname=shop\$/dbname=shop user=app password=$new/")
echo "$config" | kubectl -n shop replace -f -
kubectl -n shop rollout restart deployment/pgbouncer
kubectl -n shop rollout status deployment/pgbouncer --timeout=60s
