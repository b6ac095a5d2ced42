#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shared library is one that programs built against an earlier one can use.

Usage: check_abidiff.py SOURCE_DIR LIBRARY [--update]

abidiff compares it with tests/abi/gantry.abi.  New functions, new fields at the end of a struct and new values of
an enum are fine; anything else is not.  --update writes the baseline anew: after a release, or, before there is
one, after a change that was meant.  Each exported symbol must have a version.

Exit status 77 without the abidiff that the baseline is for: descriptions of two versions differ by themselves
(Debian 12: package abigail-tools).
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import check_layout

VERSION = "2.2.0"


def unversioned(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return [line for line in output.splitlines() if " A " not in line and not re.search(r"@@?GANTRY_\d", line)]


def describe(source, library):
    """The functions of the library and the structs of the public headers.  abidw knows headers by their names without folders, and
    some of ours are called as public ones, so what is private is left out here."""
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name, "now.abi")
        subprocess.run(["abidw", "--headers-dir", str(source / "include"), "--drop-private-types", "--no-corpus-path", "--no-comp-dir-path",
                        "--no-show-locs", "--exported-interfaces-only", "--out-file", str(file), library], check=True)
        tree = xml.parse(file)
    public = {name.removeprefix("struct ") for name, _ in check_layout.public_structs(source)}
    for struct in [*tree.iter("class-decl"), *tree.iter("union-decl")]:
        if struct.get("name") not in public:
            struct[:] = []
            struct.attrib.pop("size-in-bits", None)
            struct.set("is-declaration-only", "yes")
    return tree


def structs(tree):
    """{name: its descriptions}, of which there may be several."""
    found = {}
    for struct in tree.iter("class-decl"):
        if struct.get("size-in-bits"):
            found.setdefault(struct.get("name"), []).append(struct)
    return found


def place(member):
    return int(member.get("layout-offset-in-bits", 0))


def without_growth(baseline, now):
    """Take out of both what lies behind the end of each struct in `baseline`, or in the place of a field that is `reserved`
    (docs/decisions/0012).  A suppression of abidiff 2.2 for fields inserted at the end hides every change of a struct."""
    after = structs(now)
    for name, before in structs(baseline).items():
        size = int(before[0].get("size-in-bits"))
        fields = [(place(member), member.find("var-decl").get("name")) for member in before[0].findall("data-member")] + [(size, "")]
        free = [range(begin, end) for (begin, field), (end, _) in zip(fields, fields[1:]) if field.startswith("reserved")]
        for struct in before + after.get(name, []):
            struct.set("size-in-bits", str(min(int(struct.get("size-in-bits")), size)))
            for member in struct.findall("data-member"):
                if place(member) >= size or any(place(member) in part for part in free):
                    struct.remove(member)


def compare(baseline, now, **options):
    """The exit status of abidiff.  Two descriptions: beside a library it would take all types of one without places for private."""
    with tempfile.TemporaryDirectory() as name:
        old, new = pathlib.Path(name, "baseline.abi"), pathlib.Path(name, "now.abi")
        without_growth(baseline, now)
        baseline.write(old)
        now.write(new)
        return subprocess.run(["abidiff", "--no-added-syms", str(old), str(new)], check=False, **options).returncode


def edited(tree, change, name="gantry_share"):
    copy = xml.ElementTree(xml.fromstring(xml.tostring(tree.getroot())))
    for struct in structs(copy)[name]:
        change(struct)
    return copy


def is_blind(now):
    """Changes that are taken for what they are not: a field that moves and one that goes are to be seen, growth is not."""
    def move(struct):
        struct.findall("data-member")[1].set("layout-offset-in-bits", "128")

    def remove(struct):
        struct.remove(struct.findall("data-member")[1])

    def grow(struct):
        end = struct.get("size-in-bits")
        struct.append(xml.fromstring(xml.tostring(struct.findall("data-member")[1])))
        struct.findall("data-member")[-1].set("layout-offset-in-bits", end)
        struct.set("size-in-bits", str(int(end) + 64))

    def use_reserved(struct):
        struct.findall("data-member")[-1].find("var-decl").set("name", "later")

    def same(struct):
        assert struct.get("size-in-bits")

    cases = [(move, "gantry_share", True), (remove, "gantry_share", True), (grow, "gantry_share", False),
             (use_reserved, "gantry_occupancy", False)]
    return [change.__name__ for change, name, is_seen in cases
            if (compare(edited(now, same), edited(now, change, name), stdout=subprocess.DEVNULL) != 0) != is_seen]


def main(source, library, update):
    found = shutil.which("abidiff") and subprocess.run(["abidiff", "--version"], check=True, capture_output=True, text=True).stdout
    if VERSION not in (found or ""):
        print(f"skipped: abidiff {VERSION} is not installed", file=sys.stderr)
        return 77
    source = pathlib.Path(source)
    file = source / "tests/abi/gantry.abi"
    now = describe(source, library)
    if update:
        now.write(file)
    blind = is_blind(now)
    if blind:
        print(f"abidiff is wrong about planted changes: {', '.join(blind)}")
    status = compare(xml.parse(file), now)
    lacking = unversioned(library)
    for line in lacking:
        print(f"no version: {line}")
    if status != 0:
        print(f"abidiff: {status}; a change that was meant: run tests/abi/check_abidiff.py . LIBRARY --update")
    return 1 if status != 0 or blind or lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--update" in sys.argv[3:]))
