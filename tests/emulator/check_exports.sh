#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check_exports.sh <libgantry-emu.so> <source root>
# The library shows the driver's functions of driver/funcs.h and others.h and the control interface, nothing else.
set -euo pipefail
library=$1 root=$2
want=$(
    grep -oE 'F\((true|false), [A-Za-z0-9_]+, [A-Za-z0-9_]+' "$root/driver/funcs.h" | sed 's/.*, //'
    grep -oE '  F\([A-Za-z0-9_]+, [A-Za-z0-9_]+' "$root/emulator/others.h" | sed 's/.*, //'
    grep -oE 'X\([a-z0-9_]+, [a-z_]+, \(' "$root/emulator/gantry_emu.h" |
        sed -E 's/X\([a-z0-9_]+, ([a-z_]+), \(/gantry_emu_\1/'
)
have=$(nm -D --defined-only "$library" | awk '{print $3}')
diff <(sort -u <<<"$want") <(sort -u <<<"$have") || {
    echo "left: declared, right: exported" >&2
    exit 1
}
echo "$(wc -l <<<"$have") symbols"
