# shellcheck shell=bash disable=SC2034  # the sourcing scripts use what is set here
# Shared by the scripts of tests/suites (sourced, bash): where the built PostgreSQLs are, and how a script gives up.

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Root's cache must be readable by the unprivileged user that runs the servers; root's home is not.
default_cache() {
    if [ "$(id -u)" = 0 ]; then echo /var/cache/pgseal; else echo "$HOME/.cache/pgseal"; fi
}

cache=${PGSEAL_CACHE:-$(default_cache)}
