#!/bin/bash
# Usage: scripts/install-deps.sh [build|demo|test|apps|auto-failover|barman|bench-page|builds|debian|drivers|extensions|fips|keys|kubernetes|other-backups|packages|patroni|pgbackrest|power|repmgr|shop|telling|tprocc|lint|docs]…   (none: all)
#
# Purpose: the Debian packages that a make target needs. Called by the Makefile and .ci/run.
# As root it installs what is missing; otherwise it names what is missing and fails. With everything in place it does
# nothing, not even a look at the network. Rust is not installed here: it comes from rustup or from the operator.
set -euo pipefail

# libclang reads the headers of PostgreSQL's parser.
build_packages=(build-essential ca-certificates libclang-dev)
demo_packages=(postgresql-15 wamerican iso-codes openssl procps)
# The packages that PostgreSQL's own sources need are installed by tests/suites/fetch-build.sh.
test_packages=(git jq liburing-dev lz4 pgbouncer postgresql-15 postgresql-server-dev-15 openssl sysbench python3 python3-cryptography python3-argon2 python3-psycopg2
    python3-setuptools python3-venv python3-wheel procps binutils strace zstd libfaketime libjemalloc2 libtcmalloc-minimal4)
# File systems on a disk whose writes are recorded; tests/power has a short form among the tests.
power_packages=(e2fsprogs libfuse3-dev mount pkg-config xfsprogs)
# Devices and services that keep keys.
keys_packages=(clevis opensc python3-pykmip socat softhsm2 swtpm tang tpm2-tools)
test_packages+=("${power_packages[@]}" "${keys_packages[@]}")
# Go from elsewhere: tests/apps needs a later one than Debian 12 has.
apps_packages=(postgresql-15 iproute2 python3-venv util-linux)
auto_failover_packages=(postgresql-15 pg-auto-failover-cli postgresql-15-auto-failover openssl python3-psycopg2)
barman_packages=(postgresql-15 barman rsync)
bench_page_packages=(chromium chromium-driver fonts-dejavu-core)
# npm from elsewhere does as well.
builds_packages=(postgresql-15 python3)
command -v npm >/dev/null || builds_packages+=(npm)
debian_packages=(postgresql-15 postgresql-common postgresql-15-pg-catcheck postgresql-15-pg-checksums systemd util-linux dpkg openssl)
# Node, Java and Go from elsewhere do as well; of Go, tests/drivers needs a later one than Debian 12 has.
drivers_packages=(postgresql-15 python3-venv libdbd-pg-perl ruby-pg php-cli php-pgsql)
command -v npm >/dev/null || drivers_packages+=(npm)
command -v mvn >/dev/null || drivers_packages+=(maven)
# Less than 320 MB, most of it what PostGIS brings; the first line is what scripts/fetch-extensions.sh builds with.
extensions_packages=(build-essential cmake libkrb5-dev libssl-dev postgresql-server-dev-15 xz-utils
    postgresql-15 pgagent postgresql-plperl-15 postgresql-plpython3-15 postgresql-pltcl-15
    postgresql-15-{cron,decoderbufs,dirtyread,hll,hypopg,ip4r,jsquery,londiste-sql,ogr-fdw,orafce,partman,periods}
    postgresql-15-{pg-catcheck,pg-checksums,pg-qualstats,pg-stat-kcache,pg-track-settings,pg-wait-sampling,pgaudit,pgauditlogtofile}
    postgresql-15-{pgfincore,pglogical,pgq-node,pgq3,pgrouting,pgtap,pldebugger,pllua,plpgsql-check,plprofiler,plproxy,plsh}
    postgresql-15-{postgis-3,postgis-3-scripts,powa,prefix,q3c,repack,rum,set-user,tablelog,tdigest,toastinfo,wal2json})
# What builds AWS-LC's FIPS module; go from elsewhere does as well.
fips_packages=(cmake perl)
command -v go >/dev/null || fips_packages+=(golang-go)
# Go from elsewhere does as well.
kubernetes_packages=(bubblewrap git iproute2 mmdebstrap openssl python3-jsonschema python3-yaml util-linux)
command -v go >/dev/null || kubernetes_packages+=(golang-go)
other_backups_packages=(postgresql-15 lz4)
# Go from elsewhere does as well. The compilers of the other processor are zig's; its binutils cut what debuggers read.
packages_packages=(apparmor binutils bubblewrap binutils-aarch64-linux-gnu cpio git gnupg man-db mmdebstrap python3-pip python3-venv rpm
    selinux-policy-dev util-linux xz-utils)
command -v go >/dev/null || packages_packages+=(golang-go)
patroni_packages=(postgresql-15 patroni etcd-server)
pgbackrest_packages=(postgresql-15 pgbackrest)
repmgr_packages=(postgresql-15 repmgr postgresql-15-repmgr openssl python3-psycopg2)
shop_packages=(postgresql-15 python3-venv chromium chromium-driver fonts-dejavu-core)
# promtool, which checks alert rules, is in it: 96 MB.
telling_packages=(postgresql-15 prometheus)
# Go from elsewhere does as well.
tprocc_packages=(postgresql-15)
command -v go >/dev/null || tprocc_packages+=(golang-go)
lint_packages=(git shellcheck pyflakes3)
# pip fetches mdBook.
docs_packages=(git python3 python3-pip)

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

packages_of() {
    case $1 in
        build) echo "${build_packages[@]}" ;;
        demo) echo "${demo_packages[@]}" ;;
        test) echo "${test_packages[@]}" ;;
        apps) echo "${apps_packages[@]}" ;;
        auto-failover) echo "${auto_failover_packages[@]}" ;;
        barman) echo "${barman_packages[@]}" ;;
        bench-page) echo "${bench_page_packages[@]}" ;;
        builds) echo "${builds_packages[@]}" ;;
        debian) echo "${debian_packages[@]}" ;;
        drivers) echo "${drivers_packages[@]}" ;;
        extensions) echo "${extensions_packages[@]}" ;;
        fips) echo "${fips_packages[@]}" ;;
        other-backups) echo "${other_backups_packages[@]}" ;;
        packages) echo "${packages_packages[@]}" ;;
        patroni) echo "${patroni_packages[@]}" ;;
        pgbackrest) echo "${pgbackrest_packages[@]}" ;;
        power) echo "${power_packages[@]}" ;;
        repmgr) echo "${repmgr_packages[@]}" ;;
        shop) echo "${shop_packages[@]}" ;;
        telling) echo "${telling_packages[@]}" ;;
        tprocc) echo "${tprocc_packages[@]}" ;;
        keys) echo "${keys_packages[@]}" ;;
        kubernetes) echo "${kubernetes_packages[@]}" ;;
        lint) echo "${lint_packages[@]}" ;;
        docs) echo "${docs_packages[@]}" ;;
        *) die "there is no group $1; see the usage of $0" ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
    local group package
    for group in "$@"; do
        for package in $(packages_of "$group"); do
            is_installed "$package" || echo "$package"
        done
    done | sort -u
}

command -v dpkg-query >/dev/null || die "this is not Debian; install the packages that $0 names by hand"
[ $# -gt 0 ] || set -- build demo test apps auto-failover barman bench-page builds debian drivers extensions fips keys kubernetes other-backups patroni pgbackrest power repmgr shop telling tprocc lint docs
for group in "$@"; do packages_of "$group" >/dev/null; done
mapfile -t missing < <(missing_of "$@")
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || die "packages are missing; as root run: apt-get install ${missing[*]}"
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi
command -v cargo >/dev/null || die "cargo is missing; install Rust from https://rustup.rs (stable, with rustfmt and clippy)"
