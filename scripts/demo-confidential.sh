#!/bin/bash
# Usage: scripts/demo-confidential.sh      (make demo-confidential)
#
# Purpose: prepares the demonstration of encrypted columns and hands over to scripts/demo-confidential/tour.sh, which shows it.
# Everything lies in one directory, $PGSEAL_DEMO_DIR (default /var/tmp/pgseal-demo-confidential), made anew each time. Needs
# what scripts/encdb-server.sh made in target/encdb/15. As root, the tour runs as the user of Debian's PostgreSQL packages.
# No server listens on a network port, and none is left running.
set -euo pipefail
umask 022
root=$(cd "$(dirname "$0")/.." && pwd)
base=${PGSEAL_DEMO_DIR:-/var/tmp/pgseal-demo-confidential}
marker=$base/.pgseal-demo-confidential
server=$root/target/encdb/15
as_user=()

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Never a directory that is not ours.
make_directory() {
    if [ -e "$base" ]; then
        [ -e "$marker" ] || die "$base is no directory of the demo; remove it, or set PGSEAL_DEMO_DIR"
        rm -rf "$base"
    fi
    mkdir -p "$base/run"
    touch "$marker"
    cp -a "$server/." "$base/server/"
    cp -a "$root/dist/bin" "$root/dist/lib" "$base/"
    cp "$server/pgseal-evaluator" "$root/scripts/demo-confidential/tour.sh" "$root/scripts/demo/talk.sh" \
        "$base/bin/"
    chmod -R a+rX "$base"
    if [ ${#as_user[@]} -gt 0 ]; then chown -R postgres: "$base"; fi
}

[ $# = 0 ] || die "usage: $0"
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || die "there is no user postgres; run scripts/install-deps.sh demo"
    as_user=(setpriv --reuid=postgres --regid=postgres --init-groups --)
fi
[ -x "$root/dist/bin/pgseal" ] || die "dist/bin/pgseal is missing; run make build first"
[ -x "$server/pgseal-evaluator" ] || die "target/encdb/15 is missing; run make demo-confidential"
make_directory
cd "$base"
exec "${as_user[@]}" env -i HOME="$base" LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin TERM="${TERM:-dumb}" \
    NO_COLOR="${NO_COLOR:-}" "$base/bin/tour.sh" "$base"
