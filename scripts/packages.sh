#!/bin/bash
# Usage: scripts/packages.sh [--version VERSION] [--arch ARCH]… [--major NN]… [--sign KEY]
#
# Purpose: the packages, as .deb and .rpm, in dist/packages, with SHA256SUMS, an SBOM (CycloneDX), and, with --sign, the
# signature of SHA256SUMS by that key of gpg. packaging/nfpm describes each package; this script builds and lays out what they hold.
#
# ARCH is x86_64 or aarch64, NN a major version of PostgreSQL for the extensions, whose build tests/suites/fetch-build.sh makes
# (default: both, and 15, 17, 18). The programs run with glibc 2.28, the wrappers' program without any.
# VERSION is the workspace's, with the commit's time and name unless the commit has the tag vVERSION.
#
# Times in the packages are the commit's, and paths of this machine are taken out, so that the same commit can give the same bytes.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. tests/suites/common.sh

glibc=2.28
arches=() majors=() version='' key=''
while [ $# -gt 1 ]; do
    case $1 in
        --version) version=$2 ;;
        --arch) arches+=("$2") ;;
        --major) majors+=("$2") ;;
        --sign) key=$2 ;;
        *) break ;;
    esac
    shift 2
done
[ $# = 0 ] || die "usage: $0 [--version VERSION] [--arch ARCH]… [--major NN]… [--sign KEY]"
[ ${#arches[@]} != 0 ] || arches=(x86_64 aarch64)
[ ${#majors[@]} != 0 ] || majors=(15 17 18)

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
target=$PWD/target/packages
out=$PWD/dist/packages
tools=$cache/packaging/bin
cargo_home=${CARGO_HOME:-$HOME/.cargo}

version_of_tree() {
    local version
    version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    if [ "$(git tag --points-at HEAD --list "v$version")" ]; then
        echo "$version"
    else
        echo "$version~$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd).$(git rev-parse --short=12 HEAD)"
    fi
}

# The programs and libraries of one processor, in $target/$1-unknown-linux-gnu/release, and what writes man pages. By one command:
# cargo would compile most crates again for a part of them, to link them in another way.
programs() {
    local arch=$1 maps
    maps="-ffile-prefix-map=$PWD=/usr/src/pgseal -ffile-prefix-map=$cargo_home=/usr/src/cargo"
    export PATH=$tools:$PATH CARGO_TARGET_DIR=$target
    export RUSTFLAGS="--remap-path-prefix=$PWD=/usr/src/pgseal --remap-path-prefix=$cargo_home=/usr/src/cargo -Clink-arg=-Wl,--build-id=sha1"
    export "CFLAGS_${arch}_unknown_linux_gnu=$maps" "CFLAGS_${arch}_unknown_linux_musl=$maps"
    # Build scripts run again when this changes, though nothing depends on it.
    unset SOURCE_DATE_EPOCH
    # shellcheck disable=SC2046  # several words
    nice cargo auditable zigbuild --release --locked --target "$arch-unknown-linux-gnu.$glibc" --lib \
        $(printf -- '-p pgseal-%s ' preload evaluator bench kms pages proxy client-library in-process pgext) -p pgseal \
        $(printf -- '--bin pgseal%s ' '' -evaluator -bench -kms -pages -proxy) ${features:+--features "$features"}
}

# What the packages of one processor hold: beside these the wrappers' program, static.
build() {
    programs "$1"
    nice cargo auditable zigbuild --release --locked --target "$1-unknown-linux-musl" -p pgseal-wrapper --bin pgseal-twin
}

# Man pages and completions, the same for all processors, by a program for this machine's; mostly it was built with the others.
pages() {
    local arch
    arch=$(uname -m)
    (programs "$arch")
    "$target/$arch-unknown-linux-gnu/release/pgseal-pages" "$target/pages" "$(date --date "@$SOURCE_DATE_EPOCH" +%F)"
}

# The C compiler for the extensions of one processor.
compiler() {
    echo "$tools/zig cc -target $1-linux-gnu.$glibc -ffile-prefix-map=$PWD=/usr/src/pgseal -ffile-prefix-map=$cache=/usr/src"
}

# Without an rpath: it would be the directory of the PostgreSQL that they are built with, on this machine.
extensions() {
    local arch=$1 major=$2 extension directory
    for extension in encdb encdb_btree pgseal; do
        directory=$target/extensions/$arch/$major/$extension
        rm -rf "$directory"
        mkdir -p "$directory/src" "$directory/root"
        make --no-print-directory -s -C "$directory" -f "$PWD/extension/$extension/Makefile" install DESTDIR="$directory/root" \
            PG_CONFIG="$cache/pg/$major/inst/bin/pg_config" CC="$(compiler "$arch")" enable_rpath=no \
            PGSEAL_PGEXT="$target/$arch-unknown-linux-gnu/release/libpgseal_pgext.a"
    done
}

# Installs a program or library without what debuggers read, which goes into a file of its own, by its build id.
put_elf() {
    local mode=$1 from=$2 to=$3 arch=$4 id debug
    install -D -m "$mode" "$from" "$to"
    id=$("$arch-linux-gnu-readelf" -n "$from" 2>/dev/null | sed -n 's/.*Build ID: //p')
    if [ -n "$id" ]; then
        debug=$target/debug/$arch/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
        mkdir -p "${debug%/*}"
        "$arch-linux-gnu-objcopy" --only-keep-debug --compress-debug-sections "$from" "$debug"
    fi
    "$arch-linux-gnu-strip" --strip-unneeded "$to"
}

# The units name /usr/local, where `make build` leads to.
put_units() {
    local root=$1 unit
    shift
    install -d "$root/usr/lib/systemd/system"
    for unit in "$@"; do
        sed 's|/usr/local/bin|/usr/bin|' "packaging/systemd/$unit" >"$root/usr/lib/systemd/system/$unit"
        chmod 644 "$root/usr/lib/systemd/system/$unit"
    done
}

# Man pages, into the directories of their sections.
put_man_pages() {
    local root=$1 file to
    shift
    for file in "$@"; do
        to=$root/usr/share/man/man${file##*.}/${file##*/}
        install -D -m 644 "$file" "$to"
        gzip -n9 "$to"
    done
}

# Completions of a program, where the distributions of the format have those of zsh.
put_completions() {
    local root=$1/usr/share format=$2 program=$3 from=$target/pages/completions zsh
    case $format in
        deb) zsh=vendor-completions ;;
        rpm) zsh=site-functions ;;
    esac
    install -D -m 644 "$from/$program.bash" "$root/bash-completion/completions/$program"
    install -D -m 644 "$from/$program.fish" "$root/fish/vendor_completions.d/$program.fish"
    install -D -m 644 "$from/_$program" "$root/zsh/$zsh/_$program"
}

put_documents() {
    local root=$1 name=$2
    install -D -m 644 LICENSE "$root/usr/share/doc/$name/copyright"
}

stage_pgseal() {
    local root=$1 arch=$2 release=$3 format=$4 file
    local dist=$root/usr/lib/pgseal/dist
    put_elf 755 "$release/pgseal" "$dist/bin/pgseal" "$arch"
    put_elf 755 "$release/pgseal-bench" "$dist/bin/pgseal-bench" "$arch"
    put_elf 755 "$target/$arch-unknown-linux-musl/release/pgseal-twin" "$dist/bin/pgseal-twin" "$arch"
    put_elf 644 "$release/libpgseal.so" "$dist/lib/libpgseal.so" "$arch"
    echo "$version" >"$dist/VERSION"
    install -m 755 packaging/package/versions "$root/usr/lib/pgseal/versions"
    install -d "$root/usr/bin" "$root/usr/share/pgseal"
    ln -s ../lib/pgseal/current/bin/pgseal "$root/usr/bin/pgseal"
    put_units "$root" pgseal-exporter.service pgseal-key-rotate@.{service,timer} pgseal-prune.{service,timer}
    install -m 644 packaging/debian/{createcluster.conf,environment} packaging/systemd/pgseal.conf packaging/grafana/pgseal.json \
        packaging/prometheus/pgseal.rules.yml "$root/usr/share/pgseal/"
    install -D -m 644 -t "$root/usr/share/pgseal/apparmor" packaging/apparmor/pgseal
    install -D -m 644 -t "$root/usr/share/pgseal/selinux" packaging/selinux/pgseal.*
    install -D -m 755 packaging/debian/pgseal-divert "$root/usr/sbin/pgseal-divert"
    put_man_pages "$root" "$target"/pages/man7/*.7 packaging/debian/pgseal-divert.8
    for file in "$target"/pages/man1/*.1; do
        case $file in
            */pgseal-evaluator*) ;;
            *) put_man_pages "$root" "$file" ;;
        esac
    done
    put_completions "$root" "$format" pgseal
}

stage_pgseal-kms() {
    put_elf 755 "$3/pgseal-kms" "$1/usr/lib/pgseal/dist/bin/pgseal-kms" "$2"
}

stage_pgseal-client() {
    local root=$1 arch=$2 release=$3
    put_elf 755 "$release/pgseal-proxy" "$root/usr/lib/pgseal/dist/bin/pgseal-proxy" "$arch"
    put_elf 644 "$release/libpgseal_in_process.so" "$root/usr/lib/pgseal/dist/lib/libpgseal_in_process.so" "$arch"
    put_units "$root" pgseal-proxy.{service,socket}
}

stage_libpgseal-client0() {
    local root=$1 arch=$2 release=$3 format=$4 lib=usr/lib64
    [ "$format" = rpm ] || lib=usr/lib/$arch-linux-gnu
    put_elf 644 "$release/libpgseal_client_library.so" "$root/$lib/libpgseal_client.so.0" "$arch"
    ln -s libpgseal_client.so.0 "$root/$lib/libpgseal_client.so"
    install -D -m 644 crates/encdb/library/include/pgseal_client.h "$root/usr/include/pgseal_client.h"
}

stage_pgseal-evaluator() {
    put_elf 755 "$3/pgseal-evaluator" "$1/usr/bin/pgseal-evaluator" "$2"
    put_units "$1" pgseal-evaluator.service
    put_man_pages "$1" "$target"/pages/man1/pgseal-evaluator*.1
    put_completions "$1" "$4" pgseal-evaluator
}

# One extension, or two, of a major version: where PGDG's packages of the format have them.
stage_extension() {
    local root=$1 arch=$2 format=$3 major=$4 extension from lib share file
    shift 4
    case $format in
        deb) lib=usr/lib/postgresql/$major/lib share=usr/share/postgresql/$major/extension ;;
        rpm) lib=usr/pgsql-$major/lib share=usr/pgsql-$major/share/extension ;;
    esac
    for extension in "$@"; do
        from=$target/extensions/$arch/$major/$extension/root
        while read -r file; do
            case $file in
                *.so) put_elf 755 "$file" "$root/$lib/${file##*/}" "$arch" ;;
                *) install -D -m 644 "$file" "$root/$share/${file##*/}" ;;
            esac
        done < <(find "$from" -name '*.so' -o -name '*.control' -o -name '*.sql')
    done
}

# Fills in a description, and makes the package of what was laid out.
pack() {
    local description=$1 root=$2 format=$3 arch=$4 major=${5-} names config
    declare -A names=([x86_64]=amd64 [aarch64]=arm64)
    find "$root" -print0 | xargs -0 touch --no-dereference --date "@$SOURCE_DATE_EPOCH"
    config=$target/${root##*/}.$format.yaml
    sed "s|@ARCH@|${names[$arch]}|; s|@VERSION@|$version|; s|@RELEASE@|1|; s|@MAINTAINER@|$maintainer|; s|@MAJOR@|$major|
        s|@STAGE@|$root|; s|@SCRIPTS@|$PWD/packaging/package|; s|@PACKAGING@|$PWD/packaging|" "packaging/nfpm/$description.yaml" >"$config"
    "$tools/nfpm" package --config "$config" --packager "$format" --target "$out/"
}

packages_of() {
    local arch=$1 format=$2 release=$target/$1-unknown-linux-gnu/release name major root
    for name in pgseal pgseal-kms pgseal-client libpgseal-client0 pgseal-evaluator; do
        root=$target/stage/$arch.$format/$name
        "stage_$name" "$root" "$arch" "$release" "$format"
        put_documents "$root" "$name"
        pack "$name" "$root" "$format" "$arch"
    done
    for major in "${majors[@]}"; do
        root=$target/stage/$arch.$format/postgresql-$major
        stage_extension "$root-encdb" "$arch" "$format" "$major" encdb encdb_btree
        stage_extension "$root-pgseal" "$arch" "$format" "$major" pgseal
        for name in encdb pgseal; do
            put_documents "$root-$name" "postgresql-$major-$name"
            pack "postgresql-$name" "$root-$name" "$format" "$arch" "$major"
        done
    done
}

# What each program and library was linked from. The tool writes beside each manifest, so it gets a copy of the tree.
bill_of_materials() {
    local copy=$target/bill name
    rm -rf "$copy"
    mkdir -p "$copy"
    git archive HEAD | tar -xC "$copy"
    (cd "$copy" && cargo cyclonedx --quiet --format json --spec-version 1.5 --target all)
    for name in pgseal tde/preload tde/wrapper tde/kms bench encdb/proxy encdb/library encdb/in-process encdb/evaluator encdb/pgext; do
        install -m 644 "$copy/crates/$name/"*.cdx.json "$out/"
    done
}

sign() {
    (cd "$out" && sha256sum -- *.deb *.rpm *.tar.xz *.json >SHA256SUMS)
    [ -z "$key" ] || gpg --batch --yes --local-user "$key" --armor --detach-sign "$out/SHA256SUMS"
}

[ -n "$version" ] || version=$(version_of_tree)
maintainer=${PGSEAL_MAINTAINER:-pgseal <root@localhost>}
features=$([ "${PGSEAL_AWS:-yes}" = no ] || echo pgseal-kms/aws)
scripts/fetch-packaging.sh "${arches[@]}"
for major in "${majors[@]}"; do
    tests/suites/fetch-build.sh "$major" >/dev/null
done
rm -rf "$out" "$target/stage" "$target/debug" "$target/pages"
mkdir -p "$out"
for arch in "${arches[@]}"; do
    (build "$arch")
done
pages
for arch in "${arches[@]}"; do
    for major in "${majors[@]}"; do
        extensions "$arch" "$major"
    done
    for format in deb rpm; do
        packages_of "$arch" "$format"
    done
    tar -C "$target/debug/$arch" --sort=name --owner=0 --group=0 --mtime "@$SOURCE_DATE_EPOCH" -cJf "$out/pgseal-debug_${version}_$arch.tar.xz" usr
done
PATH=$tools:$PATH bill_of_materials
sign
(cd "$out" && ls -sh)
