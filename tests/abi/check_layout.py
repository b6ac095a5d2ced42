#!/usr/bin/env python3
"""Public structs have the sizes and offsets of tests/abi/layout.txt (x86-64).

Usage: check_layout.py SOURCE_DIR CC [--update]

Programs are compiled against these numbers: an option or statistics struct may only grow at its end, every
other struct stays as it is.  None ends in padding, which programs do not set (docs/decisions/0012).  --update writes the file anew; the change is then there to be reviewed.
"""
import difflib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile


# Without struct_size, in arrays or passed by value: they never get another field.  The last one belongs to the
# engine that runs host kernels, and its module's magic says which version it is of.
FIXED = {"gantry_alloc_site", "gantry_copy_desc", "struct gantry_host_thread"}


def public_structs(source):
    """(C name of the type, [field names]) of every struct defined in the public headers."""
    for header in sorted((source / "include/gantry").glob("*.h")):
        if header.name == "kernel.h":
            continue
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        pattern = r"^(?:typedef struct \w+ \{\n(?P<a>.*?)^\} (?P<alias>\w+);|struct (?P<tag>\w+) \{\n(?P<b>.*?)^\};)"
        for match in re.finditer(pattern, text, re.M | re.S):
            name = match["alias"] or "struct " + match["tag"]
            yield name, [field for line in (match["a"] or match["b"]).split(";") for field in field_names(line)]


def field_names(declaration):
    """"int a, *b[2]" -> a, b; "void (*f)(int)" -> f."""
    declaration = declaration.strip()
    function = re.search(r"\(\*(\w+)\)\(", declaration)
    if function:
        return [function.group(1)]
    return [re.sub(r"\[.*", "", part).split()[-1].lstrip("*") for part in declaration.split(",") if part]


def measure(source, compiler):
    lines = []
    for name, fields in public_structs(source):
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
        return run.stdout.splitlines(), [name for name in run.stderr.splitlines() if name not in FIXED]


def main(source, compiler, *options):
    if platform.machine() != "x86_64":
        print("skipped: the numbers are those of x86-64", file=sys.stderr)
        return 77
    source = pathlib.Path(source)
    file = source / "tests/abi/layout.txt"
    found, padded = measure(source, compiler)
    if "--update" in options:
        file.write_text("\n".join(found) + "\n")
    listed = file.read_text().splitlines()
    difference = list(difflib.unified_diff(listed, found, "layout.txt", "headers", lineterm="", n=0))
    print("\n".join(difference))
    for name in padded:
        print(f"{name} ends in padding, where a later field would find anything: end it with `reserved`")
    print(f"{len(found)} numbers")
    return 1 if difference or padded or not found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
