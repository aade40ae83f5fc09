#!/bin/bash
# Usage: scripts/demo.sh [stop]      (make demo, make demo-stop)
#
# Purpose: prepares the demonstration and hands over to scripts/demo/tour.sh, which shows it.
# Everything lies in one directory, $PGSEAL_DEMO_DIR (default /var/tmp/pgseal-demo), made anew each time. Servers do not
# run as root, and may not be able to read this tree: as root, the tour runs as the user of Debian's PostgreSQL packages,
# from copies in that directory. No server listens on a network port. `stop` ends the server that the tour left running.
set -euo pipefail
umask 022
root=$(cd "$(dirname "$0")/.." && pwd)
base=${PGSEAL_DEMO_DIR:-/var/tmp/pgseal-demo}
marker=$base/.pgseal-demo
as_user=()

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

choose_user() {
    [ "$(id -u)" = 0 ] || return 0
    id postgres >/dev/null 2>&1 || die "there is no user postgres; run scripts/install-deps.sh demo"
    as_user=(setpriv --reuid=postgres --regid=postgres --init-groups --)
}

# As its owner, because the server's twin and its files are his.
stop_server() {
    [ -e "$base/sealed/postmaster.pid" ] || return 0
    cd "$base" # he may not enter where we are
    "${as_user[@]}" "$base/twins/15/pg_ctl" stop -D "$base/sealed" -m fast -s ||
        die "the server of an earlier demo does not stop; see $base/log/sealed.log"
}

# Never a directory that is not ours.
make_directory() {
    if [ -e "$base" ]; then
        [ -e "$marker" ] || die "$base is no directory of the demo; remove it, or set PGSEAL_DEMO_DIR"
        rm -rf "$base"
    fi
    mkdir -p "$base/pgseal" "$base/demo"
    touch "$marker"
    cp -r "$root/dist/bin" "$root/dist/lib" "$base/pgseal/"
    cp "$root"/scripts/demo/* "$base/demo/"
    chmod -R a+rX "$base"
    if [ ${#as_user[@]} -gt 0 ]; then chown -R postgres: "$base"; fi
}

choose_user
case ${1:-} in
    '') ;;
    stop) stop_server; exit ;;
    *) die "usage: $0 [stop]" ;;
esac
[ -x "$root/dist/bin/pgseal" ] || die "dist/bin/pgseal is missing; run make build first"
stop_server
make_directory
cd "$base"
exec "${as_user[@]}" env -i HOME="$base" LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin TERM="${TERM:-dumb}" \
    NO_COLOR="${NO_COLOR:-}" "$base/demo/tour.sh" "$base"
