# SPDX-License-Identifier: MIT
"""Which room a file is of, as the guards count: a folder of the library, or the emulated driver's; None: none of it."""
from check_style import LIBRARY

OF_THEIR_OWN = ("emulator", "proof", "limit")  # libraries beside the library


def library_room(path):
    room = path.split("/")[0]
    return room if room in LIBRARY and "/" in path else None
