#!/bin/bash
# Usage: scripts/fetch-go-tpc.sh
#
# Purpose: go-tpc, the TPC-C driver of `pgseal bench tprocc`, built once from its Go module: CACHE/go-tpc/VERSION/go-tpc.
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal, where `pgseal bench` looks for it.
# The module is checked against the sum below, and what it depends on against the sums that it brings along.
set -euo pipefail
umask 022

module=github.com/pingcap/go-tpc
version=1.0.12
sum=h1:dsggDwLlrFIrbA6J2iejyUfJ9hnm139iRSrwOnNxwqA=

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$(dirname "$0")/../tests/suites/common.sh"

program=$cache/go-tpc/$version/go-tpc
if [ ! -x "$program" ]; then
    command -v go >/dev/null || die "go is missing; install it (Debian: apt-get install golang-go) and run this again"
    # Outside every other module, whose go.mod would be asked.
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    cd "$place"
    description=$(go mod download -json "$module@v$version")
    field() { sed -n "s/^\t\"$1\": \"\(.*\)\",\?\$/\1/p" <<<"$description"; }
    [ "$(field Sum)" = "$sum" ] || die "$module $version is another one than expected: $(field Sum)"
    cd "$(field Dir)"
    nice go build -mod=readonly -trimpath -buildvcs=false -o "$place/go-tpc" ./cmd/go-tpc
    install -D -m 755 "$place/go-tpc" "$program.new"
    mv "$program.new" "$program"
fi
echo "go-tpc $version: $program"
