#!/bin/bash
# Usage: scripts/other-minor.sh SERVER MINOR INTO
#
# Purpose: encdb as it was built for one minor release, in the server of another: makes the directory INTO anew, with the PostgreSQL
# MINOR that scripts/fetch-builds.sh fetched (15.0, say), and with what SERVER has beside PostgreSQL: the extensions,
# pgseal-evaluator, and clients that the build lacks, such as psql. scripts/encdb-server.sh made SERVER, of the same major version.
set -euo pipefail
umask 022

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$(dirname "$0")/../tests/suites/common.sh"

[ $# = 3 ] || die "usage: $0 SERVER MINOR INTO"
server=$1
into=$3
builds=("$cache/builds/$2".*)
build=${builds[0]}
[ -x "$build/bin/postgres" ] || die "$cache/builds has no PostgreSQL $2; run scripts/fetch-builds.sh"
programs=$server/$(cat "$server/bindir")

rm -rf "$into"
mkdir -p "$into"
cp -a "$build/." "$into/"
echo bin >"$into/bindir"
for program in "$programs"/*; do
    [ -e "$into/bin/$(basename "$program")" ] || cp -a "$program" "$into/bin/"
done
modules=$(find "$server" -name encdb.so)
cp -a "$(dirname "$modules")"/encdb*.so "$into/lib/postgresql/"
files=$(find "$server" -name encdb.control)
cp -a "$(dirname "$files")"/encdb* "$into/share/postgresql/extension/"
cp -a "$server"/{pgseal-evaluator,owner,taken_back} "$into/"
