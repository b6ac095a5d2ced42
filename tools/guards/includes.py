# SPDX-License-Identifier: MIT
"""How many headers of ours each header of the library pulls in, directly and through others.

Figures: `above_40`, how many headers pull more than MOST, and `largest`, what the one that pulls most does.
"""
import re

from guards.figures import Figures
from guards.rooms import library_room

MOST = 40
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)


def pulled_by(files):
    """{header: set of headers}"""
    direct = {}
    for path, text in files.items():
        if path.endswith(".h"):
            named = INCLUDE.findall(text)
            direct[path] = [full for name in named for full in (name, "include/" + name) if full in files]
    pulled = {}
    for header in direct:
        seen, left = set(), list(direct[header])
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += direct.get(name, [])
        pulled[header] = seen - {header}
    return pulled


def count(files):
    figures = Figures()
    figures.add(f"above_{MOST}", None, 0)
    for header, pulled in pulled_by(files).items():
        if library_room(header):
            figures.add(f"above_{MOST}", header if len(pulled) > MOST else None, int(len(pulled) > MOST))
            figures.put_largest("largest", header, len(pulled))
    return figures
