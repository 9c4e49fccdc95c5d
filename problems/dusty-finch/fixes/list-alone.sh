#!/bin/sh
# expect: partial
# decides: users-served
# changes: Secret/pgbouncer-users, Deployment/pgbouncer
# The pooler gets the new password, and the API is left with the old one, which the pooler refuses now.
set -eu
new=$(kubectl -n shop get secret database-logins -o jsonpath='{.data.app}' | base64 -d)
list=$(kubectl -n shop get secret pgbouncer-users -o 'jsonpath={.data.userlist\.txt}' | base64 -d |
  sed "s/^\"app\" .*/\"app\" \"$new\"/" | base64 -w0)
kubectl -n shop patch secret pgbouncer-users -p "{\"data\":{\"userlist.txt\":\"$list\"}}"
kubectl -n shop rollout restart deployment/pgbouncer
kubectl -n shop rollout status deployment/pgbouncer --timeout=60s
