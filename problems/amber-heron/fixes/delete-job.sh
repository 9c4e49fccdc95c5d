#!/bin/sh
# expect: wrong
# decides: users-served
# changes: Job/orders-migrate-0042
# The Job is deleted. Its statement waits on in the database: a session in a lock queue does not notice
# that its client has gone.
set -eu
kubectl -n shop delete job orders-migrate-0042 --wait=true --timeout=60s
