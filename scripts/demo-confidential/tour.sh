#!/bin/bash
# Usage: tour.sh DIRECTORY      (called by scripts/demo-confidential.sh, which has prepared DIRECTORY and chosen the user)
#
# Purpose: encrypted columns from both sides: an evaluator, an owner's keys, the published table; psql as the server's
# administrator sees cells, the owner sees values; what is granted can be done, and nothing else.
# Exits with 0 only if every step came out as promised.
# shellcheck disable=SC2016  # $1 is a parameter of a statement
set -euo pipefail
base=$1
pg=$base/server/$(cat "$base/server/bindir")
socket=$base/run/evaluator.sock
server='' evaluator=''
export PGHOST=$base/run PGPORT=5432 PGUSER=postgres PGDATABASE=shop
export PGSEAL_IDENTITY=$base/owner.identity

# shellcheck source-path=SCRIPTDIR source=../demo/talk.sh
. "$(dirname "$0")/talk.sh"

# Shows a command of the owner, and runs it.
owner() {
    printf '    owner$ pgseal client %s\n' "$*"
    "$base/bin/pgseal" client "$@" | sed 's/^/    /'
}

# The same of the administrator. Cells are long: their beginning shows what they are.
admin() {
    printf '    admin$ psql -c "%s"\n' "$1"
    "$pg/psql" -X -q -c "$1" | sed -E 's/(\\x[0-9a-f]{22})[0-9a-f]+/\1…/g; s/ {3,}/  /g; s/-{9,}/--------/g; s/^/    /'
}

# What must fail, and with which words.
refused() {
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then die "it was not refused: $*"; fi
    [[ $said == *"$words"* ]] || die "it failed otherwise: $said"
    printf '    %s\n' "${said##*pgseal: }"
    good "refused"
}

start_evaluator() {
    : >"$base/evaluator.log"
    "$base/bin/pgseal-evaluator" --socket "$socket" --allow-uid "$(id -u)" --unlocked \
        --identity "$base/evaluator.identity" >>"$base/evaluator.log" 2>&1 &
    evaluator=$!
    until grep -q listening "$base/evaluator.log"; do
        kill -0 "$evaluator" 2>/dev/null || die "$(cat "$base/evaluator.log")"
        sleep 0.05
    done
}

# The copy is not where PostgreSQL was built for, so the wrappers lie in a directory that looks like it.
make_wrappers() {
    local from=$base/server to=$base/wrappers part entry
    for part in $(tr / ' ' <"$base/server/bindir"); do
        mkdir "$to"
        for entry in "$from"/*; do
            [ "${entry##*/}" = "$part" ] || ln -s "$entry" "$to/"
        done
        from=$from/$part to=$to/$part
    done
    "$base/bin/pgseal" bindir --pg "$from" --into "$to" >"$base/bindir.log"
    pg=$to
}

start_server() {
    local pass="-aes-256-cbc -pbkdf2 -pass file:$base/passphrase"
    (umask 077 && openssl rand -hex 20 >"$base/passphrase")
    PGDATAKEYWRAPCMD="openssl enc -e $pass -out \"%p\"" PGDATAKEYUNWRAPCMD="openssl enc -d $pass -in \"%p\"" \
        "$pg/initdb" -D "$base/data" --data-encryption=256 -k -U postgres -A trust -N --locale=C -E UTF8 >"$base/initdb.log"
    cat >>"$base/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$base/run'
encdb.evaluator = isolated
encdb.socket = '$socket'
END
    "$pg/postgres" -D "$base/data" >"$base/server.log" 2>&1 &
    server=$!
    until "$pg/pg_isready" -q -d postgres; do
        kill -0 "$server" 2>/dev/null || die "$(tail -5 "$base/server.log")"
        sleep 0.1
    done
}

# shellcheck disable=SC2317  # called by the trap
end_all() {
    local pid
    for pid in $server; do kill -INT "$pid" 2>/dev/null || true; done
    for pid in $evaluator; do kill "$pid" 2>/dev/null || true; done
    wait
}

prepare() {
    title "A server whose cluster is encrypted on disk, and an evaluator in a process of its own"
    make_wrappers
    start_evaluator
    # The evaluator's administrator tells it to owners: whoever answers in its place has another key.
    PGSEAL_ACCEPT=software:$(sed -n 's/^.* signed by //p' "$base/evaluator.log")
    export PGSEAL_ACCEPT
    start_server
    "$pg/psql" -X -q -d postgres -c 'CREATE DATABASE shop'
    admin 'CREATE EXTENSION encdb'
    title "An owner: keys that the server never sees in clear"
    owner init
    owner connect
    owner key new
    owner grant add --allow arithmetic,aggregate,text,compare-derived
}

fill() {
    title "The published table; values are sealed on the owner's side"
    local k='\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'
    local empty='\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496'
    "$pg/psql" -X -q -v ON_ERROR_STOP=1 <<END
CREATE TABLE test1(id enc_int4 NOT NULL, k enc_int4 DEFAULT '$k' NOT NULL, c enc_text DEFAULT '$empty' NOT NULL,
  pad enc_text DEFAULT '$empty' NOT NULL, PRIMARY KEY (id));
CREATE INDEX k_1 on test1(k);
END
    for row in $(seq 1 200); do
        printf '%d\t%d\tCustomer %03d of Xanadu\tpad\n' "$row" $((row * 7 % 200)) "$row"
    done >"$base/rows"
    owner column add --all
    owner sql --each-line 'INSERT INTO test1 (id, k, c, pad) VALUES ($1, $2, $3, $4)' <"$base/rows"
}

both_sides() {
    title "The administrator sees cells; comparing or computing takes the owner's session"
    admin 'SELECT id, k, c FROM test1 LIMIT 3'
    refused 'no session is open' "$pg/psql" -X -c 'SELECT * FROM test1 ORDER BY id'
    title "The owner sees values: point, range, pattern, order, update"
    owner sql 'SELECT id, k, c FROM test1 WHERE id = $1' 42
    owner sql 'SELECT sum(k), count(*) FROM test1 WHERE id BETWEEN $1 AND $2' 1 100
    owner sql 'SELECT id, c FROM test1 WHERE c LIKE $1 ORDER BY k DESC LIMIT 3' '%10% of Xan%'
    owner sql 'UPDATE test1 SET k = k + $1 WHERE id = $2' 1000 42
    [ "$("$base/bin/pgseal" client sql -tA 'SELECT k FROM test1 WHERE id = $1' 42)" = 1094 ] || die "42 * 7 % 200 + 1000 is 1094"
    good "294 % 200 + 1000 = 1094"
}

attacks() {
    title "Nobody else: another identity in a session of its own, the files, the log"
    PGSEAL_IDENTITY=$base/stranger.identity "$base/bin/pgseal" client init >"$base/stranger.log" 2>&1
    refused 'data key' env PGSEAL_IDENTITY="$base/stranger.identity" "$base/bin/pgseal" client sql --trust-server-types \
        'SELECT c FROM test1 LIMIT 1'
    "$pg/psql" -X -q -c CHECKPOINT
    # As the server sees its files; stored, they are encrypted altogether.
    local search=("$base/bin/pgseal" exec -D "$base/data" -- grep -rqa)
    if "${search[@]}" Xanadu "$base/data" "$base/server.log"; then die "a value is readable below the data directory"; fi
    "${search[@]}" test1 "$base/data" || die "the search would find nothing"
    if grep -rqa test1 "$base/data"; then die "a name of a table is readable as it is stored"; fi
    good "no value is readable in the data directory, its WAL, or the log, and of what is stored nothing"
    title "An application: it can do what the owner grants, until it is taken back"
    application
}

application() {
    local subject serial sum=(env "PGSEAL_IDENTITY=$base/application.identity" "$base/bin/pgseal" client sql -tA 'SELECT sum(k) FROM test1')
    subject=$("$base/bin/pgseal" client init "$base/application.identity" --application-of "$base/owner.identity" | sed -n 's/^subject *//p')
    refused 'has not granted' "${sum[@]}"
    serial=$("$base/bin/pgseal" client grant add --to "$subject" --allow aggregate --valid-until 1h | sed -n 's/^serial *//p')
    good "granted; the sum is $("${sum[@]}")"
    owner grant revoke "$serial"
    refused 'was revoked' "${sum[@]}"
}

death() {
    title "The evaluator is killed: one clear error, and it comes back without a restart of the server"
    kill -KILL "$evaluator"
    wait "$evaluator" 2>/dev/null || true
    refused 'evaluator' "$base/bin/pgseal" client sql 'SELECT count(*) FROM test1 WHERE id > $1' 0
    start_evaluator
    owner sql 'SELECT count(*) FROM test1 WHERE id > $1' 0
}

trap end_all EXIT
prepare
fill
both_sides
attacks
death
title "Done in $SECONDS s; all lies in $base"
