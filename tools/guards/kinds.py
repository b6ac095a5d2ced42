# SPDX-License-Identifier: MIT
"""How many kinds of things there are of which each costs everybody who reads: threads, lock ranks, variables.

`threads` are the rows of the table of threads in docs/design/threading.md, without those of libraries of their own; `thread_starts` the
calls that start one; `ranks` the ranks of locks in base/thread.h; `thread_local` the variables that each thread has of its
own; `variables` those of the environment that docs/reference/environment.md documents.  Those of the emulated driver are in the
last only.
"""
import re

from guards.figures import Figures
from guards.rooms import OF_THEIR_OWN, library_room

OWN_LIBRARY = re.compile(r"\| `libgantry-\w+\.so` \|")  # the owner of a thread
THREADS, RANKS, VARIABLES = "docs/design/threading.md", "base/thread.h", "docs/reference/environment.md"


def rows_of(text, heading):
    """The first cells of the table that begins with `heading`, over all such tables, but of rows that name a library of its own."""
    cells, is_inside = [], False
    for line in text.split("\n"):
        first = line.split("|")[1].strip() if line.startswith("|") else None
        if first is None:
            is_inside = False
        elif first == heading:
            is_inside = True
        elif is_inside and not set(first) <= set("-: ") and not OWN_LIBRARY.search(line):
            cells.append(first)
    return cells


def count(files):
    figures = Figures()
    figures.add("threads", THREADS, len(rows_of(files.get(THREADS, ""), "thread")))
    variables = {name for cell in rows_of(files.get(VARIABLES, ""), "variable") for name in re.findall(r"`([A-Z]\w+)", cell)}
    figures.add("variables", VARIABLES, len(variables))
    figures.add("ranks", RANKS, 0)
    for name in ("thread_starts", "thread_local"):
        figures.add(name, None, 0)
    for path, code in files.code(lambda path: library_room(path) not in (None, *OF_THEIR_OWN)):
        if path == RANKS:
            figures.add("ranks", path, len(re.findall(r"^\s*GY_RANK_\w+", code, re.M)))
        figures.add("thread_starts", path, len(re.findall(r"(?<!gantry_status )\bgy_thread_start\(", code)))
        figures.add("thread_local", path, len(re.findall(r"^\s*(?:static )?_Thread_local\b", code, re.M)))
    return figures
