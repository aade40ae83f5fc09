#!/bin/bash
# Usage: scripts/server-headers.sh PG_CONFIG
#
# Purpose: says what to install if the PostgreSQL of this pg_config has no headers of its server, which extensions are built with.
# Exit: 0 they are there, 1 not. `make install-extensions` asks first.
set -euo pipefail

die() {
    echo "make install-extensions: $*" >&2
    exit 1
}

[ $# = 1 ] || die "usage: $0 PG_CONFIG"
command -v "$1" >/dev/null ||
    die "there is no $1: name the pg_config of your PostgreSQL by PG_CONFIG=..., or on Debian as root run: apt-get install postgresql-server-dev-15"
major=$("$1" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
for file in "$("$1" --includedir-server)/postgres.h" "$("$1" --pgxs)"; do
    [ -f "$file" ] ||
        die "there is no $file: PostgreSQL's server headers are missing; on Debian as root run: apt-get install postgresql-server-dev-$major (elsewhere the package is often called postgresql$major-devel)"
done
