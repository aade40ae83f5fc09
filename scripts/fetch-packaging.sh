#!/bin/bash
# Usage: scripts/fetch-packaging.sh [ARCH]…        (x86_64, aarch64)
#
# Purpose: what scripts/packages.sh builds with, once, in CACHE/packaging/bin: zig, whose C compiler and linker aim at any glibc and
# any processor, cargo-zigbuild, cargo-auditable, cargo-cyclonedx and nfpm; and Rust's standard library for these processors.
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

zig=0.17.1
zigbuild=0.24.1
auditable=0.7.7
cyclonedx=0.5.9
nfpm=2.43.4

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. tests/suites/common.sh

into=$cache/packaging
mkdir -p "$into"

# Python's packages of zig and cargo-zigbuild have the programs.
if [ "$(cat "$into/python/versions" 2>/dev/null)" != "$zig $zigbuild" ]; then
    rm -rf "$into/python"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$into/python" \
        "ziglang==$zig" "cargo-zigbuild==$zigbuild"
    echo "$zig $zigbuild" >"$into/python/versions"
fi
for crate in "cargo-auditable $auditable" "cargo-cyclonedx $cyclonedx"; do
    read -r name version <<<"$crate"
    nice cargo install --quiet --locked --root "$into" "$name@$version"
done
if ! "$into/bin/nfpm" --version 2>/dev/null | grep -qF "$nfpm"; then
    command -v go >/dev/null || die "go is missing; install it (Debian: apt-get install golang-go) and run this again"
    (cd / && GOBIN=$into/bin GOFLAGS=-trimpath nice go install -ldflags "-X main.version=$nfpm" "github.com/goreleaser/nfpm/v2/cmd/nfpm@v$nfpm")
fi
# Each C file of a crate starts zig: not by way of Python, which takes longer to start.
cat >"$into/bin/cargo-zigbuild" <<END
#!/bin/sh
CARGO_ZIGBUILD_ZIG_PATH=$into/python/ziglang/zig exec $into/python/bin/cargo-zigbuild "\$@"
END
cat >"$into/bin/zig" <<END
#!/bin/sh
exec $into/python/ziglang/zig "\$@"
END
chmod 755 "$into/bin/cargo-zigbuild" "$into/bin/zig"
for arch in "$@"; do
    rustup target add "$arch-unknown-linux-gnu" "$arch-unknown-linux-musl"
done
echo "$into/bin"
