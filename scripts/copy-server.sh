#!/bin/bash
# Usage: scripts/copy-server.sh BINDIR INTO
#
# Purpose: a PostgreSQL of its own, into which tests may install extensions: copies the installation whose programs are in BINDIR
# (Debian's, or one that tests/suites/fetch-build.sh made) to the directory INTO, which it makes anew. PostgreSQL finds its
# files from its programs' place, so a copy is whole by itself. INTO/bindir holds the path of the copy's programs, seen from INTO.
set -euo pipefail
umask 022

[ $# = 2 ] || {
    echo "usage: $0 BINDIR INTO" >&2
    exit 1
}
bindir=$(realpath "$1")
into=$2

# Debian's layout: programs and modules below lib, the rest below share.
copy_debian() {
    local version=$1
    mkdir -p "$into/lib/postgresql" "$into/share/postgresql" "$into/include"
    cp -a "/usr/lib/postgresql/$version" "$into/lib/postgresql/"
    rm -rf "$into/lib/postgresql/$version/lib/bitcode"
    cp -aL "/usr/share/postgresql/$version" "$into/share/postgresql/"
    ln -s /usr/include/postgresql "$into/include/postgresql"
    echo "lib/postgresql/$version/bin" >"$into/bindir"
}

copy_prefix() {
    cp -a "$(dirname "$bindir")/." "$into/"
    echo bin >"$into/bindir"
}

rm -rf "$into"
mkdir -p "$into"
case $bindir in
    /usr/lib/postgresql/*/bin) copy_debian "$(basename "$(dirname "$bindir")")" ;;
    *) copy_prefix ;;
esac
