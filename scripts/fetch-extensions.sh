#!/bin/bash
# Usage: scripts/fetch-extensions.sh
#
# Purpose: extensions that Debian 12 does not package, for tests/extensions: a copy of its PostgreSQL 15 in CACHE/extensions/15, with
# pgvector and the part of TimescaleDB that is under the Apache License built into it. Their sources are upstream's, as later Debian
# releases ship them, from the mirror that this machine already uses; each is checked against the sum below.
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal. With the stamp in place nothing is done.
set -euo pipefail
umask 022

scripts=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$scripts/../tests/suites/common.sh"

pgvector=pool/main/p/pgvector/pgvector_0.8.0.orig.tar.gz
pgvector_sum=867a2c328d4928a5a9d6f052cd3bc78c7d60228a9b914ad32aa3db88e9de27b0
timescaledb=pool/main/t/timescaledb/timescaledb_2.19.3+dfsg.orig.tar.xz
timescaledb_sum=09fd11191768c220b071f61a108df9bd1df5522fbe4e7c2229f30f69b195454a
# To be raised whenever what is built below changes.
recipe=1

place=$cache/extensions/15
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Unpacks the sources at PATH of the mirror, which have this sum, into the directory NAME.
fetch() {
    local name=$1 path=$2 sum=$3
    /usr/lib/apt/apt-helper download-file "$mirror${path//+/%2b}" "$work/$name.tar" "SHA256:$sum" >&2 ||
        die "the mirror has no $(basename "$path") of the sum that is written down here"
    mkdir "$work/$name"
    tar -xf "$work/$name.tar" -C "$work/$name" --strip-components 1
}

build_pgvector() {
    fetch pgvector "$pgvector" "$pgvector_sum"
    nice make -s -C "$work/pgvector" PG_CONFIG="$pg_config" with_llvm=no OPTFLAGS= install
}

build_timescaledb() {
    fetch timescaledb "$timescaledb" "$timescaledb_sum"
    nice cmake -S "$work/timescaledb" -B "$work/timescaledb/build" -DPG_CONFIG="$pg_config" -DCMAKE_BUILD_TYPE=Release -DAPACHE_ONLY=ON \
        -DUSE_TELEMETRY=OFF -DSEND_TELEMETRY_DEFAULT=OFF -DREGRESS_CHECKS=OFF -DTAP_CHECKS=OFF -DWARNINGS_AS_ERRORS=OFF >"$work/log"
    nice make -s -C "$work/timescaledb/build" -j2 install >"$work/log"
}

if [ "$(cat "$place/stamp" 2>/dev/null)" != "$recipe" ]; then
    mirror=$(mirror)
    [ -n "$mirror" ] || die "apt has no source for main of this Debian release; add one and run this again"
    mkdir -p "$cache/extensions"
    "$scripts/copy-server.sh" /usr/lib/postgresql/15/bin "$place"
    pg_config=$place/$(cat "$place/bindir")/pg_config
    build_pgvector
    build_timescaledb
    echo "$recipe" >"$place/stamp"
fi
echo "extensions for PostgreSQL 15: $place/$(cat "$place/bindir")"
