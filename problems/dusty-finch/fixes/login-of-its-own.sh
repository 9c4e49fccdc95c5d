#!/bin/sh
# expect: right
# changes: Secret/database-logins, Secret/pgbouncer-users, Deployment/pgbouncer, Deployment/orders-api, exec/postgres-0
# The API gets a login of its own, with what `app` may do, so that the next rotation of `app` is not its business.
set -eu
new=$(head -c 12 /dev/urandom | base64 | tr -dc 'a-zA-Z0-9')
read_key() { kubectl -n shop get secret "$1" -o "jsonpath={.data.$2}" | base64 -d; }
# step: role, without it: users-served
kubectl -n shop exec postgres-0 -c postgres -- \
  psql -X -U postgres -d shop -c "create role orders_api login password '$new' in role app"
# step: list, without it: users-served
list=$( (read_key pgbouncer-users 'userlist\.txt'; echo "\"orders_api\" \"$new\"") | base64 -w0)
kubectl -n shop patch secret pgbouncer-users -p "{\"data\":{\"userlist.txt\":\"$list\"}}"
kubectl -n shop rollout restart deployment/pgbouncer
kubectl -n shop rollout status deployment/pgbouncer --timeout=60s
# step: api, without it: users-served
kubectl -n shop patch secret database-logins -p "{\"stringData\":{\"orders_api\":\"$new\"}}"
kubectl -n shop patch deployment orders-api -p '{"spec":{"template":{"spec":{"containers":[{"name":"api","env":[
  {"name":"DATABASE_PASSWORD","valueFrom":{"secretKeyRef":{"name":"database-logins","key":"orders_api"}}},
  {"name":"DATABASE_URL","value":"postgresql://orders_api:$(DATABASE_PASSWORD)@pgbouncer:6432/shop"}]}]}}}}'
# check
kubectl -n shop rollout status deployment/orders-api --timeout=60s
