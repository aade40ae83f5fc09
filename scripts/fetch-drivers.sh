#!/bin/bash
# Usage: scripts/fetch-drivers.sh [python|node|go|java|rust|suites|psycopg|pgjdbc|moto|miniflux|oscar]…   (none: all)
#
# Purpose: what tests/drivers runs and Debian does not package: drivers of the versions that the lock files below tests/drivers
# name, and the programs there that use them; moto, which stands in for AWS in tests/keys; and Miniflux and
# django-oscar, the applications of tests/apps. All of it is in CACHE/drivers/NAME-DIGEST (tests/drivers/places.py). What is there is kept.
# CACHE is $PGSEAL_CACHE, else /var/cache/pgseal for root, else ~/.cache/pgseal.
set -euo pipefail
umask 022

# shellcheck source-path=SCRIPTDIR source=../tests/suites/common.sh
. "$(dirname "$0")/../tests/suites/common.sh"

here=$(cd "$(dirname "$0")/../tests/drivers" && pwd)

# Debian's interpreter, which an unprivileged user can run, with the packages of a lock file.
build_interpreter() {
    /usr/bin/python3 -m venv "$1"
    "$1/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r "$2"
}

build_python() { build_interpreter "$1" "$here/python/requirements.txt"; }

# Without what its server needs for other services than KMS, STS and the metadata of instances.
build_moto() { build_interpreter "$1" "$here/../keys/requirements.txt"; }

build_node() {
    cp "$here"/node/package*.json "$1"
    npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --silent
}

# The module says which Go it needs; Debian 12's is older. The package of bindings/go is linked with what make build has left in dist.
build_go() {
    command -v go >/dev/null || die "go is missing; install the version that tests/drivers/go/go.mod names, or a later one"
    [ -e "$here/../../dist/lib/libpgseal_client.so" ] || die "dist/lib/libpgseal_client.so is missing: run make build"
    # shellcheck disable=SC2016  # the marks of a block
    sed -n '/^```go$/,/^```$/p' "$here/../../docs/confidential/in-process.md" | sed '1d;$d' >"$1/shop.go"
    (
        cd "$here/go"
        export CGO_CFLAGS="-I$here/../../dist/include" CGO_LDFLAGS="-L$here/../../dist/lib"
        nice go build -mod=readonly -trimpath -buildvcs=false -o "$1/drivers" .
        nice go build -mod=readonly -trimpath -buildvcs=false -o "$1/quick" ./quick
        nice go build -mod=readonly -trimpath -buildvcs=false -o "$1/shop" "$1/shop.go"
    )
}

build_java() {
    cp -r "$here"/java/. "$1"
    nice mvn --batch-mode --quiet --file "$1/pom.xml" compile dependency:copy-dependencies -DincludeScope=runtime
}

build_rust() {
    nice cargo build --quiet --release --locked --manifest-path "$here/rust/Cargo.toml" --target-dir "$1/target"
    install -m 755 "$1/target/release/drivers" "$1/drivers"
    rm -rf "$1/target"
}

# The tests of drivers' own sources: pgx, of the version that tests/drivers/go uses, and psycopg2, of Debian 12's version.
build_suites() {
    local sources package
    sources=$(cd "$here/go" && go mod download -json github.com/jackc/pgx/v5 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cp -r "$sources" "$1/pgx"
    chmod -R u+w "$1/pgx"
    for package in pgconn pgtype pgxpool stdlib; do
        (cd "$1/pgx" && nice go test -c -o "$package.test" "./$package")
    done
    (cd "$1/pgx" && nice go test -c -o pgx.test .)
    /usr/bin/python3 -m pip download --quiet --no-cache-dir --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
        --dest "$1" -r "$here/suites/requirements.txt"
    mkdir "$1/psycopg2"
    tar --extract --file "$1"/psycopg2-*.tar.gz --strip-components=1 --directory "$1/psycopg2"
    rm "$1"/psycopg2-*.tar.gz
}

# psycopg and what its tests need; the tests themselves are in its repository.
build_psycopg() { build_interpreter "$1" "$here/psycopg/requirements.txt"; }

# pgjdbc and its tests, from the source that it publishes to be built without Gradle.
build_pgjdbc() {
    local kind
    nice mvn --batch-mode --quiet --file "$here/pgjdbc/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1/jars"
    mkdir "$1/source"
    tar --extract --file "$1"/jars/postgresql-*.tar.gz --strip-components=1 --directory "$1/source"
    rm "$1"/jars/postgresql-*.tar.gz
    for kind in main test; do
        find "$1/source/src/$kind/java" -name '*.java' >"$1/files"
        nice javac -nowarn -proc:none -parameters -encoding UTF-8 -Xlint:none -classpath "$1/main:$1/jars/*" -d "$1/$kind" "@$1/files"
        cp -r "$1/source/src/$kind/resources/." "$1/$kind"
    done
    rm "$1/files"
}

# What django-oscar and its tests need; the tests themselves are in its repository.
build_oscar() { build_interpreter "$1" "$here/../apps/requirements.txt"; }

# The application, and its own tests of its API.
build_miniflux() {
    command -v go >/dev/null || die "go is missing; install the version that tests/apps/go.mod names, or a later one"
    (
        cd "$here/../apps"
        export CGO_ENABLED=0
        nice go build -mod=readonly -trimpath -buildvcs=false -o "$1/miniflux" miniflux.app/v2
        nice go test -c -mod=readonly -trimpath -buildvcs=false -o "$1/api.test" miniflux.app/v2/internal/api
    )
}

[ $# -gt 0 ] || set -- python node go java rust suites psycopg pgjdbc moto miniflux oscar
for name in "$@"; do
    place=$(/usr/bin/python3 "$here/places.py" "$name")
    if [ ! -e "$place/complete" ]; then
        rm -rf "$place"
        mkdir -p "$place"
        "build_$name" "$place"
        touch "$place/complete"
    fi
    echo "drivers of $name: $place"
done
