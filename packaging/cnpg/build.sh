#!/bin/bash
# Usage: packaging/cnpg/build.sh BASE NAME        (from anywhere; after make packages)
#
# Purpose: the sealed image NAME from BASE, an image for CloudNativePG, by buildah and the packages in dist/packages.
# Without root, too, where buildah has subordinate user ids. BUILDAH_ISOLATION and STORAGE_DRIVER are buildah's own variables.
set -euo pipefail

[ $# = 2 ] || { echo "usage: $(basename "$0") BASE NAME" >&2; exit 2; }
cd "$(dirname "$0")/../.."
compgen -G 'dist/packages/pgseal_*.deb' >/dev/null || { echo "$(basename "$0"): there are no packages; run make packages" >&2; exit 1; }
buildah build --build-arg "BASE=$1" --file packaging/cnpg/Containerfile --tag "$2" .
