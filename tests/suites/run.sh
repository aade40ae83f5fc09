#!/bin/bash
# Usage: tests/suites/run.sh [--plain] VERSION [regress|isolation]…      (no suite named: both)
#
# Purpose: PostgreSQL's own regression and isolation suites, run by its own drivers as its makefiles run them, on sealed
# temporary clusters of the PostgreSQL that fetch-build.sh built. --plain runs the same on unsealed ones: the baseline.
# Sealed means: the drivers are given twins made by dist/bin/pgseal, and PGSEAL_INITDB_OPTIONS (default: a 256-bit key,
# unwrapped) for every initdb. While a suite runs, its cluster is checked to be sealed, so that no pass is an empty one.
#
# Prints the driver's summary and, per suite, "VERSION SUITE: N tests, N passed, N failed, N skipped", where skipped are the
# tests of the schedule that did not run; tests that end at once by their own condition are named on a line before it.
# Exit status: 0 all passed and none skipped, 1 otherwise. The output of a failed suite, its cluster included, stays in
# the directory that is then named; everything else is removed, and every process started here is ended.
# As root, PostgreSQL runs as the system user pgseal-test, which is made if it does not exist.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"

work=
group=
interrupted=false
as_user=()

parse_arguments() {
    sealed=true
    if [ "${1:-}" = --plain ]; then sealed=false; shift; fi
    [ $# -gt 0 ] || die "usage: $0 [--plain] VERSION [regress|isolation]…"
    version=$1
    suites=("${@:2}")
    [ ${#suites[@]} -gt 0 ] || suites=(regress isolation)
    local suite
    for suite in "${suites[@]}"; do
        case $suite in regress | isolation) ;; *) die "no suite is called $suite; there are regress and isolation" ;; esac
    done
    src=$cache/pg/$version/src
    inst=$cache/pg/$version/inst
    [ -e "$cache/pg/$version/stamp" ] || die "PostgreSQL $version is not built; run tests/suites/fetch-build.sh $version"
}

# A directory of our own, and a user who may run a server.
prepare_work() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/pgseal-suite.XXXXXX")
    if [ "$(id -u)" = 0 ]; then
        id pgseal-test >/dev/null 2>&1 ||
            useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin pgseal-test
        chown pgseal-test: "$work"
        as_user=(setpriv --reuid=pgseal-test --regid=pgseal-test --clear-groups --)
    fi
}

# Sets bindir. The twins use a copy of dist, because the user may not reach the tree and the tree may be rebuilt meanwhile.
prepare_bindir() {
    bindir=$inst/bin
    $sealed || return 0
    [ -x "$root/dist/bin/pgseal" ] || die "dist/bin/pgseal is missing; run make build first, or give --plain"
    cp -r "$root/dist" "$work/dist"
    chmod -R a+rX "$work/dist"
    bindir=$work/sealed/$version
    "${as_user[@]}" mkdir "$work/sealed"
    "${as_user[@]}" "$work/dist/bin/pgseal" bindir --pg "$inst/bin" --into "$bindir"
}

# Sets schedule and command: what "make check" runs for a suite, but for the places of input, output and programs.
suite_command() {
    local suite=$1 out=$2 input=$src/src/test/$1
    case $suite in
        regress)
            schedule=$input/parallel_schedule
            command=("$input/pg_regress" --dlpath="$input" --max-concurrent-tests=20)
            ;;
        isolation)
            schedule=$input/isolation_schedule
            command=("$input/pg_isolation_regress")
            ;;
    esac
    command+=(--schedule="$schedule" --temp-instance="$out/cluster" --bindir="$bindir" --inputdir="$input" --outputdir="$out")
    # From 16 on the expected results are looked for apart from the input.
    [ "$version" -lt 16 ] || command+=(--expecteddir="$input")
}

# Starts the driver in a session of its own; group is its process group. INITDB_TEMPLATE stays unset: every cluster is
# made by initdb, none is copied.
start_suite() {
    local suite=$1 out=$2 environment
    suite_command "$suite" "$out"
    environment=("PATH=$bindir:$src/src/test/$suite:$PATH" "HOME=$work" LANG=C.UTF-8 PGCTLTIMEOUT=180)
    if $sealed; then
        environment+=("PGSEAL_INITDB_OPTIONS=${PGSEAL_INITDB_OPTIONS:---data-encryption=256 --no-key-wrap}")
    fi
    "${as_user[@]}" mkdir "$out"
    (cd "$out" && exec setsid "${as_user[@]}" env -i "${environment[@]}" "${command[@]}") >"$work/$suite.log" 2>&1 </dev/null &
    group=$!
}

# postmaster.opts appears when a server starts, not yet while initdb runs.
check_sealed() {
    local data=$1/cluster/data
    while [ ! -e "$data/postmaster.opts" ]; do
        kill -0 "$group" 2>/dev/null || return 0 # the driver has failed and says why
        sleep 0.2
    done
    [ -e "$data/pg_encryption/key.bin" ] || die "the cluster is not sealed: no pg_encryption/key.bin in $data"
    # pg_checksums looks at the control file's checksum before anything else, and ends there.
    (LC_ALL=C "$inst/bin/pg_checksums" --check -D "$data" 2>&1 || true) | grep 'pg_control CRC value is incorrect' >/dev/null ||
        die "the cluster is not sealed: a program that knows no key can read global/pg_control in $data"
}

count_scheduled() {
    awk '/^test:/ { n += NF - 1 } END { print n + 0 }' "$schedule"
}

# Prints "TOTAL FAILED" from the driver's summary, in the forms of 15 and of later versions; "0 0" if it never came so far.
count_results() {
    awk '{ sub(/^[# ]+/, "") }
        /^All [0-9]+ tests passed/ { total = $2 }
        /^[0-9]+ of [0-9]+ tests failed/ { total = $3; failed = $1 }
        /^[0-9]+ of [0-9]+ tests passed/ { total = $3; failed = $3 - $1 } # 15: the others failed, but are to be ignored
        END { print total + 0, failed + 0 }' "$1"
}

# Tests whose script left by \quit, because its condition (a platform, a locale) does not hold here.
print_self_ended() {
    local suite=$1 out=$2 file names=()
    for file in "$out"/results/*.out; do
        [ "$(tail -n 1 "$file")" != '\quit' ] || names+=("$(basename "$file" .out)")
    done
    [ ${#names[@]} = 0 ] || echo "$version $suite: ended at once by their own condition: ${names[*]}"
}

# Prints the outcome of a finished suite; status is the driver's.
report() {
    local suite=$1 out=$2 status=$3 total failed skipped
    read -r total failed <<<"$(count_results "$work/$suite.log")"
    skipped=$(($(count_scheduled) - total))
    if [ "$total" = 0 ]; then
        tail -n 20 "$work/$suite.log"
    else
        grep -E '^not ok|FAILED|failed \(ignored\)|tests (passed|failed)' "$work/$suite.log"
        print_self_ended "$suite" "$out"
    fi
    echo "$version $suite: $total tests, $((total - failed)) passed, $failed failed, $skipped skipped"
    [ "$status" = 0 ] && [ "$failed" = 0 ] && [ "$skipped" = 0 ]
}

run_suite() {
    local suite=$1 out=$work/$1 status=0
    start_suite "$suite" "$out"
    if $sealed; then check_sealed "$out"; fi
    wait "$group" || status=$?
    end_processes
    report "$suite" "$out" "$status" || return 1
    rm -rf "$out" "$work/$suite.log"
}

# Ends what is left of the driver's session. Backends leave it for sessions of their own, but die with their postmaster.
end_processes() {
    [ -n "$group" ] || return 0
    local pid signal
    for pid in $(ps -o pid= -o args= --sid "$group" | awk '$2 ~ /\/postgres$/ { print $1 }'); do
        kill -QUIT "$pid" 2>/dev/null || true
    done
    for signal in TERM KILL; do
        kill "-$signal" -- "-$group" 2>/dev/null || break
        wait_for_group
    done
    group=
}

wait_for_group() {
    local i
    for ((i = 0; i < 100; i++)); do
        kill -0 -- "-$group" 2>/dev/null || return 0
        sleep 0.1
    done
}

# shellcheck disable=SC2317  # called by the trap
clean_up() {
    end_processes
    [ -n "$work" ] || return 0
    if $interrupted; then rm -rf "$work"; return 0; fi
    rm -rf "$work/dist" "$work/sealed"
    rmdir "$work" 2>/dev/null || echo "kept for inspection: $work" >&2
}

parse_arguments "$@"
trap clean_up EXIT
trap 'interrupted=true; exit 130' INT
trap 'interrupted=true; exit 143' TERM
prepare_work
prepare_bindir
failures=0
for suite in "${suites[@]}"; do
    run_suite "$suite" || failures=$((failures + 1))
done
exit $((failures > 0))
