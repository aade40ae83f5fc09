#!/bin/bash
# Usage: scripts/encdb-server.sh BINDIR INTO
#
# Purpose: a PostgreSQL of its own with the extensions, for tests: copies the installation whose programs are in BINDIR
# (Debian's, or one that tests/suites/fetch-build.sh made) to the directory INTO, installs encdb and encdb_btree there, and
# puts pgseal-evaluator and the tests' owner and client beside them. PostgreSQL finds its files from its programs' place, so a copy is
# whole by itself. INTO/bindir holds the path of the copy's programs, seen from INTO.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

[ $# = 2 ] || die "usage: $0 BINDIR INTO"
bindir=$(realpath "$1")
into=$2
[ -x "$bindir/pg_config" ] || die "$bindir has no pg_config; as root run: apt-get install postgresql-server-dev-15"

scripts/copy-server.sh "$bindir" "$into"
nice make --no-print-directory test-programs
nice make --no-print-directory install-extensions PG_CONFIG="$(realpath "$into")/$(cat "$into/bindir")/pg_config"
install -m 755 target/release/{pgseal-evaluator,owner,taken_back} "$into/"
