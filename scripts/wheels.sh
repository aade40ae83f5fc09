#!/bin/bash
# Usage: scripts/wheels.sh      (make wheels)
#
# Purpose: Python's package with the client library in it, into dist/wheels. Debian's python3-setuptools and python3-wheel build it, without
# a network. The wheel runs where the C library is as new as the one that the library was built with.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r bindings/python/. "$work"
strip --strip-debug -o "$work/pgseal/libpgseal_client.so.0" dist/lib/libpgseal_client.so.0
mkdir -p dist/wheels
cd "$work"
/usr/bin/python3 setup.py --quiet bdist_wheel --dist-dir "$OLDPWD/dist/wheels"
ls -1 "$OLDPWD/dist/wheels"
