#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""driver/cuda_abi.h and driver/funcs.h against NVIDIA's own cuda.h, the oldest and the newest that are supported.

Usage: test_abi_headers.py SOURCE_DIR CC CACHE_DIR

pip gets the headers, which NVIDIA publishes in its wheels, once (3.3 MB), and their SHA-256 is checked.  Every constant, size and
offset of abi_facts.h and abi_facts_13_1.h and every prototype of funcs.h is compared.  What a header does not have yet cannot be
compared with it: the newest has all.  Exit status 77 where pip cannot get them.  Takes some 5 seconds.
"""
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

SOURCE, CC, CACHE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], pathlib.Path(sys.argv[3])
# package, CUDA_VERSION, SHA-256 of the wheel, the rows that are at least compared
WHEELS = [("nvidia-cuda-runtime-cu12==12.0.146", 12000, "18c038592af387684812fa712642aa9a26c12da80acb488b6709f7cced147f71", 500),
          ("nvidia-cuda-runtime==13.5.37", 13050, "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d", None)]
ABSENT = re.compile(r"undeclared|has no member|unknown type name|expected .* before|is not a function|invalid use of undefined type|"
                    r"first use in this function|incomplete|each undeclared|parse")


def get(package, wanted):
    """The folder with the package's cuda.h; None: it cannot be had."""
    folder = CACHE / package.replace("==", "-")
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                   "--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64", "--dest", str(folder), package]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(folder.glob("*.whl"))
        if result.returncode != 0 or not wheels:
            print(f"skipped: pip cannot get {package}: {(result.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
            return None
    if hashlib.sha256(wheels[0].read_bytes()).hexdigest() != wanted:
        sys.exit(f"{wheels[0]} is not {package}: its SHA-256 is another one")
    with zipfile.ZipFile(wheels[0]) as wheel:
        for name in wheel.namelist():
            if "/include/" in name:
                wheel.extract(name, folder)
    return next(folder.glob("**/cuda.h")).parent


def rows():
    """The lines to compare: of facts, and of prototypes."""
    facts = []
    results = (SOURCE / "driver/cuda_results.h").read_text()
    facts += [f"V(CUDA_{name})" for name in re.findall(r"\bX\((\w+), *\d+,", results)]
    for name in ("abi_facts.h", "abi_facts_13_1.h"):
        facts += re.findall(r"(?m)^[VSM]\(.*\)$", (SOURCE / "tests/driver" / name).read_text())
    text = (SOURCE / "driver/funcs.h").read_text().replace("\\\n", " ")
    functions = re.findall(r"F\((?:true|false), *\w+, *(\w+), *(\((?:[^()]|\([^()]*\))*\))\)", text)
    prototypes = [f'_Static_assert(__builtin_types_compatible_p(__typeof__(&{symbol}), CUresult(*) {" ".join(prototype.split())}), "{symbol}");'
                  for symbol, prototype in functions]
    return facts, prototypes


def compile_rows(header, include, lines, body, *more):
    """Compile one file with a row in each line from line 1000 on; {row number: what the compiler says of it}, and the output's path."""
    text = f"{header}\n{body[0]}\n#line 1000\n" + "\n".join(lines) + f"\n{body[1]}\n"
    result = subprocess.run([CC, "-std=gnu11", "-x", "c", "-ferror-limit=0" if "clang" in CC else "-fmax-errors=0",
                             *(f"-I{path}" for path in include), "-", *more], input=text, capture_output=True, text=True, check=False)
    said, pending = {}, None
    for line, kind, message in re.findall(r"(?m)^<stdin>:(\d+):(?:\d+:)? (error|note): (.*)$", result.stderr):
        pending = message if kind == "error" else pending  # of one in a macro only the notes have the row
        if int(line) >= 1000 and pending is not None:
            said.setdefault(int(line) - 1000, []).append(pending)
            pending = None
    if result.returncode != 0 and (not said or max(said) >= len(lines)):
        sys.exit(result.stderr)
    return said


def values(header, include, facts, folder):
    program = folder / "values"
    body = ("#include <stdio.h>\n#include <stddef.h>\n"
            "#define V(c) printf(\"%lld 0\\n\", (long long)(c));\n#define S(t) printf(\"%zu 0\\n\", sizeof(t));\n"
            "#define M(t, m) printf(\"%zu %zu\\n\", offsetof(t, m), sizeof(((t *)0)->m));\nint main(void) {", "return 0; }")
    said = compile_rows(header, include, facts, body, "-o", str(program))
    if said:
        return said, None
    return {}, subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def compare(package, version, include, least, folder):
    """How many mistakes; the table of facts and prototypes of one cuda.h."""
    facts, prototypes = rows()
    theirs = "#define __CUDA_API_VERSION_INTERNAL 1\n#include <cuda.h>\n" \
             f'_Static_assert(CUDA_VERSION == {version}, "another cuda.h");'
    absent = {}
    for _ in range(9):  # what one error hides the next round shows
        said, cuda = values(theirs, [include], facts, folder)
        if cuda is not None:
            break
        absent.update({facts[row]: messages for row, messages in said.items()})
        facts = [fact for i, fact in enumerate(facts) if i not in said]
    _, ours = values('#include "driver/cuda_abi.h"\n#include "driver/cuda_results.h"', [SOURCE], facts, folder)
    wrong = [f"{fact}: ours {mine}, {package} {its}" for fact, mine, its in zip(facts, ours, cuda) if mine != its]
    said = compile_rows(theirs, [include], prototypes, ("", ""), "-fsyntax-only")
    for row, messages in said.items():
        if any("static assertion" in message for message in messages) and not any(ABSENT.search(m) for m in messages):
            wrong.append(f"{package}: {messages[0]}: {prototypes[row]}")
        else:
            absent[prototypes[row]] = messages
    compared = len(facts) + len(prototypes) - len(said)
    if least is None:
        wrong += [f"{package} lacks {row}: {messages[0]}" for row, messages in absent.items()]
    elif compared < least:
        wrong.append(f"{package}: only {compared} rows were compared")
    print(f"{package}: {compared} rows compared, {len(absent)} that it does not have", *wrong, sep="\n")
    return len(wrong)


def main():
    wrong = 0
    for package, version, sum_of_it, least in WHEELS:
        include = get(package, sum_of_it)
        if include is None:
            return 77
        with tempfile.TemporaryDirectory() as folder:
            wrong += compare(package, version, include, least, pathlib.Path(folder))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
