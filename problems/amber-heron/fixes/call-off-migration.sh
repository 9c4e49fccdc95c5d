#!/bin/sh
# expect: wrong
# decides: migration-applied
# changes: Job/orders-migrate-0042, exec/postgres-0
# The Job and its waiting statement are ended. Users are served at once, and the release has no column.
set -eu
# end_sessions ROLE: the sessions of a role, ended from beside the server, since it refuses new ones.
end_sessions() {
  kubectl -n shop exec postgres-0 -c postgres -- sh -c "kill -TERM \$(pgrep -f '^postgres: $1 ')"
}
kubectl -n shop delete job orders-migrate-0042 --wait=true --timeout=60s
end_sessions migrator
kubectl -n shop rollout status deployment/orders-api --timeout=60s
