#!/bin/bash
# Usage: scripts/npm.sh      (make npm)
#
# Purpose: Node's package with the client library in it, into dist/npm, without a network. It runs where the C library is as new as the
# one that the library was built with.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r bindings/node/. "$work"
strip --strip-debug -o "$work/libpgseal_client.so.0" dist/lib/libpgseal_client.so.0
rm -rf dist/npm
mkdir -p dist/npm
npm pack --silent --offline --pack-destination dist/npm "$work"
