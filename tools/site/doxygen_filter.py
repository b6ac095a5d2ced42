#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What Doxygen reads of a public header: the same lines, with the comments of this tree turned into Doxygen's.

Usage: doxygen_filter.py HEADER

A comment behind a member, an enumerator or a macro describes it, also behind the last line of a macro of several.  A comment between members describes the next one.  What
every option struct has (struct_size, reserved, ..._INIT) is described here once.
"""
import pathlib
import re
import sys

STRUCT_SIZE = "sizeof of this struct; 0 is refused.  It tells the library how many fields the caller knows."
BEHIND = re.compile(r"^(\s*(?:\*\w|[^\s/*#])[^\n]*?(?:[,;{]|= \d+)\s+|#define [^\n]*?\S\s+)/\* (?!-)")
BEHIND_LAST = re.compile(r"^(\s*[^\n]*?\S\s+)/\* (?!-)")  # of a macro's last line, when it has several


def member_comments(lines):
    """Comments behind a line of code, and on lines of their own within braces, become Doxygen's."""
    depth, continued = 0, False
    for number, line in enumerate(lines):
        code = re.sub(r"/\*.*?(\*/|$)", "", line)
        goes_on = line.endswith("\\")
        if not continued or not goes_on:
            line = (BEHIND_LAST if continued else BEHIND).sub(r"\1/**< ", line)
        continued = goes_on and (continued or line.startswith("#define "))
        if depth > 0:
            line = re.sub(r"^(\s+)/\* (?!-)", r"\1/** ", line)
            line = re.sub(r"^(\s+size_t struct_size;)$", rf"\1 /**< {STRUCT_SIZE} */", line)
            line = re.sub(r"^(\s+uint\d+_t reserved\w*(\[\d+\])?;)$", r"\1 /**< 0; for later versions */", line)
        if not line.startswith("#"):
            depth += code.count("{") - code.count("}")
        lines[number] = several_names(line)
    return lines


def several_names(line):
    """Members declared together have a comment each."""
    match = re.match(r"(\s+\w+ )(\w+(?:, \w+)+);(\s+/\*\*<.*\*/)$", line)
    return " ".join(f"{match[1].strip()} {name};{match[3].strip()}" for name in match[2].split(", ")) if match else line


def macros(lines):
    """The initialisers of structs, none of which has a comment of its own."""
    for number, line in enumerate(lines):
        match = re.match(r"#define GANTRY_(\w+)_INIT\b", line)
        if match and not lines[number - 1].rstrip().endswith("*/"):
            lines[number] = f"/** An initialiser with the defaults of gantry_{match[1].lower()}. */ {line}"
    return lines


def statuses(lines):
    """The enumerators of gantry_status, written out: Doxygen would need to run the macro that makes them."""
    declared = re.findall(r'X\((\w+), (-?\d+), "([^"]+)"\)', "\n".join(lines))
    for number, line in enumerate(lines):
        if line == "typedef enum gantry_status {":
            lines[number] = "/** How a call ended; gantry_last_error() says more. */ " + line
            lines[number + 1:number + 4] = [" ".join(f"GANTRY_{name} = {value}, /**< {text} */" for name, value, text in declared), "", ""]
    return lines


def several_statuses(text):
    """Several statuses become one word, as Doxygen wants behind @retval."""
    return re.sub(r"@retval (GANTRY_\w+(?:, GANTRY_\w+)+)",
                  lambda match: f"@retval {match[1].replace(', ', ',')}", text)


def main(header):
    text = pathlib.Path(header).read_text()
    if "kernel" in pathlib.Path(header).name:  # for kernels, which are C++
        text = text.replace("#ifdef __cplusplus\n", "#if 1\n")
    sys.stdout.write(several_statuses("\n".join(statuses(macros(member_comments(text.split("\n")))))))


if __name__ == "__main__":
    main(*sys.argv[1:])
