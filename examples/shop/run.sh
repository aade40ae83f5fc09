#!/bin/bash
# Usage: examples/shop/run.sh [--stop]      (make demo-shop)
#
# Purpose: runs the shop on encrypted columns: prepares a directory and hands over to serve.sh there, which starts PostgreSQL,
# the evaluator and the application. Ctrl-C ends all three and removes the directory; `--stop` does so from another terminal.
# PGSEAL_SHOP_PORT is the port at 127.0.0.1 (8017), PGSEAL_DEMO_DIR the directory (/var/tmp/pgseal-demo-shop). Needs what
# make build, scripts/encdb-server.sh and scripts/fetch-drivers.sh python made. As root, everything runs as the user of
# Debian's PostgreSQL packages.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
base=${PGSEAL_DEMO_DIR:-/var/tmp/pgseal-demo-shop}
marker=$base/.pgseal-demo-shop
server=$root/target/encdb/15
port=${PGSEAL_SHOP_PORT:-8017}
as_user=()

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# A process that has ended has no command line, and a later one of the same id has another.
is_ours() {
    tr '\0' '\n' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$base/"
}

# The id of the process of this name; fails if it does not run.
process() {
    local pid
    pid=$(cat "$base/run/$1.pid" 2>/dev/null) && is_ours "$pid" && echo "$pid"
}

# serve.sh ends the others. If it was killed, they are ended here.
stop() {
    local name pid signal
    [ -e "$marker" ] || return 0
    for name in serve application server evaluator; do
        pid=$(process "$name") || continue
        signal=TERM
        if [ "$name" = server ]; then signal=INT; fi # a fast shutdown, whoever is connected
        kill "-$signal" "$pid" 2>/dev/null || true
        while is_ours "$pid"; do sleep 0.1; done
    done
    rm -rf "$base"
}

# Never a directory that is not ours.
make_directory() {
    [ ! -e "$base" ] || [ -e "$marker" ] || die "$base is no directory of the demo; remove it, or set PGSEAL_DEMO_DIR"
    ! process serve >/dev/null || die "the shop runs already; stop it with $0 --stop"
    stop
    mkdir -p "$base/run"
    touch "$marker"
    cp -a "$server/." "$base/server/"
    cp -a "$root/dist/bin" "$root/dist/lib" "$base/"
    cp "$server/pgseal-evaluator" "$here/serve.sh" "$root/scripts/demo/talk.sh" "$base/bin/"
    mkdir "$base/application"
    cp -a "$here/manage.py" "$here/dba.sql" "$here/shop" "$base/application/"
    if [ ${#as_user[@]} -gt 0 ]; then chown -R postgres: "$base"; fi
    chmod 700 "$base"
}

case ${1:-} in
    '') ;;
    --stop) stop; exit ;;
    *) die "usage: $0 [--stop]" ;;
esac
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || die "there is no user postgres; run scripts/install-deps.sh demo"
    as_user=(setpriv --reuid=postgres --regid=postgres --init-groups --)
fi
[ -x "$root/dist/bin/pgseal" ] || die "dist/bin/pgseal is missing; run make build first"
[ -x "$server/pgseal-evaluator" ] || die "target/encdb/15 is missing; run make demo-shop"
python=$(/usr/bin/python3 "$root/tests/drivers/places.py" python)/bin/python
[ -x "$python" ] || die "Django is missing; run scripts/fetch-drivers.sh python"
make_directory
cd "$base"
exec "${as_user[@]}" env -i HOME="$base" LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin TERM="${TERM:-dumb}" TZ="${TZ:-UTC}" \
    NO_COLOR="${NO_COLOR:-}" PYTHONDONTWRITEBYTECODE=1 "$base/bin/serve.sh" "$base" "$python" "$port"
