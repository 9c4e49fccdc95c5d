#!/bin/sh
# expect: unsafe
# decides: old-is-refused
# changes: Secret/database-logins, exec/postgres-0
# The rotation is undone: the password that had got out opens the database again.
set -eu
old=$(kubectl -n shop get secret pgbouncer-users -o 'jsonpath={.data.userlist\.txt}' | base64 -d |
  sed -n 's/^"app" "\(.*\)"/\1/p')
kubectl -n shop exec postgres-0 -c postgres -- psql -X -U postgres -d shop -c "alter role app password '$old'"
kubectl -n shop patch secret database-logins -p "{\"stringData\":{\"app\":\"$old\"}}"
