#!/bin/sh
# nginx gives up when a name of its configuration cannot be looked up; a cluster that starts has no names yet.
set -eu
config=/etc/nginx/conf/nginx.conf
for name in $(sed -n 's/^ *proxy_pass http:\/\/\([a-z0-9.-]*\).*/\1/p' "$config" | sort -u); do
  until getent hosts "$name" >/dev/null; do sleep 0.2; done
done
exec nginx -e stderr -c "$config" -g 'daemon off;'
