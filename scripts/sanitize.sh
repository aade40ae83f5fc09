#!/bin/bash
# Usage: scripts/sanitize.sh      (make sanitize)
#
# Purpose: the tests of the rings and their messages under the address and the thread sanitizer, with the standard library built
# likewise. Needs a nightly compiler and its sources (rustup component add rust-src --toolchain nightly).
# Exit status: 0 if nothing was found.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
for sanitizer in address thread; do
    echo "== $sanitizer"
    RUSTFLAGS=-Zsanitizer=$sanitizer cargo +nightly test --locked -Zbuild-std --target $target --target-dir "target/$sanitizer" \
        -p pgseal-evaluator-proto --tests
done
