#!/bin/sh
# Fails unless the newest backup is whole and young enough.
set -eu
say() { printf '{"ts":"%s","level":"%s","service":"backup-check","msg":"%s"}\n' "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" "$1" "$2"; }

cd /backups
newest=$(ls -1r market-*.dump.sha256 2>/dev/null | head -n 1)
[ -n "$newest" ] || { say error "there is no backup"; exit 1; }
age=$(($(date +%s) - $(stat -c %Y "$newest")))
[ "$age" -le "$MAX_AGE_SECONDS" ] || { say error "the newest backup, ${newest%.sha256}, is $age seconds old"; exit 1; }
sha256sum --check --status "$newest" || { say error "${newest%.sha256} is damaged"; exit 1; }
pg_restore --list "${newest%.sha256}" >/dev/null || { say error "${newest%.sha256} cannot be read"; exit 1; }
say info "${newest%.sha256} is whole, $age seconds old"
