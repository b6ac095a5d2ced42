#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Public structs have the sizes and offsets of tests/abi/layout.txt (x86-64).

Usage: check_layout.py SOURCE_DIR CC [--update]

Programs are compiled against these numbers: a struct that begins with struct_size may only grow at its end, and
FIXED has those that stay as they are (docs/decisions/0001).  None ends in padding, which programs do not set
(docs/decisions/0012).  One idea has one name.  --update writes the file anew; the change is then there to be
reviewed.
"""
import difflib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile


# Without struct_size: they never get another field.  Elements of arrays, what is passed by value, and what compiled
# kernels hold; the magic of a module of host kernels says which version its structs are of.
FIXED = {"gantry_access", "gantry_copy_desc", "gantry_heap_tag_stats", "gantry_partition_slot", "gantry_sm_group",
         "gantry_alloc_site", "gantry_dim3",
         "gantry_cta_record", "gantry_host_kernel", "gantry_host_module", "gantry_host_ops",
         "gantry_host_thread"}
# What a number of SMs is called, and what it says.  Only a request asks for sm_count.
SMS = {"sm_count": "asked for", "planned_sms": "of the plan", "granted_sms": "given by the driver",
       "seen_sms": "that blocks ran on", "total_sms": "of the device or instance", "device_sms": "of the whole GPU",
       "parent_sms": "that a plan divides", "unit_sms": "of the smallest group", "fine_unit_sms": "likewise",
       "gpc_sms": "of each cluster", "overlap_sms": "of another partition, asked for", "shared_sms": "of two",
       "wide_sms": "with borrowed ones", "remainder_sms": "of no group", "unused_sms": "of no partition"}


def public_structs(source):
    """(C name of the type, [field names]) of every struct defined in the public headers."""
    for header in sorted((source / "include/gantry").glob("*.h")):
        if header.name in ("kernel.h", "mpi.h"):  # this one is compiled with the program that uses it, and nowhere else
            continue
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        pattern = r"^(?:typedef struct \w+ \{\n(?P<a>.*?)^\} (?P<alias>\w+);|struct (?P<tag>\w+) \{\n(?P<b>.*?)^\};)"
        for match in re.finditer(pattern, text, re.M | re.S):
            name = match["alias"] or "struct " + match["tag"]
            yield name, [(field, " ".join(line.split())) for line in (match["a"] or match["b"]).split(";")
                         for field in field_names(line)]


def field_names(declaration):
    """"int a, *b[2]" -> a, b; "void (*f)(int)" -> f."""
    declaration = declaration.strip()
    function = re.search(r"\(\*(\w+)\)\(", declaration)
    if function:
        return [function.group(1)]
    return [re.sub(r"\[.*", "", part).split()[-1].lstrip("*") for part in declaration.split(",") if part]


def name_faults(structs):
    """What breaks the rules for the names of fields."""
    types = {name for name, _ in structs}
    depth = {}  # (field, struct that it is or points to): (stars, where)
    for name, fields in structs:
        if (fields[0][0] == "struct_size") == (name.removeprefix("struct ") in FIXED):
            yield f"{name}: struct_size is the first member of every struct but those of FIXED"
        for field, line in fields:
            if re.search(r"multiprocessor|sm_count|_sms$", field) and field not in SMS:
                yield f"{name}.{field}: a number of SMs has one of the names in SMS"
            if field == "sm_count" and name != "gantry_partition_request":
                yield f"{name}.sm_count: only a request asks"
            base = next((word for word in line.split() if word in types), None)
            if base and "[" not in line:
                stars, where = depth.setdefault((field, base), (line.count("*"), name))
                if stars != line.count("*"):
                    yield f"{name}.{field} and {where}.{field}: a {base} is a pointer in one"


def test_names():
    """The rules find what broke them before."""
    share, size = ("percent", "double percent"), ("struct_size", "size_t struct_size")
    faults = list(name_faults([
        ("gantry_share", [share]),
        ("gantry_partition_request", [size, ("sm_count", "uint32_t sm_count"), ("share", "gantry_share share")]),
        ("gantry_taskman_options", [size, ("share", "const gantry_share *share")]),
        ("gantry_stream_info", [size, ("sm_count", "uint32_t sm_count")]),
        ("gantry_device_info", [size, ("multiprocessors", "uint32_t multiprocessors")])]))
    assert [fault.split(":")[0] for fault in faults] == [
        "gantry_share", "gantry_taskman_options.share and gantry_partition_request.share",
        "gantry_stream_info.sm_count", "gantry_device_info.multiprocessors"], faults


def measure(structs, source, compiler):
    lines = []
    for name, fields in [(name, [field for field, _ in fields]) for name, fields in structs]:
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        last = fields[-1]
        lines.append(f'if (offsetof({name}, {last}) + sizeof((({name} *)0)->{last}) != sizeof({name})) '
                     f'fprintf(stderr, "{name}\\n");')
        lines += [f'printf("{name} .{f} %zu\\n", offsetof({name}, {f}));' for f in fields]
    code = ("#include <gantry/gantry.h>\n#include <gantry/host_module.h>\n#include <gantry/profile_kernel.h>\n#include <stdio.h>\nint main(void)\n{\n"
            + "\n".join(lines) + "\n}\n")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "layout")
        subprocess.run([compiler, "-std=c11", "-x", "c", "-", "-I", str(source / "include"), "-o", str(program)],
                       input=code, text=True, check=True)
        run = subprocess.run([str(program)], capture_output=True, text=True, check=True)
        return run.stdout.splitlines(), [name for name in run.stderr.splitlines() if name.removeprefix("struct ") not in FIXED]


def main(source, compiler, *options):
    if platform.machine() != "x86_64":
        print("skipped: the numbers are those of x86-64", file=sys.stderr)
        return 77
    source = pathlib.Path(source)
    file = source / "tests/abi/layout.txt"
    structs = list(public_structs(source))
    test_names()
    faults = list(name_faults(structs))
    found, padded = measure(structs, source, compiler)
    if "--update" in options:
        file.write_text("\n".join(found) + "\n")
    listed = file.read_text().splitlines()
    difference = list(difflib.unified_diff(listed, found, "layout.txt", "headers", lineterm="", n=0))
    print("\n".join(difference))
    for name in padded:
        print(f"{name} ends in padding, where a later field would find anything: end it with `reserved`")
    print("\n".join(faults))
    print(f"{len(found)} numbers")
    return 1 if difference or padded or faults or not found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
