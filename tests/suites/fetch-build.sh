#!/bin/bash
# Usage: tests/suites/fetch-build.sh VERSION…      (15 to 19; 13, which tests/upgrade upgrades from)
#
# Purpose: an unmodified PostgreSQL of each VERSION, built once, for the test suites:
#   CACHE/pg/VERSION/src    upstream's sources as released, built (Debian's patches, which move directories, left out)
#   CACHE/pg/VERSION/inst   the installation, contrib and the modules of src/test included
#   CACHE/pg/VERSION/stamp  version of the source package, and the recipe below; written last: it means "complete"
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal.
#
# Sources come from Debian's source packages through the mirror that this machine already uses, with apt lists of our
# own, so that the machine's apt configuration stays as it is. Only installing missing build packages needs root.
# No release of Debian has 16: its source comes from the Git repository in PGSEAL_POSTGRES_GIT, a copy of PostgreSQL's. The newest
# tag of 16 is taken, or, where the copy has none, the last commit before the development of 17 began (16beta2). Functions of
# the server that extensions call got other names after that, as 16.0 has them: that commit is applied, too. 19 is taken from the
# same repository if it is named there, by the newest tag of a release, else from Debian's experimental.
# With the present recipe's stamp in place a VERSION needs nothing, not even the network. Running twice at once is safe: a lock per VERSION.
set -euo pipefail
umask 022
# `make test` is one make, PostgreSQL's another: below level 0 its makefiles generate no headers before they compile.
unset MAKELEVEL MAKEFLAGS MFLAGS
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"

build_packages=(bison flex gcc libc6-dev make perl pkg-config dpkg-dev debian-archive-keyring libreadline-dev zlib1g-dev
    libssl-dev libicu-dev liblz4-dev libzstd-dev libxml2-dev liburing-dev libnuma-dev libipc-run-perl locales lz4 zstd)
# To be raised whenever compile() changes, so that older builds are made anew.
recipe=2

suite_of() {
    case $1 in
        13) echo bullseye ;;
        15) echo bookworm ;;
        16) echo git ;;
        17) echo trixie ;;
        18) echo sid ;;
        19) [ -n "${PGSEAL_POSTGRES_GIT:-}" ] && echo git || echo experimental ;;
        *) die "PostgreSQL $1 is not supported; give 13, or 15 to 19" ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_build_packages() {
    local missing=() package
    for package in "${build_packages[@]}"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || die "build packages are missing; as root run: apt-get install ${missing[*]}"
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# The locales without which collate.linux.utf8 ends at once; it uses tr_TR by its bare name too.
install_locales() {
    local name
    for name in de_DE.UTF-8 en_US.UTF-8 sv_SE.UTF-8 tr_TR.UTF-8 tr_TR.ISO-8859-9; do
        if ! has_locale "$name"; then
            [ "$(id -u)" = 0 ] || die "the locale $name is missing; run this script as root once, which makes it"
            localedef -i "${name%%.*}" -f "${name#*.}" "${name%.ISO-8859-9}"
        fi
    done
}

# glibc lists a locale xx_YY.UTF-8 as xx_YY.utf8.
has_locale() {
    local listed=${1/UTF-8/utf8}
    locale -a | grep -x "${listed%.ISO-8859-9}" >/dev/null
}

# The release that is taken where a mirror's index names one that its pool does not hold: its Debian version, and the
# SHA-256 of its .dsc, whose signature by PostgreSQL's maintainers in Debian was checked when it was written down here.
known_release() {
    case $1 in
        13) echo 13.16-0+deb11u1 c1c95c213760880a6b86a38b95c27cc0559fc9db98955579eb95b7176ac9dc2e ;;
        15) echo 15.18-0+deb12u1 d940b57dd029ef0712212164410fcb51854c883f3fc0c3a11486acdfd2ca5947 ;;
        17) echo 17.11-0+deb13u1 bf148ae423a982707c3f60672c3a072ef62b701bd9f5df847d9f4b8c9b3e3b18 ;;
        18) echo 18.6-3 a4254c4548ebeea683832de193460ee8a9f1271418e884803b44ded1aead1776 ;;
    esac
}

# Downloads that release from the pool of the mirror at URI: the .dsc by its sum above, its files by theirs in it.
download_known() {
    local version=$1 pool=$2pool/main/p/postgresql-$1 release dsc_sum dsc sum name
    rm -f postgresql-*
    read -r release dsc_sum < <(known_release "$version")
    dsc=postgresql-${version}_$release.dsc
    /usr/lib/apt/apt-helper download-file "$pool/${dsc//+/%2b}" "$dsc" "SHA256:$dsc_sum"
    while read -r sum name; do
        /usr/lib/apt/apt-helper download-file "$pool/${name//+/%2b}" "$name" "SHA256:$sum"
    done < <(awk '/^Checksums-Sha256:/ { inside = 1; next } /^[^ ]/ { inside = 0 } inside { print $1, $3 }' "$dsc")
}

# Downloads the source package of postgresql-VERSION into the current directory.
download_source() {
    local version=$1 uri
    uri=$(mirror)
    [ -n "$uri" ] || die "apt has no source for main of this Debian release; add one and run this again"
    download_newest "$version" "$uri" || download_known "$version" "$uri"
}

# The one that the index of its Debian release names.
download_newest() {
    local version=$1 uri=$2 suite apt=$PWD/apt options
    suite=$(suite_of "$version")
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$apt/sources.list"
    options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/parts"
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache")
    apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only "postgresql-$version"
}

# The commit of VERSION in the repository that was named.
commit_of() {
    local git=$1 version=$2 tag
    tag=$(git -C "$git" tag --list "REL_${version}_[0-9]*" --sort=-version:refname | head -1)
    [ -n "$tag" ] || [ "$version" != 16 ] || tag=$(git -C "$git" log -1 --format=%H --grep='^Stamp HEAD as 17devel')^
    git -C "$git" rev-parse --verify "$tag^{commit}" || die "$git has no release of PostgreSQL $version"
}

# Fills DIR with the source of VERSION, and says where it comes from as a source package's changelog does.
extract_git() {
    local version=$1 dir=$2 git=${PGSEAL_POSTGRES_GIT:-} commit
    [ -n "$git" ] || die "no release of Debian has PostgreSQL $version: name a copy of PostgreSQL's Git repository in PGSEAL_POSTGRES_GIT"
    commit=$(commit_of "$git" "$version")
    mkdir "$dir"
    git -C "$git" archive "$commit" | tar -x -C "$dir"
    if [ "$version" = 16 ] && ! grep -qr pgstat_get_beentry_by_backend_id "$dir/src/include"; then
        git -C "$git" show --format= "$(git -C "$git" log -1 --format=%H --grep='^Rename some support functions for pgstat')" |
            patch -s -p1 -d "$dir"
    fi
    mkdir "$dir/debian"
    git -C "$git" log -1 --date=format:%Y%m%d "$commit" >"$dir/debian/changelog" --format="postgresql-$version \
($version~git%cd.%h) unstable; urgency=low%n%n  * From Git.%n%n -- nobody <nobody@localhost>  %cD"
}

# Fills DIR with the source of Debian's package.
extract_package() {
    mkdir -p "$2/download"
    cd "$2/download"
    download_source "$1"
    dpkg-source --no-check --no-copy --skip-patches -x postgresql-"$1"_*.dsc "$2/src"
}

# In the source directory. The options are those of Debian's packages where the suites or the calls into libc can tell
# the difference: fortified, so that the __*_chk names of the file calls are run too, and without assertions. Injection
# points are not Debian's, but without them a dozen TAP files of 17 and 18 skip themselves.
compile() {
    local version=$1 prefix=$2
    local options=(--enable-tap-tests --with-icu --with-libxml --with-openssl)
    [ "$version" -lt 15 ] || options+=(--with-lz4 --with-zstd)
    [ "$version" -lt 17 ] || options+=(--enable-injection-points)
    [ "$version" -lt 18 ] || options+=(--with-liburing --with-libnuma)
    ./configure --quiet --prefix="$prefix" CFLAGS=-O2 CPPFLAGS=-D_FORTIFY_SOURCE=2 "${options[@]}"
    nice make -s -j2 world-bin
    nice make -s install-world-bin
    nice make -s -j2 -C src/test/modules
    nice make -s -C src/test/modules install
}

# Fills DIR with everything but the stamp; what a broken attempt left behind goes first.
build() {
    local version=$1 dir=$2
    rm -rf "$dir/stamp" "$dir/src" "$dir/inst" "$dir/download"
    case $(suite_of "$version") in
        git) extract_git "$version" "$dir/src" ;;
        *) extract_package "$version" "$dir" ;;
    esac
    cd "$dir/src"
    compile "$version" "$dir/inst"
}

stamp() {
    local version=$1 dir=$2
    echo "$(dpkg-parsechangelog -l "$dir/src/debian/changelog" -S Version), recipe $recipe" >"$dir/stamp.new"
    rm -rf "$dir/download"
    mv "$dir/stamp.new" "$dir/stamp"
}

is_built() {
    grep -qs ", recipe $recipe\$" "$1/stamp"
}

build_once() {
    local version=$1 dir=$cache/pg/$1
    suite_of "$version" >/dev/null
    if ! is_built "$dir"; then
        mkdir -p "$dir"
        exec 9>"$dir/lock"
        flock 9
    fi
    if ! is_built "$dir"; then
        install_build_packages
        install_locales
        # A subshell without the lock's descriptor, for its changes of directory.
        (build "$version" "$dir") 9>&-
        stamp "$version" "$dir"
    fi
    echo "PostgreSQL $version ($(cat "$dir/stamp")): $dir/inst"
}

[ $# -gt 0 ] || die "usage: $0 VERSION… (13, 15 to 19)"
for version in "$@"; do
    build_once "$version"
done
