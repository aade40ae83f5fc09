#!/bin/bash
# Usage: sql/build.sh   (in extension/encdb; called by the Makefile)
#
# Purpose: writes encdb--1.0.sql to stdout: the files of this directory, with a copy of each *.sql.in for
# every line of the table that it belongs to. What types have in common is written once.
set -euo pipefail
cd "$(dirname "$0")"

# The lines of a table, without comments.
rows() {
    grep -v '^#' "$1"
}

# Copies a template; the other arguments are NAME VALUE, for every @NAME@.
fill() {
    local template=$1 script=()
    shift
    while [ $# -gt 0 ]; do
        script+=(-e "s|@$1@|${2//&/\\&}|g")
        shift 2
    done
    sed "${script[@]}" "$template"
}

# The lines of across whose types hash alike.
hashing() {
    rows "$1" | grep HASHES
}

# What an operator class says of its family, if that is in the lines of across that LINES prints.
of_family() {
    local lines=$1 family=$2
    ! "$lines" across | grep -qw -- "$family" || echo " FAMILY $family"
}

# What CREATE TYPE says of the limit of a type's columns.
modifiers() {
    [ "$1" = - ] || echo " TYPMOD_IN = $1typmodin, TYPMOD_OUT = $1typmodout,"
}

types() {
    local name plain storage collatable extremes category preferred family limit
    # Cells of any type: rnd_type has no operators, det_type has equality.
    fill type.sql.in type rnd_type reader any storage external collatable false category r preferred false modifiers ""
    fill type.sql.in type det_type reader deterministic storage external collatable false category d preferred false modifiers ""
    while read -r name plain storage collatable extremes category preferred family limit; do
        fill type.sql.in type "enc_$name" reader "$name" storage "$storage" collatable "$collatable" \
            category "$category" preferred "$preferred" modifiers "$(modifiers "$limit")"
        fill compare.sql.in prefix "enc_$name" left "$name" right "$name" volatility IMMUTABLE joins "HASHES, MERGES"
        fill order.sql.in name "$name" family "$(of_family rows "$family")" hash_family "$(of_family hashing "$family")"
        [ "$extremes" = - ] || fill extremes.sql.in name "$name"
        fill convert.sql.in name "$name" plain "$plain"
        [ "$limit" = - ] || fill limit.sql.in name "$name" limit "$limit"
    done < <(rows types)
}

families() {
    printf '\n-- Orders of several types\n\n'
    rows across | awk '{ print $4 }' | sort -u | sed 's/.*/CREATE OPERATOR FAMILY & USING btree;/'
    hashing across | awk '{ print $4 }' | sort -u | sed 's/.*/CREATE OPERATOR FAMILY & USING hash;/'
}

across() {
    local left right volatility family joins
    printf '\n-- Comparisons of two types\n'
    while read -r left right volatility family joins; do
        fill compare.sql.in prefix enc left "$left" right "$right" volatility "${volatility^^}" joins "$joins"
        fill across.sql.in left "$left" right "$right" family "$family"
        [ "$joins" = MERGES ] || fill across_hash.sql.in left "$left" right "$right" family "$family"
    done < <(rows across)
}

# Comparisons with plain values, on either side.
beside() {
    local name plains plain volatility
    printf '\n-- Comparisons with plain values that the server has\n'
    while read -r name plains volatility; do
        for plain in ${plains//,/ }; do
            fill beside.sql.in name "$name" plain "$plain" volatility "${volatility^^}"
        done
    done < <(rows beside)
}

arithmetic() {
    local function operator beside names name
    printf '\n-- Arithmetic\n\n'
    while read -r function operator beside names; do
        for name in $names; do
            fill operator.sql.in name "$name" function "$function" operator "$operator"
            [ "$beside" = - ] || fill named.sql.in name "$name" function "$function" beside "$beside"
        done
    done < <(rows operators)
}

mixed() {
    local function operator left right result volatility
    printf '\n-- Arithmetic of two types\n\n'
    while read -r function operator left right result volatility; do
        fill mixed.sql.in function "$function" operator "$operator" left "$left" right "$right" result "$result" \
            volatility "${volatility^^}"
    done < <(rows mixed)
}

intervals() {
    local name result volatility
    printf '\n-- Arithmetic with plain intervals\n\n'
    while read -r name result volatility; do
        fill interval.sql.in name "$name" result "$result" volatility "${volatility^^}"
    done < <(rows intervals)
}

frames() {
    local name distance family volatility function
    printf '\n-- Frames of windows by a distance\n\n'
    while read -r name distance family volatility function; do
        fill frame.sql.in name "$name" distance "$distance" family "$family" volatility "${volatility^^}" function "$function"
    done < <(rows frames)
}

aggregates() {
    local name sum avg rounded
    printf '\n-- Signs, sums and averages\n\n'
    while read -r name sum avg rounded; do
        fill aggregate.sql.in name "$name" sum "$sum" avg "$avg"
        [ "$rounded" = - ] || fill rounding.sql.in name "$name" rounded "$rounded"
    done < <(rows aggregates)
}

statistics() {
    local function names pairs pair name
    printf '\n-- Variances, standard deviations, truths of all rows\n\n'
    while read -r function names pairs; do
        for pair in $pairs; do
            fill statistic.sql.in function "$function" name "${pair%:*}" result "${pair#*:}"
            for name in ${names//,/ }; do
                fill statistic_name.sql.in function "$function" name "${pair%:*}" aggregate "$name"
            done
        done
    done < <(rows statistics)
}

# Aggregates of two numbers. Where the two have different types, or that of float4, the implicit casts lead to one of these: float4
# among them would be preferred to float8, and round the other number.
pairs() {
    local name type left right
    local all=(int4 int8 decimal float4 float8)
    printf '\n-- Correlation, covariances, regression\n\n'
    while read -r name; do
        fill pair_step.sql.in name "$name"
        for type in int4 int8 decimal float8; do fill pair.sql.in name "$name" type "$type"; done
    done < <(rows pairs)
    # What is only counted is not cast, which would need a session.
    cat counted_pairs.sql
    for left in "${all[@]}"; do
        for right in "${all[@]}"; do fill pair_count.sql.in left "$left" right "$right"; done
    done
}

# Of numbers: those that are rounded.
percentiles() {
    local name rounded
    cat percentiles.sql
    while read -r name _ _ rounded; do
        [ "$rounded" = - ] || fill percentile.sql.in name "$name"
    done < <(rows aggregates)
}

casts() {
    local from to context volatility
    printf '\n-- Casts\n\n'
    while read -r from to context volatility; do
        case $context in
            explicit) context= ;;
            *) context=" AS ${context^^}" ;;
        esac
        fill cast.sql.in from "$from" to "$to" context "$context" volatility "${volatility^^}"
    done < <(rows casts)
}

# Casts of each type, and of its arrays, that raise.
refused() {
    local to name of
    printf '\n-- No cell is its digits\n'
    while read -r to; do
        fill refused.sql.in to "$to"
        while read -r name; do
            for of in "$name" "${name}[]"; do
                echo "CREATE CAST ($of AS pg_catalog.\"$to\") WITH FUNCTION encdb.cell_as_$to(\"any\") AS ASSIGNMENT;"
            done
        done < <(printf '%s\n' rnd_type det_type; rows types | awk '{ print "enc_" $1 }')
    done < <(rows refused)
}

cat head.sql
families
types
across
beside
arithmetic
mixed
intervals
frames
aggregates
statistics
pairs
percentiles
casts
refused
cat text.sql tokens.sql det.sql computed.sql
