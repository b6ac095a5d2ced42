# SPDX-License-Identifier: MIT
"""Lines of code of each room: without blank lines and without those that are comments alone.

`library` is their sum without the command and the libraries of their own: the emulated driver, the proof and the limit.  `comments` is what the library has of comments: lines with one, per 100
lines of code; of that there may be more, not less.
"""
from check_style import code_of
from guards.figures import Figures
from guards.rooms import OF_THEIR_OWN, library_room
from spdx import without


def room_of(path):
    room = library_room(path)
    return room or {"cli": "command", "limit": "limit"}.get(path.split("/")[0])


def count(files):
    figures = Figures()
    code_lines = comment_lines = 0
    for path, text in files.items():
        room = room_of(path)
        if not path.endswith((".c", ".h")) or room is None:
            continue
        text = without(text)  # the line with the licence is no comment
        code = code_of(text).split("\n")
        mine = sum(1 for line in code if line.strip())
        figures.add(room, path, mine)
        if room not in OF_THEIR_OWN + ("command",):
            figures.add("library", path, mine)
            code_lines += mine
            comment_lines += sum(1 for line, rest in zip(text.split("\n"), code) if line.strip() and (not rest.strip() or "/*" in line))
    figures["comments"] = round(100 * comment_lines / max(1, code_lines))
    return figures
