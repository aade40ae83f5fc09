#!/bin/bash
# Usage: scripts/lint.sh      (make lint, .ci/run)
#
# Purpose: everything that a machine can say about the sources without running them. Stops at the first complaint;
# prints the seconds that each step took.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    local start=$SECONDS
    echo "=== $*"
    "$@"
    echo "--- $((SECONDS - start)) s"
}

scripts() {
    git ls-files -z --cached --others --exclude-standard -- '*.sh' .ci/run packaging/debian/pgseal-divert packaging/package
}

check_scripts() {
    scripts | xargs -0 shellcheck --external-sources
}

check_python() {
    git ls-files -z --cached --others --exclude-standard -- '*.py' | xargs -0 pyflakes3
}

# As Makefile's FEATURES.
features=(--features pgseal-kms/aws)
[ "${PGSEAL_AWS:-yes}" != no ] || features=()

step cargo fmt --all --check
step cargo clippy --workspace "${features[@]}" --all-targets --locked -- -D warnings
step cargo clippy --manifest-path fuzz/Cargo.toml --target-dir target --locked -- -D warnings
step cargo fmt --manifest-path fuzz/Cargo.toml --check
step env RUSTFLAGS='--cfg loom' cargo clippy --manifest-path crates/encdb/evaluator-proto/loom/Cargo.toml --target-dir target/loom \
    --locked --all-targets -- -D warnings
step cargo fmt --manifest-path crates/encdb/evaluator-proto/loom/Cargo.toml --check
step check_scripts
step check_python
step cargo xtask tidy
step cargo xtask shape
