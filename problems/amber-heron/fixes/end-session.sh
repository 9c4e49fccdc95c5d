#!/bin/sh
# expect: partial
# decides: next-migration
# changes: exec/postgres-0
# The report's session is ended and the migration goes through. The report starts again as before, the
# runner is as before: the next migration meets the same queue.
set -eu
# end_sessions ROLE: the sessions of a role, ended from beside the server, since it refuses new ones.
end_sessions() {
  kubectl -n shop exec postgres-0 -c postgres -- sh -c "kill -TERM \$(pgrep -f '^postgres: $1 ')"
}
end_sessions reports
kubectl -n shop wait --for=condition=complete job/orders-migrate-0042 --timeout=60s
kubectl -n shop rollout status deployment/orders-api --timeout=60s
