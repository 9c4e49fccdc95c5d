#!/bin/sh
# The sentinel beside a server. It keeps what it learned (the master, its fellows, the epoch) in its
# own file on the volume. The names are those of a Service for each node.
set -eu
own=/data/sentinel.conf
if [ ! -s "$own" ]; then
  until master=$(sed -n 's/^replicaof \([^ ]*\) .*/\1/p' /data/node.conf 2>/dev/null); do sleep 0.2; done
  master=${master:-$POD_NAME.$DOMAIN}
  cat >"$own.new" <<CONF
port 26379
dir /tmp
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $POD_NAME.$DOMAIN
sentinel announce-port 26379
sentinel monitor carts $master 6379 2
sentinel down-after-milliseconds carts 5000
sentinel failover-timeout carts 20000
sentinel parallel-syncs carts 1
CONF
  mv "$own.new" "$own"
fi
# A name that cannot be resolved ends a sentinel at its start.
master=$(sed -n 's/^sentinel monitor carts \([^ ]*\) .*/\1/p' "$own")
until getent hosts "$master" >/dev/null && getent hosts "$POD_NAME.$DOMAIN" >/dev/null; do
  echo "waiting for the name $master" >&2
  sleep 0.5
done
exec redis-sentinel "$own"
