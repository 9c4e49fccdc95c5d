#!/bin/sh
# expect: right
# changes: Secret/pgbouncer-users, Deployment/pgbouncer, Deployment/orders-api
# The pooler's list gets the password that database-logins has; whoever read the old one starts again.
set -eu
read_key() { kubectl -n shop get secret "$1" -o "jsonpath={.data.$2}" | base64 -d; }
# step: list, without it: users-served
new=$(read_key database-logins app)
list=$(read_key pgbouncer-users 'userlist\.txt' | sed "s/^\"app\" .*/\"app\" \"$new\"/" | base64 -w0)
kubectl -n shop patch secret pgbouncer-users -p "{\"data\":{\"userlist.txt\":\"$list\"}}"
# step: pooler, without it: users-served
kubectl -n shop rollout restart deployment/pgbouncer
kubectl -n shop rollout status deployment/pgbouncer --timeout=60s
# step: api, without it: users-served
kubectl -n shop rollout restart deployment/orders-api
# check
kubectl -n shop rollout status deployment/orders-api --timeout=60s
