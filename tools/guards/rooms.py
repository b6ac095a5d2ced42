"""Which room a file is of, as the guards count: a folder of the library, "driver/emulator" apart from driver/; None: none of it."""
from check_style import LIBRARY

EMULATOR = "driver/emulator"


def library_room(path):
    if path.startswith(EMULATOR + "/"):
        return EMULATOR
    room = path.split("/")[0]
    return room if room in LIBRARY and "/" in path else None
