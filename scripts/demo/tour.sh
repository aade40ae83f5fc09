#!/bin/bash
# Usage: tour.sh DIRECTORY      (called by scripts/demo.sh, which has prepared DIRECTORY and chosen the user)
#
# Purpose: what pgseal does, shown on real rows: a sealed cluster and a plain twin get the same data, answer the same
# questions, are both killed in the middle of a load, recover, and are searched for the data in the raw files.
# Exits with 0 only if every comparison came out as promised.
set -euo pipefail
base=$1
pg=/usr/lib/postgresql/15/bin
pgseal=$base/pgseal/bin/pgseal
twins=$base/twins/15
declare -A server=()
declare -A bin=([plain]=$pg [sealed]=$twins)

# What is searched for: cells of tables, a name in the catalog, a comment.
terms=(Liechtenstein Schleswig-Holstein "Papua New Guinea" xylophonist Zürich pgbench_accounts "The dictionary of wamerican")

# shellcheck source-path=SCRIPTDIR source=talk.sh
. "$(dirname "$0")/talk.sh"

show() {
    printf '    $ %s\n' "$*"
}

# Runs a command and sets seconds to the time it took.
timed() {
    local start=${EPOCHREALTIME/./}
    "$@"
    local end=${EPOCHREALTIME/./}
    seconds=$(awk -v us=$((end - start)) 'BEGIN { printf "%.1f s", us / 1e6 }')
}

# Runs a command for the plain cluster, then for the sealed one, and prints both times. The command gets the name last.
for_both() {
    local what=$1 plain_seconds
    shift
    timed "$@" plain
    plain_seconds=$seconds
    timed "$@" sealed
    printf '    %-44s %10s %10s\n' "$what" "$plain_seconds" "$seconds"
}

on() {
    local name=$1 program=$2
    shift 2
    "${bin[$name]}/$program" -h "$base/run/$name" -U demo "$@"
}

sql() {
    local name=$1
    shift
    on "$name" psql -X -q -v ON_ERROR_STOP=1 -d demo "$@"
}

make_cluster() {
    local name=$1 options=()
    if [ "$name" = sealed ]; then options=(--data-encryption=256); fi
    "${bin[$name]}/initdb" -D "$base/$name" -U demo -A trust -k -E UTF8 --no-instructions "${options[@]}" >"$base/log/initdb-$name.log" ||
        die "initdb; see $base/log/initdb-$name.log"
    cat >>"$base/$name/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$base/run/$name'
shared_buffers = 64MB
max_wal_size = 1GB
END
}

# As a child of this script, so that its end can be waited for: a killed postmaster that nobody has waited for keeps its
# process id, and the next start would say that another server might be running.
start() {
    local name=$1 tries
    setsid "${bin[$name]}/postgres" -D "$base/$name" >>"$base/log/$name.log" 2>&1 </dev/null &
    server[$name]=$!
    for ((tries = 0; tries < 600; tries++)); do
        if on "$name" pg_isready -q -d postgres; then return; fi
        kill -0 "${server[$name]}" 2>/dev/null || break
        sleep 0.1
    done
    die "the $name server does not start; see $base/log/$name.log"
}

stop() {
    local name=$1
    "${bin[$name]}/pg_ctl" stop -D "$base/$name" -m fast -s
    wait "${server[$name]}" || true
    unset "server[$name]"
}

# Whether a process is there and no zombie.
is_alive() {
    local state
    state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || true
    [ -n "$state" ] && [ "$state" != Z ]
}

# The postmaster and all its children, as a power cut would end them.
kill_hard() {
    local name=$1 pid=${server[$1]} children child
    children=$(ps -o pid= --ppid "$pid")
    # shellcheck disable=SC2086  # one word per process
    kill -9 "$pid" $children 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    for child in $children; do
        while is_alive "$child"; do sleep 0.05; done
    done
    unset "server[$name]"
}

load_pgbench() {
    on "$1" pgbench -i -q -s 10 demo >"$base/log/pgbench-init-$1.log" 2>&1
}

load_words() {
    sql "$1" -f "$base/demo/load.sql"
}

ask() {
    sql "$1" -At -F '|' -f "$base/demo/questions.sql" >"$base/log/answers-$1"
}

make_clusters() {
    mkdir -m 700 "$base"/{run,run/plain,run/sealed,log,secret,twins}
    title "A plain cluster, and a sealed one by the same PostgreSQL: $("$pg/postgres" --version)"
    show "pgseal bindir --pg $pg --into $twins"
    "$pgseal" bindir --pg "$pg" --into "$twins" >"$base/log/bindir.log"
    openssl rand -hex 16 >"$base/secret/passphrase"
    local pass="-aes-256-cbc -pbkdf2 -iter 600000 -pass file:$base/secret/passphrase"
    export PGDATAKEYWRAPCMD="openssl enc -e $pass -out \"%p\"" PGDATAKEYUNWRAPCMD="openssl enc -d $pass -in \"%p\""
    show "$twins/initdb -D $base/sealed --data-encryption=256 -k"
    printf '\n    %-44s %10s %10s\n' '' plain sealed
    for_both initdb make_cluster
    # From here on the unwrap command that is stored in the cluster's key file does.
    unset PGDATAKEYWRAPCMD PGDATAKEYUNWRAPCMD
    for_both start start
}

load() {
    on plain createdb demo
    on sealed createdb demo
    for_both 'load: pgbench, 1,000,000 accounts' load_pgbench
    for_both 'load: dictionary and ISO code lists' load_words
}

compare_answers() {
    title "$1"
    ask plain
    ask sealed
    printf '    %-60s %12s %12s\n' '' plain sealed
    paste -d '|' "$base/log/answers-plain" "$base/log/answers-sealed" |
        while IFS='|' read -r question left _ right; do printf '    %-60s %12s %12s\n' "$question" "$left" "$right"; done
    cmp -s "$base/log/answers-plain" "$base/log/answers-sealed" || die "the answers differ"
    good "equal answers"
}

crash() {
    title "kill -9 of every process of both servers, four seconds into a load"
    local name pids=()
    for name in plain sealed; do
        on "$name" pgbench -c 4 -T 30 -n demo >"$base/log/pgbench-$name.log" 2>&1 &
        pids+=($!)
        sql "$name" -c "DO \$\$ BEGIN LOOP UPDATE words SET seen = seen + 1 WHERE word LIKE 'x%'; COMMIT; END LOOP; END \$\$" \
            >"$base/log/updates-$name.log" 2>&1 &
        pids+=($!)
    done
    sleep 4
    kill_hard plain
    kill_hard sealed
    wait "${pids[@]}" || true
    printf '    %-44s %10s %10s\n' '' plain sealed
    for_both 'start with crash recovery' start
    for name in plain sealed; do check_balances "$name"; done
}

# What pgbench's transactions keep true, whatever was committed before the crash.
check_balances() {
    local name=$1 count sums
    sums=$(sql "$name" -At -c "SELECT count(DISTINCT s), (SELECT count(*) FROM pgbench_history) FROM (
        SELECT sum(abalance) s FROM pgbench_accounts UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
        UNION ALL SELECT sum(bbalance) FROM pgbench_branches UNION ALL SELECT sum(delta) FROM pgbench_history) sums")
    count=${sums#*|}
    if [ "${sums%%|*}" != 1 ] || [ "$count" = 0 ]; then die "$name: balances disagree after recovery: $sums"; fi
    good "$name: accounts, tellers, branches and history agree after $count committed transactions"
}

check_sealed() {
    title "verify and audit of the sealed cluster"
    local canaries=() term
    show "pgseal verify -D $base/sealed"
    "$pgseal" verify -D "$base/sealed" || die "verify"
    for term in "${terms[@]}"; do canaries+=(--canary "$term"); done
    show "pgseal audit $base/sealed --canary ${terms[0]} ..."
    "$pgseal" audit "$base/sealed" "${canaries[@]}" || die "audit"
}

# "FILES files, HITS hits" of a term in the raw files of a cluster.
found() {
    local term=$1 name=$2 files hits
    files=$( (LC_ALL=C grep -rlaF -e "$term" "$base/$name" || true) | wc -l)
    hits=$( (LC_ALL=C grep -rhaoF -e "$term" "$base/$name" || true) | wc -l)
    echo "$files files, $hits hits"
}

search() {
    title "What a search of the raw files finds"
    local term left right width
    printf '    %-32s %26s %26s\n' '' plain sealed
    for term in "${terms[@]}"; do
        left=$(found "$term" plain)
        right=$(found "$term" sealed)
        # printf counts bytes; the terms are UTF-8.
        width=$((32 + $(printf %s "$term" | wc -c) - ${#term}))
        printf "    %-${width}s %26s %26s\n" "$term" "$left" "$right"
        [ "$left" != "0 files, 0 hits" ] || die "$term is not even in the plain cluster: the search shows nothing"
        [ "$right" = "0 files, 0 hits" ] || die "$term is readable in the sealed cluster"
    done
    good "nothing is readable in the sealed cluster"
}

# The first readable runs at the beginning of the table's file.
peek() {
    local name
    title "The first readable text in the file of the table iso"
    for name in plain sealed; do
        printf '  %s\n' "$name"
        (LC_ALL=C grep -aoE '[[:print:]]{24,}' "$base/$name/${table[$name]}" || true) | head -n 3 | sed 's/^/    /'
        LC_ALL=C grep -qaE '[[:print:]]{24,}' "$base/$name/${table[$name]}" || echo "    (none of 24 characters or more)"
    done
}

size() {
    du -s --apparent-size -B1M "$base/$1/base" | cut -f 1
}

farewell() {
    start sealed
    title "The sealed server runs on"
    cat <<END
    connect     $twins/psql -h $base/run/sealed -U demo demo
    stop        make demo-stop
    again       make demo
    raw files   $base/plain and $base/sealed
    key         $base/sealed/pg_encryption/key.bin, wrapped under $base/secret/passphrase
                (a demo: keep yours elsewhere)
END
}

# shellcheck disable=SC2317  # called by the trap
end_servers() {
    local pid
    for pid in "${server[@]}"; do kill -QUIT "$pid" 2>/dev/null || true; done
}

trap end_servers EXIT
make_clusters
load
compare_answers "The same questions"
crash
compare_answers "The same questions after recovery"
declare -A table
for name in plain sealed; do
    table[$name]=$(sql "$name" -At -c "SELECT pg_relation_filepath('iso')")
    stop "$name"
done
check_sealed
search
peek
title "Size of base/ in MiB: plain $(size plain), sealed $(size sealed)"
farewell
trap - EXIT
