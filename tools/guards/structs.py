# SPDX-License-Identifier: MIT
"""Which structs have more than MOST members.

Members are counted as they are declared, those of a struct or union inside as one.  The structs of public headers and of
CUDA's are apart: programs and the driver decide on them.
"""
import re

from guards.figures import Figures
from guards.rooms import library_room

MOST = 25
APART = ("driver/cuda_abi.h",)
OPENING = re.compile(r"\bstruct\s+(?:_Alignas\(\w+\)\s+)?(\w+)\s*\{")


def body_of(code, start):
    """What lies between the brace that ends before `start` and the one that closes it."""
    depth, at = 1, start
    while depth and at < len(code):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return code[start:at - 1]


def members_of(body):
    """How many: declarators between semicolons, outside of inner braces and parentheses."""
    count, depth, declarators, is_empty = 0, 0, 1, True
    for letter in body:
        if letter in "{([":
            depth += 1
        elif letter in "})]":
            depth -= 1
        elif depth == 0 and letter == ",":
            declarators += 1
        elif depth == 0 and letter == ";":
            count += 0 if is_empty else declarators
            declarators, is_empty = 1, True
            continue
        is_empty = is_empty and letter.isspace()
    return count


def count(files):
    """One figure for each struct above MOST, by its tag."""
    figures = Figures()
    for path, code in files.code(lambda path: (library_room(path) or path.startswith("cli/")) and path not in APART):
        for match in OPENING.finditer(code):
            body = re.sub(r"^\s*#.*$", "", body_of(code, match.end()), flags=re.M)
            members = members_of(body)
            if members > MOST:
                figures.add(match.group(1), path, members)
    return figures
