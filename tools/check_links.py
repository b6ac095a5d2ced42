#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check what calls what, as the linker sees it: no circles, no arrow to a room above, no name that nobody else uses.

Usage: check_links.py [--nm NM] [--edges] ROOT OBJECT...

The objects are those of one library, each in a path with the source's own ("…/lib.dir/taskman/edges.c.o"), or a
file "@list" that names them, one in a line or with ";" between them.  An object that takes a symbol from another is
an arrow.  A function that a client.h declares is a seam: the room asks for it, and whoever uses the room defines it;
the arrow goes from there to the room like all others.  A gy_ name that no other file of the library uses should be
static, or go, unless TESTS_ONLY has it.  Prints a line for each circle that is not permitted, each
permitted one that is gone, and each arrow up; the exit status is 1 then.  With --edges also every arrow between files.
"""
import collections
import fnmatch
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_style import LIBRARY, may_use, room_of  # noqa: E402

# Circles that there still are: patterns that match the files of each.  A room without any needs no line.
PERMITTED = []
# Checks of state: tests plant mistakes for them, and a release build has no assertions that would use them.
CHECKS = re.compile(r"_(is|are)_valid$")
# Names that no file of the library uses but the one that defines them, for tests.
TESTS_ONLY = {
    "gy_alloc_live",  # what a test has left behind
    "gy_bandwidth_allowance", "gy_bandwidth_sleepers",  # what the gate does at the moment
    "gy_budget_count",  # accounts under the process's limit
    "gy_caches_domain", "gy_caches_from_sysfs",  # of machines that are described in files
    "gy_graphs_close_gate", "gy_graphs_open_gate",  # captures without a device
    "gy_log_enabled",  # levels
    "gy_split_by_count",  # against the driver's
    "gy_profile_add_gpu",  # a trace without a device
    "gy_task_state_may_go",  # each pair of states
}
MOST_OF_A_SEAM = 4  # functions that one client.h may declare


def source_of(obj, root):
    """The path of the object's source, from ROOT; None: it is none of a core room's."""
    parts = obj.split("/")
    for start in range(len(parts)):
        path = "/".join(parts[start:])[:-len(".o")]
        if parts[start] in LIBRARY and os.path.isfile(os.path.join(root, path)):
            return path
    return None


def symbols_of(nm, objects):
    """{object: (defined, undefined)}"""
    output = subprocess.run([nm, "-A", *objects], check=True, capture_output=True, text=True).stdout
    found = {obj: (set(), set()) for obj in objects}
    for line in output.splitlines():
        match = re.match(r"(.*?):\s*(?:[0-9a-fA-F-]+)?\s+([A-Za-z?-])\s+(\S+)$", line)
        if not match:
            continue
        kind, name = match.group(2), match.group(3)
        if kind == "U":
            found[match.group(1)][1].add(name)
        elif kind in "TDBRVWCGS":
            found[match.group(1)][0].add(name)
    return found


def seams_of(root):
    """{function: room} for every function that a client.h declares."""
    seams = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in (".git", "build", "out", "tests")]
        if "client.h" in names:
            path = os.path.relpath(os.path.join(folder, "client.h"), root)
            if path.split("/")[0] in LIBRARY:
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    code = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
                for name in re.findall(r"^\w[\w \*]*?\b(gy_\w+)\s*\([^;{]*\);", code, re.M):
                    seams[name] = room_of(path)
    return seams


def circles_of(arrows):
    """The strongly connected sets of more than one file, each sorted (Tarjan)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []
    sys.setrecursionlimit(10000)

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        on_stack.add(node)
        for target in sorted(arrows[node]):
            if target not in number:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on_stack:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            circle = []
            while True:
                last = stack.pop()
                on_stack.discard(last)
                circle.append(last)
                if last == node:
                    break
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(arrows):
        if node not in number:
            visit(node)
    return sorted(found)


def arrows_of(symbols, seams):
    """{file: {file: [symbol, ...]}}, and the seams' functions by who defines them."""
    defined_by, definers = {}, collections.defaultdict(set)
    for path, (defined, _) in symbols.items():
        for name in defined:
            defined_by[name] = path
            if name in seams:
                definers[name].add(path)
    arrows = {path: collections.defaultdict(list) for path in symbols}
    for path, (_, undefined) in symbols.items():
        for name in sorted(undefined):
            target = defined_by.get(name)
            if target and target != path and not (name in seams and room_of(path) == seams[name]):
                arrows[path][target].append(name)
    return arrows, definers


def find_unused(symbols, tests_only):
    """Complaints about names that could be static, and about permissions for names that are used."""
    users = collections.defaultdict(set)
    for path, (_, undefined) in symbols.items():
        for name in undefined:
            users[name].add(path)
    complaints = []
    for path, (defined, _) in sorted(symbols.items()):
        for name in sorted(defined):
            if name.startswith("gy_") and not users[name] and name not in tests_only and not CHECKS.search(name):
                complaints.append(f"{path}: no other file uses {name}: make it static, or remove it")
            elif users[name] and name in tests_only:
                complaints.append(f"{path}: {name} is for tests only, but {sorted(users[name])[0]} uses it")
    return complaints


def check(symbols, seams, permitted):
    """The complaints, as lines."""
    complaints = []
    arrows, definers = arrows_of(symbols, seams)
    circles = circles_of(arrows)
    used = [False] * len(permitted)
    for circle in circles:
        fitting = [i for i, patterns in enumerate(permitted)
                   if all(any(fnmatch.fnmatch(path, pattern) for pattern in patterns) for path in circle)]
        for i in fitting:
            used[i] = True
        if not fitting:
            inside = sum(len([t for t in arrows[f] if t in circle]) for f in circle)
            complaints.append(f"circle of {len(circle)} files, {inside} arrows: {' '.join(circle)}")
    for patterns, is_used in zip(permitted, used):
        if not is_used:
            complaints.append(f"permitted, but there is no such circle any more: {' '.join(patterns)}")
    for path in sorted(arrows):
        for target in sorted(arrows[path]):
            if not may_use(room_of(path), room_of(target)):
                complaints.append(f"arrow up: {path} -> {target}: {' '.join(arrows[path][target])}")
    counts = collections.Counter(seams.values())
    for room, count in counts.items():
        if count > MOST_OF_A_SEAM:
            complaints.append(f"{room}/client.h declares {count} functions, at most {MOST_OF_A_SEAM}")
    for name, room in sorted(seams.items()):
        if len(definers[name]) != 1 or any(room_of(path) == room for path in definers[name]):
            complaints.append(f"{room}/client.h: {name}() is defined by {sorted(definers[name])}, not by one client")
    return complaints, arrows, circles


def main(arguments):
    nm = arguments[arguments.index("--nm") + 1] if "--nm" in arguments else "nm"
    rest = [a for i, a in enumerate(arguments) if not a.startswith("--") and (i == 0 or arguments[i - 1] != "--nm")]
    root, objects = rest[0], []
    for argument in rest[1:]:
        if argument.startswith("@"):
            with open(argument[1:], encoding="utf-8") as file:
                objects += [name for name in re.split(r"[;\n]", file.read()) if name]
        else:
            objects.append(argument)
    sources = {obj: source_of(obj, root) for obj in objects}
    mine = [obj for obj in objects if sources[obj] and not sources[obj].startswith("emulator/")]
    if not mine:
        print("no object of the library among them")
        return 1
    symbols = {sources[obj]: found for obj, found in symbols_of(nm, mine).items()}
    complaints, arrows, circles = check(symbols, seams_of(root), PERMITTED)
    complaints += find_unused(symbols, TESTS_ONLY)
    if "--edges" in arguments:
        for path in sorted(arrows):
            for target in sorted(arrows[path]):
                print(f"{path} -> {target}: {' '.join(arrows[path][target])}")
    for complaint in complaints:
        print(complaint)
    print(f"{len(symbols)} files, {sum(len(targets) for targets in arrows.values())} arrows, {len(circles)} circles, "
          f"{len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
