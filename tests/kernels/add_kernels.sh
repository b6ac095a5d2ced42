#!/bin/sh
# SPDX-License-Identifier: MIT
# add_kernels.sh <source root> <cmake> <generator>: gantry_add_kernels() in a project of its own.  Two targets
# share a kernel file, are built in parallel, and both forms follow a change of a header it includes.
# Exit 77: the generator's program is missing.
set -eu
root=$1 cmake=$2 generator=$3
case $generator in
Ninja) command -v ninja >/dev/null || { echo "skipped: no ninja"; exit 77; } ;;
*) command -v make >/dev/null || { echo "skipped: no make"; exit 77; } ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
include("$root/cmake/GantryKernels.cmake")
add_subdirectory(one)
add_subdirectory(two)
END
mkdir one two
cat >one/CMakeLists.txt <<END
add_executable(one ../main.c)
target_include_directories(one PRIVATE "$root/include")
gantry_add_kernels(one ../adder.cu)
END
sed 's/(one /(two /' one/CMakeLists.txt >two/CMakeLists.txt
cat >adder.cu <<'END'
#include "amount.h"
#include <gantry/kernel.h>
#define KERNEL_WITH_ANY_NAME(name) GANTRY_KERNEL(name, (uint32_t *data))
KERNEL_WITH_ANY_NAME(add_amount)
{
    data[blockIdx.x * blockDim.x + threadIdx.x] += AMOUNT;
}
#if 0
GANTRY_KERNEL(not_there, ()) {}
#endif
END
cat >main.c <<'END'
#include <adder.kernels.h>
#include <gantry/host_module.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    const struct gantry_host_module *host = gantry_image_adder.host;
    uint32_t value = 0, *data = &value;
    void *args[] = {&data};
    struct gantry_host_thread thread = {.block_size = {1, 1, 1}, .grid_size = {1, 1, 1}};
    host->kernels[0].run(&thread, args);
    const char *ptx = gantry_image_adder.ptx;
    printf("%s %u %u %s\n", gantry_image_adder.kernel_names[0], host->kernel_count, value,
           ptx == NULL ? "no PTX" : strstr(ptx, "4242") != NULL ? "4242" : strstr(ptx, "1717") ? "1717" : "?");
    return 0;
}
END

check() {
    for target in one two; do
        got=$(./build/$target/$target)
        [ "$got" = "$1" ] || { echo "$generator: $target says \"$got\", not \"$1\""; exit 1; }
    done
}

if clang++ --print-targets 2>/dev/null | grep -q nvptx64; then
    compiler=clang
else
    compiler=none
fi
echo "#define AMOUNT 4242" >amount.h
"$cmake" -S . -B build -G "$generator" -DGANTRY_KERNEL_COMPILER=$compiler -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
"$cmake" --build build --parallel 4
[ $compiler = clang ] && ptx=4242 || ptx="no PTX"
check "add_amount 1 4242 $ptx"

# Editors find the kernels' own file, with a command that compiles it.
python3 - <<'END'
import json, shlex, subprocess
entries = [entry for entry in json.load(open("build/compile_commands.json")) if entry["file"].endswith("/adder.cu")]
assert len(entries) == 1, entries
subprocess.run(shlex.split(entries[0]["command"]) + ["-fsyntax-only"], cwd=entries[0]["directory"], check=True)
END

make_it_newer() { # file times may be coarse
    while [ ! amount.h -nt build/one/one ]; do touch amount.h; done
}
echo "#define AMOUNT 1717" >amount.h
make_it_newer
"$cmake" --build build --parallel 4
[ $compiler = clang ] && ptx=1717
check "add_amount 1 1717 $ptx"

"$cmake" -S . -B build -DGANTRY_KERNEL_COMPILER=none
"$cmake" --build build --parallel 4
check "add_amount 1 1717 no PTX"

if "$cmake" -S . -B build -DGANTRY_KERNEL_COMPILER=gcc >log 2>&1; then
    echo "an unknown compiler was accepted"
    exit 1
fi
grep -q "GANTRY_KERNEL_COMPILER is gcc" log

# What somebody who has written CUDA before tries first is told in words.
refused() { # what is said of the project in bad/
    if "$cmake" -S bad -B bad/build -G "$generator" -DGANTRY_KERNEL_COMPILER=none >log 2>&1 && "$cmake" --build bad/build >>log 2>&1; then
        echo "this was accepted: $1"
        exit 1
    fi
    grep -qF "$1" log || { cat log; echo "$generator: nothing says: $1"; exit 1; }
    rm -r bad/build
}
mkdir bad
cat >bad/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(bad LANGUAGES C CXX)
include("$root/cmake/GantryKernels.cmake")
add_executable(bad ../main.c)
target_include_directories(bad PRIVATE "$root/include")
gantry_add_kernels(bad adder.cu)
END
refused "there is no $folder/bad/adder.cu"
echo '__global__ void add(unsigned *data) { *data += 1; }' >bad/adder.cu
refused "write GANTRY_KERNEL(name, (parameters)) in place of __global__ void name(parameters)"
refused "adder.cu has no kernels: it does not include <gantry/kernel.h>"
sed -i 's/C CXX/C/' bad/CMakeLists.txt
refused "say project(NAME LANGUAGES C CXX)"
