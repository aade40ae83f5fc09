# shellcheck shell=bash disable=SC2034  # the sourcing scripts use what is set here
# Shared by the scripts that fetch and build (sourced, bash): where the built PostgreSQLs are, where sources come from, and how
# a script gives up.

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Root's cache must be readable by the unprivileged user that runs the servers; root's home is not.
default_cache() {
    if [ "$(id -u)" = 0 ]; then echo /var/cache/pgseal; else echo "$HOME/.cache/pgseal"; fi
}

cache=${PGSEAL_CACHE:-$(default_cache)}

# URI of the mirror from which this machine takes its own Debian release.
mirror() {
    local codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016  # $(…) here is apt's own notation
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$codename" '$1 == release && $2 == "main" && !uri { uri = $3 } END { print uri }'
}
