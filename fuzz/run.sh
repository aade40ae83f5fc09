#!/bin/bash
# Usage: fuzz/run.sh [SECONDS [TARGET]…]      (make fuzz; default: 60 seconds for each target)
#
# Purpose: libFuzzer on what reads bytes that others may have written, and on the sealed file beside its plain twin. Begins
# from the vectors. Needs a nightly compiler and cargo-fuzz (cargo install cargo-fuzz). What it finds it leaves in
# fuzz/artifacts; the corpus grows in fuzz/corpus. Exit status: 0 if nothing was found.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(key_file providers slot_notes recovery_sheet receiver_list chained_log records names sealed_file replication_command values cell grant request message evidence relay)

command -v cargo-fuzz >/dev/null || {
    echo "$(basename "$0"): cargo-fuzz is missing; install it with: cargo install cargo-fuzz --locked" >&2
    exit 2
}

/usr/bin/python3 seeds.py corpus
for target in "${targets[@]}"; do
    limits=()
    # Whatever either side of a connection sends, it takes little memory. AddressSanitizer keeps what was freed for a while.
    [ "$target" != relay ] || limits=(-malloc_limit_mb=64 -rss_limit_mb=1024)
    cargo +nightly fuzz run "$target" "corpus/$target" -- -max_total_time="$seconds" -timeout=10 -print_final_stats=1 "${limits[@]}"
done
