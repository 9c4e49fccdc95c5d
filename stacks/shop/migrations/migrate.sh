#!/bin/sh
# migrate: brings the database `market` to the newest schema. Connects by PGHOST, PGUSER, PGPASSWORD.
#
# Makes the database and the logins that are missing (one file a login in $LOGINS, the file holds its password;
# the rotator changes passwords later, so those of logins that exist are left alone), then applies, each in a
# transaction of its own, the files of $SQL that public.schema_migrations does not name. An advisory lock
# keeps two runs apart. Safe to run again at any time.
set -eu
SQL=${SQL:-/migrations}
LOGINS=${LOGINS:-/etc/market/logins}
WAIT=${WAIT_SECONDS:-120}
roles="catalog accounts orders payments inventory shipping notify flags backoffice settlement reports backup oncall"

# A new pod may connect a moment before the packet filters know its address, or before the database is up.
end=$(($(date +%s) + WAIT))
until pg_isready -q; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "the database at $PGHOST does not answer within $WAIT s: look at its pod and its log" >&2
    exit 1
  fi
  sleep 0.2
done

logins() {
  for role in $roles; do
    if [ -r "$LOGINS/$role" ]; then
      cat <<END
\set password \`cat $LOGINS/$role\`
select format('create role %I login password %L', '$role', :'password')
END
    else
      echo "select 'create role $role login'"
    fi
    cat <<END
where not exists (select from pg_roles where rolname = '$role') \gexec
END
  done
  cat <<END
select 'create database market' where not exists (select from pg_database where datname = 'market') \gexec
END
}

ladder() {
  cat <<END
set client_min_messages = warning;
select pg_advisory_lock(7061) \g /dev/null
create table if not exists public.schema_migrations
  (version text primary key, name text not null, applied_at timestamptz not null default now());
END
  for file in "$SQL"/*.sql; do
    name=$(basename "$file" .sql)
    version=${name%%_*}
    cat <<END
select not exists (select from public.schema_migrations where version = '$version') as missing \gset
\if :missing
\echo applying $name
begin;
\i $file
insert into public.schema_migrations (version, name) values ('$version', '$name');
commit;
\endif
END
  done
}

logins | psql -X -q -v ON_ERROR_STOP=1 -d postgres
ladder | psql -X -q -v ON_ERROR_STOP=1 -d market
psql -X -At -d market -c "select 'the schema is at ' || max(version) from public.schema_migrations"
