#!/bin/bash
# Usage: serve.sh DIRECTORY PYTHON PORT      (called by run.sh, which has prepared DIRECTORY and chosen the user)
#
# Purpose: PostgreSQL with encdb, an evaluator, an owner's keys, and the shop, which runs until Ctrl-C or SIGTERM. Then
# everything is ended and DIRECTORY is removed. Nothing listens on a network port except the shop, at 127.0.0.1.
set -euo pipefail
base=$1 python=$2 port=$3
pg=$base/server/$(cat "$base/server/bindir")
socket=$base/run/evaluator.sock
application='' server='' evaluator=''
export PGHOST=$base/run PGPORT=5432 PGDATABASE=shop PGSEAL_IDENTITY=$base/owner.identity XDG_RUNTIME_DIR=$base/runtime

# shellcheck source-path=SCRIPTDIR source=../../scripts/demo/talk.sh
. "$(dirname "$0")/talk.sh"

# Shows a command of somebody, and runs it. Its output goes to a log.
shown() {
    local user=$1
    shift
    printf '    %-5s$ %s\n' "$user" "$(sed "s#$base/bin/##g; s#$pg/##g; s#$python#python#g" <<<"$*")"
    PGUSER=$user "$@" >>"$base/setup.log" 2>&1 || die "$(tail -5 "$base/setup.log")"
}

start_evaluator() {
    : >"$base/evaluator.log"
    "$base/bin/pgseal-evaluator" --socket "$socket" --allow-uid "$(id -u)" --unlocked --identity "$base/evaluator.identity" \
        >>"$base/evaluator.log" 2>&1 &
    evaluator=$!
    echo "$evaluator" >"$base/run/evaluator.pid"
    until grep -q listening "$base/evaluator.log"; do
        kill -0 "$evaluator" 2>/dev/null || die "$(cat "$base/evaluator.log")"
        sleep 0.05
    done
    # The evaluator's administrator gives this key to owners: an impostor has another one.
    PGSEAL_ACCEPT=software:$(sed -n 's/^.* signed by //p' "$base/evaluator.log")
    export PGSEAL_ACCEPT
}

start_server() {
    "$pg/initdb" -D "$base/data" -k -U postgres -A trust -N --locale=C -E UTF8 >"$base/initdb.log"
    cat >>"$base/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$base/run'
log_statement = all
encdb.evaluator = isolated
encdb.socket = '$socket'
END
    "$pg/postgres" -D "$base/data" >"$base/server.log" 2>&1 &
    server=$!
    echo "$server" >"$base/run/server.pid"
    until "$pg/pg_isready" -q -d postgres; do
        kill -0 "$server" 2>/dev/null || die "$(tail -5 "$base/server.log")"
        sleep 0.1
    done
}

prepare() {
    local pgseal=$base/bin/pgseal
    title "A server, and an evaluator in a process of its own"
    start_evaluator
    start_server
    shown postgres "$pg/psql" -qd postgres -c "CREATE ROLE shop LOGIN" -c "CREATE DATABASE shop OWNER shop"
    title "The application's own migrations; then the administrator encrypts columns of the empty tables"
    cd "$base/application"
    shown shop "$python" manage.py migrate
    shown postgres "$pg/psql" -q1 -v ON_ERROR_STOP=1 -f dba.sql
    title "The owner: keys that the server never sees, and what it may do with them"
    shown shop "$pgseal" client init
    shown shop "$pgseal" client key new
    shown shop "$pgseal" client column add --all
    shown shop "$pgseal" client grant add --this-database --allow aggregate,text,compare-derived
    title "The application, unchanged, with a proxy of its own"
    shown shop "$pgseal" client exec -- "$python" manage.py loaddata sample
}

answers() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

start_application() {
    ! answers || die "port $port is in use; set PGSEAL_SHOP_PORT"
    local command=("$base/bin/pgseal" client exec -- "$python" manage.py runserver --noreload "127.0.0.1:$port")
    printf '    shop $ pgseal client exec -- python manage.py runserver 127.0.0.1:%s\n' "$port"
    PGUSER=shop "${command[@]}" >"$base/application.log" 2>&1 &
    application=$!
    echo "$application" >"$base/run/application.pid"
    until answers; do
        kill -0 "$application" 2>/dev/null || die "$(tail -5 "$base/application.log")"
        sleep 0.1
    done
}

tell() {
    title "Open http://127.0.0.1:$port/ and search, sort, add and edit"
    cat <<END
    Meanwhile, as the server's administrator (this user, or root), in another terminal:

      psql -h $base/run -U postgres shop -c 'SELECT name, email, city FROM shop_customer LIMIT 3'
      grep -c shop_customer $base/server.log      # every statement is in the log
      grep -c 'Ada Example' $base/server.log      # and no value of an encrypted column
      grep -rla 'Ada Example' $base/data          # nor in any file, as Xanadu, of the plain column city, is

    Ctrl-C ends the shop and removes all of it.
END
}

# shellcheck disable=SC2317  # called by end_all
end() {
    local name=$1 pid=$2 signal=$3
    [ -n "$pid" ] || return 0
    kill "-$signal" "$pid" 2>/dev/null || true
    wait "$pid" || true
    rm -f "$base/run/$name.pid"
}

# shellcheck disable=SC2317  # called by the trap
end_all() {
    trap '' INT TERM HUP
    end application "$application" TERM
    end server "$server" INT
    end evaluator "$evaluator" TERM
    cd /
    rm -rf "$base"
}

echo $$ >"$base/run/serve.pid"
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -m 700 "$XDG_RUNTIME_DIR"
prepare
start_application
tell
wait "$application"
die "the application ended: $(tail -5 "$base/application.log")"
