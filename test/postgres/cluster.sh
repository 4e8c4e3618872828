#!/usr/bin/env bash
# cluster.sh COMMAND...: run it with POSTRIDER_TEST_PG naming a PostgreSQL server of its own.
#
# The server lives in a temporary folder, listens on a socket there, and is gone when the command
# has ended, however it did.  When POSTRIDER_TEST_PG is set already, that server is used.
# PG_BIN names the folder of initdb and pg_ctl where they are not found.  With PGBOUNCER=1 there is
# a pooler in between, which hands out server connections for one transaction each.
#
# The server is made for tests: small, in memory where that can be, and it syncs nothing.  With
# PG_DURABLE=1 it is as initdb makes it, on a disk (TMPDIR, /var/tmp), as benchmarks want it.
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: cluster.sh COMMAND..." >&2; exit 2; }
schemas=$(dirname "${BASH_SOURCE[0]}")/schemas.sql
if [ -n "${POSTRIDER_TEST_PG:-}" ]; then
    psql -qX -f "$schemas" "$POSTRIDER_TEST_PG" 2>/dev/null || true # they are there already
    exec "$@"
fi

bin=${PG_BIN:-}
for found in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
    [ -n "$bin" ] || [ ! -x "$found/initdb" ] || bin=$found
done
[ -n "$bin" ] || { path=$(command -v initdb) && bin=$(dirname "$path"); } || true
[ -n "$bin" ] || { echo "1..0 # SKIP PostgreSQL is not installed"; exit 77; }

base=/tmp
[ ! -w /dev/shm ] || base=/dev/shm
[ -z "${PG_DURABLE:-}" ] || base=${TMPDIR:-/var/tmp}
folder=$(mktemp -d "$base/postrider-pg-XXXXXX")
as=(env -u MALLOC_PERTURB_) # meson sets it for our own programs; it makes the server a tenth slower
if [ "$(id -u)" -eq 0 ]; then # the server refuses to run as root
    as+=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    chown postgres "$folder"
fi

stop() {
    [ -z "${bouncer:-}" ] || kill "$bouncer" 2>/dev/null || true
    [ ! -d "$folder/standby" ] || "${as[@]}" "$bin/pg_ctl" -D "$folder/standby" -m immediate -w stop >/dev/null 2>&1 || true
    "${as[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# make_data: what initdb makes, in $folder/data, with schemas.sql.  It takes longer than many a test, so a build folder keeps
# a copy; but not of what a benchmark measures.
init_data() {
    { (cd "$folder" && "${as[@]}" "$bin/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --locale=C --no-sync) &&
        "${as[@]}" "$bin/postgres" --single -j -c exit_on_error=on -D "$folder/data" postgres <"$schemas"; } >"$folder/log" 2>&1 ||
        { cat "$folder/log" >&2; exit 1; }
}
make_data() {
    if [ ! -f build.ninja ] || [ -n "${PG_DURABLE:-}" ]; then
        init_data
        return
    fi
    local kept
    kept=$PWD/postgres-data-$("$bin/postgres" --version | awk '{ print $3 }')-$(cksum <"$schemas" | cut -d ' ' -f 1)
    exec 9>"$kept.lock"
    flock 9
    if [ ! -d "$kept" ]; then
        init_data
        rm -rf "$kept.new"
        cp -a "$folder/data" "$kept.new"
        mv "$kept.new" "$kept"
    fi
    exec 9>&-
    [ -d "$folder/data" ] || cp -a "$kept" "$folder/data"
}
make_data
cd "$folder"
sed -i '1i local all locked scram-sha-256' "$folder/data/pg_hba.conf" # for whoever wants a wrong password
cat >>"$folder/data/postgresql.conf" <<SETTINGS
listen_addresses = ''
unix_socket_directories = '$folder'
SETTINGS
[ -n "${PG_DURABLE:-}" ] || cat >>"$folder/data/postgresql.conf" <<SETTINGS
fsync = off
full_page_writes = off
max_connections = 100
max_prepared_transactions = 10
shared_buffers = 32MB
SETTINGS
cat >>"$folder/data/postgresql.conf" <<SETTINGS
${PG_SETTINGS:-}
SETTINGS
"${as[@]}" "$bin/pg_ctl" -D "$folder/data" -w -t 60 -l "$folder/server.log" start >/dev/null ||
    { cat "$folder/server.log" >&2; exit 1; }

cd "$OLDPWD"
export POSTRIDER_TEST_PG="postgres:///postgres?host=$folder&user=postgres" POSTRIDER_TEST_PG_FOLDER="$folder"
export POSTRIDER_TEST_PG_BIN="cd / && ${as[*]} $bin"
export POSTRIDER_TEST_PG_RESTART="cd / && ${as[*]} $bin/pg_ctl -D $folder/data -w -m immediate -l $folder/server.log restart >/dev/null 2>&1"
if [ -n "${PGBOUNCER:-}" ]; then
    path=$(command -v pgbouncer || ls /usr/sbin/pgbouncer 2>/dev/null) || { echo "1..0 # SKIP pgbouncer is not installed"; exit 77; }
    mkdir "$folder/pool"
    [ "$(id -u)" -ne 0 ] || chown postgres "$folder/pool"
    cat >"$folder/pool/pgbouncer.ini" <<SETTINGS
[databases]
* = host=$folder user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = $folder/pool
listen_port = 5432
auth_type = any
pool_mode = transaction
default_pool_size = 40
max_client_conn = 200
logfile = $folder/pool/log
pidfile = $folder/pool/pid
SETTINGS
    "${as[@]}" "$path" -q "$folder/pool/pgbouncer.ini" 2>"$folder/pool/errors" &
    bouncer=$!
    for _ in $(seq 600); do
        ! "$bin/psql" -X -h "$folder/pool" -U postgres -c "" postgres >/dev/null 2>&1 || break
        kill -0 "$bouncer" 2>/dev/null || { cat "$folder/pool/errors" >&2; exit 1; }
        sleep 0.1
    done
    export POSTRIDER_TEST_PG="postgres:///postgres?host=$folder/pool&user=postgres"
fi
export PATH="$bin:$PATH" # psql itself: Debian puts a script before it that takes three times as long
status=0
"$@" || status=$?
exit $status
