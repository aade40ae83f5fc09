#!/bin/bash
# Usage: scripts/jar.sh      (make jar)
#
# Purpose: Java's package with the client library in it, and the jars that it needs, into dist/jars. Maven fetches what the package's
# pom.xml names, and checks it. The jar runs where the C library is as new as the one that the library was built with.
set -euo pipefail
cd "$(dirname "$0")/.."

case $(uname -m) in
    x86_64) machine=x86-64 ;;
    *) machine=$(uname -m) ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r bindings/java/. "$work"
mkdir -p "$work/src/main/resources/linux-$machine"
strip --strip-debug -o "$work/src/main/resources/linux-$machine/libpgseal_client.so" dist/lib/libpgseal_client.so.0
nice mvn --batch-mode --quiet --strict-checksums --file "$work/pom.xml" package dependency:copy-dependencies -DincludeScope=runtime
rm -rf dist/jars
mkdir -p dist/jars
install -m 644 "$work"/target/pgseal-*.jar "$work"/target/dependency/*.jar dist/jars
ls -1 dist/jars
