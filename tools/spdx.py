#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every source file says its licence in one line, with the identifier of LICENSE.

Usage: spdx.py [--fix] [ROOT]

The line is the file's first, or comes behind what has to be first (#!, <!DOCTYPE).  Without --fix the files that lack it are named,
and the exit status is 1 when there is one.  tools/check_style.py checks the same.  Documents, pictures and data have LICENSE alone.
"""
import os
import re
import sys

IDENTIFIERS = {"MIT License": "MIT"}  # by the first line of LICENSE
COMMENTS = ((re.compile(r"\.(c|h|cpp|hpp|cu|js|css|pml|proto)$"), "/* {} */"),
            (re.compile(r"\.(py|sh|cmake|toml|map|in)$|(^|/)CMakeLists\.txt$|^tools/\w+$|^\.ci/\w+$"), "# {}"),
            (re.compile(r"\.html$"), "<!-- {} -->"))
NAMES = re.compile("|".join(names.pattern for names, _ in COMMENTS))
FIRST = re.compile(r"\A(?:#![^\n]*\n|<!doctype[^\n]*\n)?", re.I)
LINE = re.compile(r"(?m)^(?:/\*|#|<!--) SPDX-License-Identifier: .*\n")


def identifier_of(root):
    """That of the tree; None: it has no LICENSE."""
    try:
        with open(os.path.join(root, "LICENSE"), encoding="utf-8") as file:
            return IDENTIFIERS[file.readline().strip()]
    except FileNotFoundError:
        return None


def line_of(path, identifier):
    """What a file of NAMES has to say."""
    comment = next(comment for names, comment in COMMENTS if names.search(path))
    return comment.format(f"SPDX-License-Identifier: {identifier}") + "\n"


def has(text, line):
    return text.startswith(line, FIRST.match(text).end())


def without(text):
    """The text without the line."""
    at = LINE.match(text, FIRST.match(text).end())
    return text[:at.start()] + text[at.end():] if at else text


def main(arguments):
    from check_style import list_files
    roots = [argument for argument in arguments if not argument.startswith("-")]
    root = roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    identifier, lacking = identifier_of(root), 0
    for path in list_files(root, NAMES):
        line = line_of(path, identifier)
        with open(os.path.join(root, path), encoding="utf-8", newline="") as file:
            text = file.read()
        if has(text, line):
            continue
        lacking += 1
        if "--fix" not in arguments:
            print(f"{path}:1: it does not say {line.strip()}")
            continue
        bare = without(text)
        at = FIRST.match(bare).end()
        with open(os.path.join(root, path), "w", encoding="utf-8", newline="") as file:
            file.write(bare[:at] + line + bare[at:])
    print(f"{lacking} files {'have got the line' if '--fix' in arguments else 'lack the line'}")
    return 0 if "--fix" in arguments or lacking == 0 else 1


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(sys.argv[1:]))
