#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the tables of files in docs/design/architecture.md, from the first sentence of each file.

Usage: file_table.py [--check] [ROOT]

A .c file and the .h file of its name share a row, which has the header's sentence.  With --check nothing is
written; the exit status is 1 when the document is not what would be written, or when a file begins without a
sentence.  Run it after adding, moving or removing a file.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_style import LIBRARY, list_files  # noqa: E402

DOCUMENT = "docs/design/architecture.md"
BEGIN = "<!-- The tables below are made by tools/file_table.py. -->"
END = "<!-- The tables end here. -->"
FOLDERS = LIBRARY + ["torch", "limit", "cli", "bench", "tools", "cmake"]  # in the order of the document; each with the folders in it
SOURCES = re.compile(r"\.(h|c|cpp|cu|py|sh|cmake|map|in)$|^tools/\w+$")
LONGEST = 200


def head_of(path, text):
    """The first paragraph of the comment or docstring that a file begins with, as one line; "": there is none."""
    text = re.sub(r"\A(#![^\n]*\n|# shellcheck[^\n]*\n|@\w+@\n|(?:/\*|#) SPDX-License[^\n]*\n)+", "", text)
    if path.endswith(".py") or text.startswith('"""'):
        comment = re.match(r'"""(.*?)"""', text, re.S)
    elif path.endswith((".sh", ".cmake", ".in", ".map")):
        comment = re.match(r"((?:#(?: [^\n]*)?\n)+)", text)
    else:
        comment = re.match(r"/\*\*?(.*?)\*/", text, re.S)
    if not comment:
        return ""
    body = re.sub(r"(?m)^[ \t]*[*#](?=\s|$)", "", comment.group(1))
    return re.sub(r"\s+", " ", re.split(r"\n[ \t]*\n", re.sub(r"^@file \S+\s*", "", body.strip()))[0])


def purpose_of(path, text):
    """The first sentence of a file without its full stop; "": it has no head."""
    end = r"\?(?= )|(?<![ (][A-Z])(?=\. +(?:[A-Z1-9$(]|\w+[./]))|(?=[.:]?$)"
    return re.match(rf"(.*?(?:{end}))", head_of(path, text)).group(1)


def modules_of(files):
    """Lists of the files that share a row: {folder: [[path, ...]]}; the first file's sentence is the row's."""
    folders = {}
    for path in files:
        folder, name = os.path.split(path)
        if folder.split("/")[0] not in FOLDERS or not SOURCES.search(path):
            continue
        stem = name.rsplit(".", 1)[0] if name.endswith((".c", ".h")) else name
        folders.setdefault(folder, {}).setdefault(stem, []).append(path)
    order = sorted(folders, key=lambda folder: (FOLDERS.index(folder.split("/")[0]), folder))
    return {folder: [sorted(rows[stem], reverse=True) for stem in sorted(rows)] for folder, rows in
            ((folder, folders[folder]) for folder in order)}


def tables(root, errors):
    lines = []
    for folder, modules in modules_of(list_files(root)).items():
        lines += [f"### {folder}", "", "| file | what it is |", "|---|---|"]
        for paths in modules:
            with open(os.path.join(root, paths[0]), encoding="utf-8") as file:
                purpose = purpose_of(paths[0], file.read())
            if not purpose:
                errors.append(f"{paths[0]}:1: it does not begin with a sentence that says what it is")
                continue
            if len(purpose) > LONGEST:
                errors.append(f"{paths[0]}:1: its first sentence has {len(purpose)} characters, at most {LONGEST}")
            names = ", ".join(f"`{os.path.basename(path)}`" for path in sorted(paths))
            lines.append(f"| {names} | {purpose.replace('|', chr(92) + '|').replace('<', '&lt;')} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments):
    roots = [argument for argument in arguments if not argument.startswith("-")]
    root = roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    path = os.path.join(root, DOCUMENT)
    with open(path, encoding="utf-8") as file:
        before = file.read()
    if before.count(BEGIN) != 1 or before.count(END) != 1 or before.index(BEGIN) > before.index(END):
        print(f"{DOCUMENT}: the lines around the tables are not there: {BEGIN} {END}")
        return 1
    errors = []
    after = before.split(BEGIN)[0] + BEGIN + "\n\n" + tables(root, errors) + "\n" + END + before.split(END)[1]
    if "--check" not in arguments and after != before:
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)
    elif after != before:
        errors.append(f"{DOCUMENT}: its tables are not what the files say: run tools/file_table.py")
    print("\n".join(errors) if errors else f"{DOCUMENT} is what the files say")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
