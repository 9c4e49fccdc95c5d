#!/bin/sh
# One of the trio's servers. What it is now, master or replica of which, lies in its own file on the
# volume, which it and the sentinels rewrite; the team's settings are included from the ConfigMap.
set -eu
own=/data/node.conf
me="$POD_NAME.$DOMAIN"
if [ ! -s "$own" ]; then
  # A new volume: ask the sentinels who is master; on a new trio it is the first node.
  master=$(timeout 3 redis-cli -h "redis-sentinel.$DOMAIN" -p 26379 --no-raw sentinel get-master-addr-by-name carts 2>/dev/null |
    sed -n 's/^1) "\(.*\)"$/\1/p') || master=
  [ -n "$master" ] || master="redis-node-0.$DOMAIN"
  {
    echo "include /etc/redis/redis.conf"
    echo "replica-announce-ip $me"
    echo "replica-announce-port 6379"
    [ "$master" = "$me" ] || echo "replicaof $master 6379"
  } >"$own.new"
  mv "$own.new" "$own"
fi
exec redis-server "$own"
