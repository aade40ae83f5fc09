# Purpose: how the demonstrations speak: titles, what came out as promised, and the end if it did not. Sourced by both tours,
# beside which it is copied. Colours on a terminal only.
# shellcheck shell=bash

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') green=$(printf '\033[32m') red=$(printf '\033[31m') plain=$(printf '\033[0m')
else
    bold='' green='' red='' plain=''
fi

title() {
    printf '\n%s== %s%s\n' "$bold" "$*" "$plain"
}

good() {
    printf '%sok%s  %s\n' "$green" "$plain" "$*"
}

die() {
    printf '%sfailed%s  %s\n' "$red" "$plain" "$*" >&2
    exit 1
}
