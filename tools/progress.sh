# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart.sh and check.sh: how far a build is.

# How far ninja is, of its lines "[12/345] ...": on a terminal always, else at each tenth.
show_progress() {
    local line all tenth told=0 "done"
    while IFS= read -r line; do
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        tenth=$((10 * done / all))
        if [ -t 1 ]; then
            printf '\r  step %d of %d' "$done" "$all"
        elif [ "$tenth" -gt "$told" ]; then
            told=$tenth
            echo "  $((10 * tenth)) %"
        fi
    done
    [ ! -t 1 ] || printf '\r\033[K'
}
