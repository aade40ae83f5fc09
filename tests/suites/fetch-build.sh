#!/bin/bash
# Usage: tests/suites/fetch-build.sh VERSION…      (15, 17, 18)
#
# Purpose: an unmodified PostgreSQL of each VERSION, built once, for the test suites:
#   CACHE/pg/VERSION/src   upstream's sources as released (Debian's patches, which move directories, not applied), built
#   CACHE/pg/VERSION/inst  the installation, contrib included
#   CACHE/pg/VERSION/stamp the version of the source package; written last, so its presence means "complete"
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root (the server's unprivileged user must be able to read it),
# else ~/.cache/pgseal.
#
# Sources come from Debian's source packages, through the mirror that this machine already uses, with apt lists of our
# own, so that the machine's apt configuration stays as it is. Only the installation of missing build packages needs root.
# With a stamp in place a VERSION is a no-op that needs no network. Safe to run twice at once: a lock per VERSION.
# Used by run.sh and by make test-world.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/suites/common.sh
. "$here/common.sh"

build_packages=(bison flex gcc make perl pkg-config dpkg-dev libreadline-dev zlib1g-dev libssl-dev libicu-dev
    liblz4-dev libzstd-dev liburing-dev libipc-run-perl)

suite_of() {
    case $1 in
        15) echo bookworm ;;
        17) echo trixie ;;
        18) echo sid ;;
        *) die "PostgreSQL $1 is not supported; give 15, 17 or 18" ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_build_packages() {
    local missing=() package
    for package in "${build_packages[@]}"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || die "build packages are missing; as root run: apt-get install ${missing[*]}"
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# "[signed-by=KEYRING] URI" of the mirror from which this machine takes its own Debian release.
mirror() {
    local codename line
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016  # $(…) below is apt's own notation
    line=$(apt-get indextargets --format '$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(REPO_URI)' 'Created-By: Packages' |
        grep "^$codename|main|" | head -n 1) || die "apt has no source for Debian $codename main; add one, then run this again"
    IFS='|' read -r _ _ keyring uri <<<"$line"
    echo "${keyring:+[signed-by=$keyring] }$uri"
}

# Downloads the source package of postgresql-VERSION into the current directory.
download_source() {
    local version=$1 apt=$2
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
    local source
    source=$(mirror)
    sed "s|/$(. /etc/os-release && echo "$VERSION_CODENAME")/*$||" <<<"deb-src $source" >/dev/null
    echo "deb-src $source $(suite_of "$version") main" >"$apt/sources.list"
    local options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/parts"
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache")
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only "postgresql-$version"
}
