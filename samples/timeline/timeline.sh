#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run the image pipeline while it is recorded, and write the recording in every format.
#
# usage: timeline.sh [GANTRY [FOLDER [image_pipeline's options...]]]
#   GANTRY  the command (build/release/gantry), FOLDER where the results go (out/timeline)
set -euo pipefail
gantry=${1:-build/release/gantry}
folder=${2:-out/timeline}
shift $(($# < 2 ? $# : 2))
mkdir -p "$folder"

"$gantry" run image_pipeline --output "$folder" "$@"
for format in json html; do
    "$gantry" report trace "$folder/timeline.pftrace" --format "$format" -o "$folder/timeline.$format"
done
"$gantry" report trace "$folder/timeline.pftrace" --json > "$folder/report.json"
"$gantry" report trace "$folder/timeline.pftrace" | tee "$folder/report.txt"
echo
echo "$folder/timeline.html     open it in a browser"
echo "$folder/timeline.pftrace  open it with https://ui.perfetto.dev"
echo "$folder/timeline.json     the same in Chrome's format"
