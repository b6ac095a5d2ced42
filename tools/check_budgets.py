#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that nothing grows of which there is to be less: questions, structs, headers, lines, kinds, words, circles.

Usage: check_budgets.py [--lower] [--nm NM] [--objects NAME=@LIST]... ROOT [GUARD...]

A guard (tools/guards/) counts something in the sources below ROOT or, the guard "circles", in the objects of a library or a
program.  tests/style/budgets.toml has the most that each figure may be.  A figure above its budget is an error that names
the files that grew since the commit that last changed the budgets.  A figure below it is one, too, and the line to write
is printed, so that budgets go down; of lines of code that is no error.  --lower writes these lines.  Without a GUARD all are
counted that need no objects.
"""
import argparse
import os
import re
import sys
import tomllib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from guards import circles, includes, kinds, lines, questions, structs, tree, words  # noqa: E402
from guards.figures import Files  # noqa: E402

BUDGETS = "tests/style/budgets.toml"
GUARDS = {"questions": questions, "structs": structs, "headers": includes, "lines": lines, "kinds": kinds, "words": words}
MAY_BE_BELOW = ("lines", "path.", "words")  # what is measured at run time, and where each commit that removes a line would have to write one
FLOORS = {("lines", "comments")}  # of these there may be more, not less
MOST_NAMED = 6


def grown(name, figures, before):
    """The files that add more to the figure than before, or where that is not known, those that add most."""
    if before is not None:
        more = {path: number - before.parts[name][path] for path, number in figures.parts[name].items() if number > before.parts[name][path]}
        if more:
            named = sorted(more.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
            return "grown: " + ", ".join(f"{path} by {number}" for path, number in named)
    most = figures.parts[name].most_common(MOST_NAMED)
    return "most: " + ", ".join(f"{path} {number}" for path, number in most) if most else "no file adds to it"


def compare(guard, figures, budgets, read_before=lambda: None, noise=None):
    """(errors, notes, budgets that can be lower); what is off by no more than its part in `noise` is as its budget."""
    errors, notes, lower = list(figures.stale), [], {}
    for name in sorted(set(budgets) - set(figures)):
        errors.append(f"{guard}: there is no {name} any more: take it out of {BUDGETS}")
        lower[name] = None
    for name, value in figures.items():
        sign = -1 if (guard, name) in FLOORS else 1
        if name not in budgets:
            errors.append(f"{guard}: {name} is {value} and has no budget: {grown(name, figures, read_before())}")
            continue
        above = sign * (value - budgets[name])
        if abs(above) <= budgets[name] * (noise or {}).get(name, 0):
            continue
        if above > 0:
            errors.append(f"{guard}: {name} is {value}, at {'least' if sign < 0 else 'most'} {budgets[name]}: {grown(name, figures, read_before())}")
        elif sign > 0:
            (notes if guard.startswith(MAY_BE_BELOW) else errors).append(f"{guard}: {name} is less than its budget: write {name} = {value} for {budgets[name]}")
            lower[name] = value
    return errors, notes, lower


def write_lower(path, guard, lower):
    """Change the lines of the guard's table, and nothing else."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    start = re.search(rf"^\[{guard}\]\n", text, re.M).end()
    end = re.search(r"^\[|\Z", text[start:], re.M).start() + start
    table = text[start:end]
    for name, value in lower.items():
        line = "" if value is None else rf"{name} = {value}\g<1>\n"
        table = re.sub(rf"^{name} = \d+([^\n]*)\n", line, table, flags=re.M)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:start] + table + text[end:])


def check_sources(root, wanted, budgets, is_lowering):
    files, before = Files(tree.read_folder(root)), []

    def read_before(guard):
        if not before:
            before.append(tree.read_commit_of(root, BUDGETS))
        return None if before[0] is None else GUARDS[guard].count(Files(before[0]))

    errors = []
    for guard in wanted:
        figures = GUARDS[guard].count(files)
        wrong, notes, lower = compare(guard, figures, budgets.get(guard, {}), lambda guard=guard: read_before(guard))
        if is_lowering and lower:
            write_lower(os.path.join(root, BUDGETS), guard, lower)
            wrong = [line for line in wrong if not re.search(": take it out of|is less than its budget", line)]
        errors += wrong
        print("\n".join(wrong + notes + [f"{guard}: " + ", ".join(f"{name} {value}" for name, value in figures.items())]))
    return errors


def main():
    parser = argparse.ArgumentParser(description="Check figures against their budgets.")
    parser.add_argument("--lower", action="store_true", help="write lower budgets where figures are below them")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--objects", action="append", default=[], metavar="NAME=@LIST")
    parser.add_argument("root")
    parser.add_argument("guard", nargs="*", choices=[*GUARDS, "circles", []])
    options = parser.parse_args()
    with open(os.path.join(options.root, BUDGETS), "rb") as file:
        budgets = tomllib.load(file)
    wanted = options.guard or list(GUARDS)
    errors = check_sources(options.root, [guard for guard in wanted if guard in GUARDS], budgets, options.lower)
    if "circles" in wanted:
        errors += circles.check(options.root, options.nm, options.objects, budgets.get("circles", {}))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
