# SPDX-License-Identifier: MIT
"""Circles among the files of the emulated driver and of the command, as the linker sees them (tools/check_links.py).

The library has none.  Where there still is one, its budget is the list of its files and how many arrows lie among them: no file
comes in, and what goes out stays out.  Two circles count as one.
"""
import re

import check_links


def read_objects(argument):
    """NAME=@LIST or NAME=OBJECT,OBJECT..., as (name, [object, ...])."""
    name, _, rest = argument.partition("=")
    if rest.startswith("@"):
        with open(rest[1:], encoding="utf-8") as file:
            rest = file.read()
    return name, [path for path in re.split(r"[;,\n]", rest) if path]


def source_of(obj):
    """What is behind the folder of the target: "a.c" of "…/x.dir/a.c.o", "base/b.c" of "…/x.dir/__/__/base/b.c.o"."""
    return re.sub(r"^(\./)?(__/)*", "", obj.split(".dir/", 1)[-1])[:-len(".o")]


def arrows_among(symbols):
    arrows, _ = check_links.arrows_of(symbols, {})
    return arrows


def compare(name, arrows, budget):
    """Complaints about what is in a circle."""
    circle_of = {path: circle for circle in check_links.circles_of(arrows) for path in circle}
    circle = sorted(circle_of)
    inside = {path: {target: names for target, names in arrows[path].items() if target in circle_of[path]} for path in circle}
    count, permitted = sum(len(targets) for targets in inside.values()), budget.get(name, [])
    complaints = []
    for path in circle:
        if path not in permitted:
            uses = ", ".join(f"{target} ({names[0]})" for target, names in sorted(inside[path].items()))
            users = ", ".join(other for other in circle if path in inside[other])
            complaints.append(f"circles: {path} is in a circle of the {name} now: it uses {uses} and is used by {users}")
    for path in permitted:
        if path not in circle:
            complaints.append(f"circles: {path} is in no circle of the {name} any more: take it out of {name} = [...]")
    most = budget.get(f"{name}_arrows", 0)
    if count > most:
        complaints.append(f"circles: {name}_arrows is {count}, at most {most}: {' '.join(circle)}")
    elif count < most:
        complaints.append(f"circles: {name}_arrows is less than its budget: write {name}_arrows = {count} for {most}")
    return complaints, f"circles: {name}: {len(circle)} of {len(arrows)} files, {count} arrows"


def check(root, nm, arguments, budget):
    """Prints what is wrong and the figures; returns the complaints."""
    complaints = []
    for argument in arguments:
        name, objects = read_objects(argument)
        sources = {obj: source_of(obj) for obj in objects}
        symbols = {sources[obj]: found for obj, found in check_links.symbols_of(nm, objects).items()}
        found, figures = compare(name, arrows_among(symbols), budget)
        complaints += found
        print("\n".join([*found, figures]))
    return complaints
