#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The differential fuzz on this machine's device: builds what it needs, runs it, and leaves its records in OUT, in one file.
# What is built stays in build/differential.  It ends after SECONDS at most, with the sequences that were done by then.
#
# Usage: tests/conformance/differential/on_device.sh OUT [SECONDS [PROCESSES [SEQUENCES [SEED]]]]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '5s/^# //p' "$0" >&2; exit 2; }
out=$1 seconds=${2:-60} processes=${3:-16} sequences=${4:-0-13000} seed=${5:-1}
begin=$(date +%s)
cd "$(dirname "$0")/../../.."
build=build/differential
generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGANTRY_BUILD_TESTS=ON > "$out/build.log" 2>&1 || { tail -30 "$out/build.log"; exit 1; }
cmake --build "$build" -j "$(nproc)" --target test_conformance_differential >> "$out/build.log" 2>&1 || { tail -30 "$out/build.log"; exit 1; }
echo "built after $(($(date +%s) - begin)) s"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader > "$out/device.txt" 2>&1 || true
records=$(mktemp -d)
status=0
"$build/tests/test_conformance_differential" --driver "${GANTRY_TEST_DRIVER:-cuda}" --seed "$seed" --sequences "$sequences" \
  --processes "$processes" --seconds "$((seconds - ($(date +%s) - begin) - 5))" --out "$records" > "$out/run.log" 2>&1 || status=$?
tail -20 "$out/run.log"
grep -haE " (X|H|L)[0-9]*$" -B2 "$records"/record.* > "$out/ended.txt" || true
gzip -1 "$records"/record.*
tar -C "$records" -cf "$out/records.tar" .
rm -r "$records"
echo "all after $(($(date +%s) - begin)) s, status $status"
exit "$status"
