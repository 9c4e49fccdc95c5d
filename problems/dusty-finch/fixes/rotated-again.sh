#!/bin/sh
# expect: right
# changes: Secret/database-logins, Secret/pgbouncer-users, Deployment/pgbouncer, Deployment/orders-api, exec/postgres-0
# Nobody trusts the half-done rotation: it is done once more, with a third password, in all three places.
set -eu
new=$(head -c 12 /dev/urandom | base64 | tr -dc 'a-zA-Z0-9')
read_key() { kubectl -n shop get secret "$1" -o "jsonpath={.data.$2}" | base64 -d; }
# step: database, without it: users-served
kubectl -n shop exec postgres-0 -c postgres -- psql -X -U postgres -d shop -c "alter role app password '$new'"
# step: logins, without it: users-served
kubectl -n shop patch secret database-logins -p "{\"stringData\":{\"app\":\"$new\"}}"
# step: list, without it: users-served
list=$(read_key pgbouncer-users 'userlist\.txt' | sed "s/^\"app\" .*/\"app\" \"$new\"/" | base64 -w0)
kubectl -n shop patch secret pgbouncer-users -p "{\"data\":{\"userlist.txt\":\"$list\"}}"
# step: restarts, without it: users-served
kubectl -n shop rollout restart deployment/pgbouncer
kubectl -n shop rollout status deployment/pgbouncer --timeout=60s
kubectl -n shop rollout restart deployment/orders-api
# check
kubectl -n shop rollout status deployment/orders-api --timeout=60s
