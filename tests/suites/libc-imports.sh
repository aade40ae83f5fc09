#!/bin/bash
# Usage: tests/suites/libc-imports.sh [VERSION…]      (none: every built version and Debian's packaged ones)
#
# Purpose: what PostgreSQL asks of libc, for the surface test that compares it with docs/libc-surface.md.
# Looks at every program and library in the bindir and pkglibdir of the given versions, and at libpq and libecpg;
# a VERSION means the one built by fetch-build.sh and Debian's in /usr/lib/postgresql, as far as they exist. Of Debian's
# directories only what PostgreSQL's own packages put there: extensions and tools lie beside it.
# Prints one line per symbol, sorted by bytes: SYMBOL <TAB> COUNT of importing files <TAB> up to three of these files.
# A symbol counts if its version names glibc, or if it belongs to liburing, which makes its system calls without libc.
# Other libraries (zlib, OpenSSL …) reach the kernel through libc's names themselves, where the preload sees them.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"

# The bindirs of VERSION, or of every version.
bindirs() {
    local dir
    for dir in "$cache"/pg/${1:-*}/inst/bin /usr/lib/postgresql/${1:-*}/bin; do
        if [ -x "$dir/pg_config" ]; then echo "$dir"; fi
    done
}

# Programs and libraries; not the scripts, and not the bitcode that Debian puts beside the libraries.
files_of() {
    local bindir=$1 libdir pkglibdir
    libdir=$("$bindir/pg_config" --libdir)
    pkglibdir=$("$bindir/pg_config" --pkglibdir)
    find "$bindir" "$pkglibdir" -type f \( -path "$bindir/*" -o -name '*.so' -o -perm /111 \) | own "$bindir"
    find "$libdir" -maxdepth 1 -type f \( -name 'libpq.so.*' -o -name 'libecpg*.so.*' -o -name 'libpgtypes.so.*' \)
}

# Those files named on stdin that are PostgreSQL's own: in Debian's bindir, those of packages that its source makes.
own() {
    local version=${1#/usr/lib/postgresql/}
    if [ "$version" = "$1" ]; then cat; else grep -Fxf <(debian_files "postgresql-${version%/bin}"); fi
}

debian_files() {
    dpkg-query -W -f '${source:Package} ${Package}\n' | sed -n "s/^$1 //p" | xargs dpkg-query -L
}

# "SYMBOL <TAB> FILE" for each import of the files named on stdin. nm complains about scripts: they import nothing.
imports() {
    { xargs -d '\n' nm -D -A --undefined-only 2>/dev/null || true; } |
        sed -nE 's/^(.*): +[Uuvw] ([^@]+)@+(GLIBC|LIBURING)_.*$/\2\t\1/p'
}

summarize() {
    sort -u | awk -F '\t' '
        function flush() { if (count) print symbol "\t" count "\t" files }
        $1 != symbol { flush(); symbol = $1; count = 0; files = "" }
        { if (++count <= 3) files = files (count > 1 ? " " : "") $2 }
        END { flush() }'
}

list() {
    local version bindir
    for version in "${@:-}"; do
        for bindir in $(bindirs "$version"); do
            files_of "$bindir"
        done
    done | imports | summarize
}

command -v nm >/dev/null || die "nm is missing; install binutils"
lines=$(list "$@")
[ -n "$lines" ] || die "no PostgreSQL found; run tests/suites/fetch-build.sh first"
echo "$lines"
