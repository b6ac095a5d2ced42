#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build Gantry and run every test.  Debian 12, Ubuntu 24.04 or newer; needs no GPU and no CUDA toolkit.
#
#   ./check.sh           all tests in a debug build with gcc, those that depend on the build in one with clang
#                        and without jemalloc, then under the sanitizers
#   ./check.sh --fast    the debug build with gcc only
#   ./check.sh --gpu     all tests that use a device, on this machine's; a skipped test is a failed one
#   ./check.sh --gpu-two those that use two devices, on a machine with two
#   ./check.sh --coverage  the debug build with counters; prints which part of each room's branches the tests take
#   ./check.sh --exhaustive  the tests that take hours: each single failure of the fault sweeps, and the long
#                        runs of the reliability campaign (docs/design/reliability.md)
#
# The last line is "N passed, N failed, N skipped" over all builds, with --gpu "device run: COMMIT, driver, device,
# N passed, N failed, N skipped"; the exit status is 0 when nothing failed.  Installs what is missing with apt-get (root, or a user with sudo).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source tools/packages.sh
source tools/progress.sh

presets="dev clang asan tsan"
which=() exhaustive=OFF suite=gpu
case $* in
    "") ;;
    --fast) presets="dev" ;;
    --gpu) presets="gpu" ;;
    --gpu-two) presets="gpu" suite="gpu-two" ;;
    --coverage) presets="coverage" ;;
    --exhaustive) presets="dev asan tsan" exhaustive=ON which=(-L "^exhaustive$") ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]##*/}" >&2
        exit 2
        ;;
esac

require cmake ninja-build gcc g++ pkg-config libpng-dev libjemalloc-dev libcmocka-dev python3
want protobuf-compiler make bzip2 python3-pip
# Chromium is 124 MB to fetch; without it no test sees the pages.
[ "$presets" = gpu ] || want clang-format-14 dpkg-dev file libcjson-dev libhwloc-dev spin abigail-tools libvulkan-dev mesa-vulkan-drivers libglfw3-dev xvfb \
    mpich libmpich-dev doxygen python3-sphinx python3-myst-parser furo chromium
case $presets$exhaustive in
    *clang* | *ON) require clang ;; # tools/mutate --sample reads its syntax trees
esac

# Warnings are errors where the code is kept free of them: with these compilers, without the sanitizers'
# instrumentation, which makes gcc guess worse.
werror_of() {
    case "$1 $(cc -dumpversion | cut -d. -f1)" in
        "dev 12" | "clang 12") echo ON ;;
        *) echo OFF ;;
    esac
}

# tests PRESET LABEL: how many there are.
tests() {
    ctest --test-dir "build/$1" -N -L "^$2\$" | sed -n 's/^Total Tests: //p'
}

# What the test preset leaves out, and why.
left_out() {
    case $1 in
        clang) echo "left out of clang: $(tests clang once) tests that do not depend on the compiler (label once)" ;;
        asan) echo "left out of asan: $(tests asan tree) tests of the files and the build (label tree)" ;;
        tsan)
            echo "left out of tsan: $(tests tsan tree) tests of the files and the build (label tree)," \
                "$(tests tsan no_threads) that start no thread (label no_threads)," \
                "$(tests tsan again) that do again what others did (label again)"
            ;;
    esac
}

jobs=$(nproc)
at_once=$jobs
# Tests wait for half of their time: for threads, for programs they begin, for the GPU that is emulated.
[ "$presets" = gpu ] || [ "$exhaustive" = ON ] || at_once=$((jobs + jobs / 2))
results=()
notes=()
for preset in $presets; do
    echo "== $preset"
    echo "building build/$preset (some minutes), then its tests ..."
    results+=("build/$preset/tests.xml")
    mkdir -p "build/$preset"
    rm -f "build/$preset/tests.xml"
    log=build/$preset/build.log
    started=$SECONDS
    [ "$preset" != coverage ] || find build/coverage -name '*.gcda' -delete # of earlier runs
    if ! { cmake --preset "$preset" -DGANTRY_WERROR="$(werror_of "$preset")" \
        -DGANTRY_EXHAUSTIVE="$exhaustive" >"$log" 2>&1 </dev/null &&
        cmake --build --preset "$preset" -j "$jobs" 2>&1 </dev/null | tee -a "$log" | show_progress; }; then
        tail -n 60 "$log"
        echo "the build of $preset failed; the whole log is in $log"
        continue
    fi
    echo "built in $((SECONDS - started)) s"
    # What passing tests say is kept whole: it has what they left out.
    ctest --preset "${preset/#gpu/$suite}" "${which[@]}" -j "$at_once" --test-output-size-passed 100000 \
        --output-junit tests.xml </dev/null || true
    [ "$exhaustive" = ON ] || notes+=("$(left_out "$preset")")
done

printf '%s\n' "${notes[@]}" | sed '/^$/d'
[ "$presets" != coverage ] || python3 tools/branches.py build/coverage

status=0
if [ "$presets" = gpu ]; then
    python3 tools/test_summary.py "${results[@]}" || status=1
    python3 tools/device_run.py say build/gpu/gantry build/gpu/tests.xml build/gpu/device_run.json
else
    tools/device_debt --warn
    python3 tools/test_summary.py "${results[@]}" || status=1
fi
exit $status
