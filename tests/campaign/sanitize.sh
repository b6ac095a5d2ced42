#!/usr/bin/env bash
# NVIDIA's compute-sanitizer over a build on a machine with a device.
#
# usage: sanitize.sh BUILD [FOLDER]   for instance sanitize.sh build/gpu; logs go to FOLDER (BUILD/sanitizer)
#
# Exit status: 0 nothing found, 1 something found or a program failed, 77 no compute-sanitizer.
set -uo pipefail
build=$1
folder=${2:-$build/sanitizer}
limit=${SANITIZE_SECONDS:-600} # of each program
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$sanitizer" ]; then
    echo "skipped: there is no compute-sanitizer" >&2
    exit 77
fi
export GANTRY_TEST_DRIVER=cuda GANTRY_DRIVER=cuda
mkdir -p "$folder/in"
cp "$(ls -S "$(dirname "$0")"/../../samples/image_pipeline/data/*.png | tail -n 1)" "$folder/in/"
failed=0

check() { # tool, name, command...
    local tool=$1 name=$2 log="$folder/$1-$2.log" quiet=()
    shift 2
    [ "$tool" != memcheck ] || quiet=(--report-api-errors no) # tests make calls that are to be refused
    local began=$SECONDS status=0
    timeout "$limit" "$sanitizer" --tool "$tool" --error-exitcode 9 "${quiet[@]}" "$@" >"$log" 2>&1 || status=$?
    echo "$tool $name: status $status, $((SECONDS - began)) s: $(grep -E "ERROR SUMMARY|RACECHECK SUMMARY" "$log" | tail -n 1)"
    [ "$status" -eq 0 ] || failed=1
}

for tool in memcheck racecheck initcheck synccheck; do
    check "$tool" image_pipeline "$build/gantry" run image_pipeline -i "$folder/in" -o "$folder/out" -d cuda -r 1
done
for tool in memcheck racecheck; do
    check "$tool" copies "$build/tests/test_copykernel_copier"
done
check memcheck random_graphs "$build/tests/test_dispatcher_random_graphs"
exit "$failed"
