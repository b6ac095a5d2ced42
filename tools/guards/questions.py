# SPDX-License-Identifier: MIT
"""How often the code asks "which mode am I in?".

A statement asks when it decides: it has if, while, a case, "?", "&&", "||", a comparison that is kept, or a return.
Each place in it that fits a pattern of a kind is one question of that kind.  Line breaks do not count, nor do assertions.
taskman and heap have no mode of submission to ask for; the emulated driver is a driver.
"""
import re

from guards.figures import Figures
from guards.rooms import library_room

APART = ("taskman", "heap", "emulator")
KINDS = {
    "submission": [r"GANTRY_SUBMISSION_", r"\bis_auto\b", r"\bround->way->(?!modes)", r"\bGY_WAY_"],
    "call_mode": [r"\bGY_MODE_\w+", r"\bgy_mode_is_noted\b", r"\bgy_mode_is_of_graph\b", r"\bgy_mode_notes\b", r"->mode\b"],
    "noted_or_direct": [r"->lane (?:==|!=) NULL"],
    "batch": [r"\bGY_STREAM_MEMBER\b", r"\bgy_batch_is_open\b", r"\bbatch\.state\b", r"\bby_lanes\b", r"\bbatch->state\b"],
    "behind_a_graph": [r"\bGY_STREAM_(?:BEHIND|PLAIN)\b", r"->behind\.end\b", r"->held\.(?:by|may_be|carries)\b"],
    "trust": [r"->trust\b", r"\bGY_TRUST_", r"\btells_refusals\b", r"\bgy_aside_may\b", r"->spoilt\b", r"\bgy_launch_is_aside\b", r"\bmay_lend\b",
              r"->refusals\b", r"\bgy_capture_was_refused\b"],
    "recording_of_a_unit": [r"round->recording\b", r"\brecording (?:==|!=) NULL", r"\bGY_UNIT_"],
    "loop_on_the_device": [r"->loop (?:==|!=) NULL", r"unit->loop\b", r"\bis_loop\b"],
    "pieces": [r"\bis_by_pieces\b", r"->plays\b", r"\bGY_PLAYS_", r"\bis_played\b", r"->kept (?:==|!=) NULL",
               r"\bis_later_part\b", r"\bis_rest\b"],
    "shares": [r"\bgy_shares_any\b", r"\bmeter (?:==|!=) NULL"],
    "fleet": [r"\bmember\.fleet\b", r"\bcrossing (?:==|!=) NULL", r"\bhas_peers\b", r"\bis_of_fleet\b", r"->members (?:==|!=) NULL"],
    "plan": [r"\bis_planned\b", r"\bmay_borrow\b"],
    "synchronous": [r"\bdevice_wide\b", r"\bconfig\.synchronous\b", r"->single\b"],
    "guest": [r"\bguest (?:==|!=) NULL", r"\bgy_guest_current\b"],
    "profile": [r"\bgy_span_on\b", r"\bgy_profile_generation\(\) (?:==|!=)", r"\bmark (?:==|!=) NULL", r"\bgy_cta_is_ready\b"],
    "driver_can": [r"\bt->notes\b", r"\bare_told\b", r"driver->log\b", r"\bgy_lanes_may_wait\b"],
    "lost_or_closing": [r"\bis_lost\b", r"\bclosing\b"],
}
DECIDES = re.compile(r"\bif\b|\bwhile\b|\?|&&|\|\||\breturn\b|\bcase\b|=.*(?:==|!=)|\bbool \w+ =", re.S)
ANY = re.compile("|".join(pattern for patterns in KINDS.values() for pattern in patterns))
STATEMENT = re.compile(r"[^;{}]+")


def count(files):
    """One figure for each kind, and `all`."""
    figures = Figures()
    unused = {(kind, pattern) for kind, patterns in KINDS.items() for pattern in patterns}
    for kind in (*KINDS, "all"):
        figures.add(kind, None, 0)
    for path, code in files.code(lambda path: library_room(path) not in (None, *APART)):
        unused = {(kind, pattern) for kind, pattern in unused if not re.search(pattern, code)}
        for statement in STATEMENT.findall(code):
            if not ANY.search(statement) or not DECIDES.search(statement) or "assert" in statement:
                continue
            for kind, patterns in KINDS.items():
                asked = len(re.findall("|".join(patterns), statement))
                figures.add(kind, path, asked)
                figures.add("all", path, asked)
    figures.stale = [f"tools/guards/questions.py: {kind}: nothing is called {pattern!r} any more: write its new name, or take it out"
                     for kind, pattern in sorted(unused)]
    return figures
