#!/bin/bash
# Usage: scripts/fetch-kubernetes.sh
#
# Purpose: what tests/kubernetes compares with, in CACHE/kubernetes: single files of other projects at the commits below, each checked
# against its sum, and kubeconform in CACHE/kubernetes/bin.
#   clusters.yaml            CloudNativePG's definition of a Cluster
#   values.schema.json       the schema of its chart's values
#   docker-entrypoint.sh     the entry point of the official image of PostgreSQL
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal. What is there already is not fetched again.
set -euo pipefail
umask 022

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$(dirname "$0")/../tests/suites/common.sh"

kubeconform=v0.7.0
place=$cache/kubernetes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The file PATH of a repository on GitHub at COMMIT, under the name NAME.
fetch() {
    local name=$1 repository=$2 commit=$3 path=$4 sum=$5
    if ! sha256sum --status -c - <<<"$sum  $place/$name" 2>/dev/null; then
        rm -rf "$work/git"
        git init --quiet "$work/git"
        git -C "$work/git" fetch --quiet --depth 1 --filter=blob:none "https://github.com/$repository" "$commit" ||
            die "$repository cannot be fetched; see that github.com is reached"
        git -C "$work/git" show "$commit:$path" >"$work/file"
        sha256sum --status -c - <<<"$sum  $work/file" || die "$path of $repository has another sum than the one that is written down here"
        install -m 644 "$work/file" "$place/$name"
    fi
    echo "$place/$name"
}

mkdir -p "$place/bin"
fetch clusters.yaml cloudnative-pg/cloudnative-pg a95a534dbe0854495b863bbc1b7651f74d310916 config/crd/bases/postgresql.cnpg.io_clusters.yaml \
    6c9d24b55dcaee1e525e507c35fbc07ae1d2e31f8fbbb85dc015d1f98a537059
fetch values.schema.json cloudnative-pg/charts b21ad2dac7992215b8572007adb7448e3c8cc5db charts/cluster/values.schema.json \
    1b07ccd0c0d40898e7a55fdc472362b855b44a398bc9992c7e37b68c8b73692a
fetch docker-entrypoint.sh docker-library/postgres 6edb0a8c4def40c371514b34aef9037ec82d9110 docker-entrypoint.sh \
    1a6ff568c79cb847cffc4172b22a1f501cef05001b0b09751f48323683fb64a2
if ! "$place/bin/kubeconform" -v 2>/dev/null | grep -qF "${kubeconform#v}"; then
    command -v go >/dev/null || die "go is missing; install it (Debian: apt-get install golang-go) and run this again"
    (cd / && GOBIN=$place/bin GOFLAGS=-trimpath nice go install -ldflags "-X main.version=$kubeconform" \
        "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform")
fi
echo "$place/bin/kubeconform"
