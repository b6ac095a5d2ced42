#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write docs/reference/functions.md: a line for each public function, from the comments in the headers.

Usage: function_table.py [--check] [ROOT]

A function is described by the first sentence of the comment in front of it; functions that are declared in a row behind one
comment share it.  With --check nothing is written; the exit status is 1 when the document is not what would be written, or
when a function has no description.  Run it after changing a public header.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from file_table import purpose_of  # noqa: E402

DOCUMENT = "docs/reference/functions.md"
HEAD = """# Functions

Each public function, by its header, with the first sentence of its description. The headers have the rest: arguments, statuses, threads.
This page is made of them by `tools/function_table.py`.
"""
# A comment of the documentation, or a function: what the library exports, or what a header defines itself.
PIECE = re.compile(r"(?ms)/\*\*(?P<comment>.*?)\*/|^(?:GANTRY_API|static inline)\b[^;{]*?\b(?P<function>gantry_\w+)\s*\(.*?(?:;|\n\})|"
                   r"^(?P<other>typedef|struct|enum|#define)\b")
END = re.compile(r"\.? @\w|\. (?=`|gantry_)")  # of a sentence, where the next one begins without a capital letter


def functions_of(header):
    """[(function, its sentence; "": it has none)] of a header."""
    found, sentence = [], ""
    for piece in PIECE.finditer(header):
        if piece["comment"] is not None:
            sentence = END.split(purpose_of("x.h", f"/**{piece['comment']}*/"))[0]
        elif piece["function"]:
            if sentence or piece[0].startswith("GANTRY_API"):  # an inline function without a comment is part of a macro
                found.append((piece["function"], sentence))
        else:
            sentence = ""
    return found


def page(root, errors):
    lines = [HEAD]
    for path in sorted((root / "include/gantry").glob("**/*.h")):
        name = path.relative_to(root / "include").as_posix()
        functions = functions_of(path.read_text(encoding="utf-8"))
        if functions:
            lines += [f"## {name}", "", f"[{name}](../../include/{name})", "", "| function | what it does |", "|---|---|"]
        for function, sentence in functions:
            if not sentence:
                errors.append(f"{path}: {function} has no description")
            lines.append(f"| `{function}()` | {sentence.replace('|', chr(92) + '|').replace('<', '&lt;')} |")
        lines += [""] if functions else []
    return "\n".join(lines)


def main(arguments):
    roots = [argument for argument in arguments if not argument.startswith("-")]
    root = pathlib.Path(roots[0]) if roots else pathlib.Path(__file__).resolve().parent.parent
    errors, document = [], root / DOCUMENT
    after = page(root, errors)
    if "--check" not in arguments:
        document.write_text(after, encoding="utf-8")
    elif not document.exists() or document.read_text(encoding="utf-8") != after:
        errors.append(f"{DOCUMENT}: it is not what the headers say: run tools/function_table.py")
    print("\n".join(errors) if errors else f"{DOCUMENT} is what the headers say")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
