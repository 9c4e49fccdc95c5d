#!/bin/sh
# The pooler knows three logins itself: the one that looks up all others in the database, so that
# a changed password needs nothing here, and the two of its console.
set -eu
umask 077
for name in pgbouncer oncall monitoring; do
  printf '"%s" "%s"\n' "$name" "$(sed 's/"/""/g' "$LOGINS/$name")"
done >/tmp/userlist.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
