#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare what two drivers said to the same sequences of calls (ask.h says what a record looks like).

Usage: compare.py [--all] DEVICE EMULATED     records (a folder with record.*, also compressed) or expectations (a file)
       compare.py --keep DEVICE EMULATED FILE make expectations of a device's records.  Differences that nothing excuses
                                              are left out of them, and counted
       compare.py --replay PROGRAM FILE       run the program, and compare with expectations: the test
       compare.py --check-table ROOT          docs/design/driver.md has the table of excused.toml

A difference is excused by a line of excused.toml.  Behind one that changes what later calls find, the rest of its sequence
is not compared.  The exit status is 1 when there is a difference that no line excuses, or a line that excuses none.
"""
import argparse
import collections
import glob
import gzip
import json
import lzma
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ROOMS = ["base", "context", "copykernel", "dispatcher", "driver", "fleet", "heap", "limit", "partition", "profile",
         "taskman", "torch", "work", "proof"]
MOST_EXCUSES = 60
# They change nothing: one more or less of them that succeeds leaves the rest of a sequence as it was.
HARMLESS = re.compile(r"(Get|Is|Query|Elapsed|CanAccess|Occupancy|Init$|Granularity|DevSm|DevResource)")


# The driver's words for "no": they matter only where the library compares with them.
GENERIC = {"ERROR_INVALID_VALUE", "ERROR_INVALID_HANDLE", "ERROR_UNKNOWN"}
ANY_CAPTURE = re.compile(r">=\s*CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")


class Branches:
    """The results that the library tells from other failures: what it compares one with, and what captures do."""

    def __init__(self, root):
        results = (root / "driver/cuda_results.h").read_text()
        values = dict(re.findall(r"X\((\w+), (\d+),", results))
        self.everywhere, self.after = set(), collections.defaultdict(set)
        for room in ROOMS:
            for path in sorted((root / room).rglob("*.[ch]")):
                text = path.read_text()
                names = set(re.findall(r"(?:==|!=|\bcase)\s*(?:\(int\))?CUDA_(ERROR_\w+)", text))
                if ANY_CAPTURE.search(text):
                    names |= set(re.findall(r"X\((ERROR_(?:STREAM_CAPTURE|CAPTURED)\w+)", results))
                self.everywhere |= {values[name] for name in names - GENERIC}
                for name in names & GENERIC:
                    self.after[values[name]] |= calls_in(path)

    def kind(self, entry, code):
        """What the library sees of an answer."""
        is_told = code in ("0", "-", None) or code in self.everywhere or "cu" + entry in self.after.get(code, ())
        return code if is_told else "E"


def calls_in(path):
    """The entries that a file calls; where it calls none, those of its folder."""
    calls = set(re.findall(r"\b(cu[A-Z]\w+)\(", path.read_text()))
    if not calls:
        for other in path.parent.glob("*.[ch]"):
            calls |= set(re.findall(r"\b(cu[A-Z]\w+)\(", other.read_text()))
    return calls


class Call:
    """One line: what was asked, and what was said."""
    __slots__ = ("entry", "shape", "code", "statuses", "note")

    def __init__(self, entry, shape, code, statuses, note):
        self.entry, self.shape, self.code, self.statuses, self.note = entry, shape, code, statuses, note

    @staticmethod
    def of_line(line):
        words = line.split(" ")
        code, statuses, note = words[2] if len(words) > 2 else None, "", ""
        for word in words[3:]:
            if word.startswith("="):
                note += word
            else:
                statuses = word
        return Call(words[0], words[1] if len(words) > 1 else "", code, statuses, note)


def cut(lines):
    """The lines up to the end of a capture into a graph of the program's that fails: what the graph is then is undefined."""
    into = set()
    for i, line in enumerate(lines):
        call = Call.of_line(line)
        stream = re.search(r"\bs([0-3])\b", call.shape)
        if call.entry == "StreamBeginCaptureToGraph" and call.code == "0":
            into.add(stream[1])
        elif call.entry == "StreamEndCapture" and stream and stream[1] in into and call.code not in ("401", "906", "-"):
            if call.code != "0":
                return lines[:i + 1]
            into.discard(stream[1])
    return lines


def texts(folder):
    packed = os.path.join(folder, "records.tar")
    if os.path.exists(packed):
        with tarfile.open(packed) as archive:
            for member in archive:
                if member.isfile():
                    yield gzip.decompress(archive.extractfile(member).read()).decode(errors="replace")
        return
    for path in sorted(glob.glob(os.path.join(folder, "record.*"))):
        with gzip.open(path, "rt") if path.endswith(".gz") else open(path, errors="replace") as file:
            yield file.read()


def read_records(folder):
    """{number of the sequence: its lines}"""
    sequences = {}
    for text in texts(folder):
        for part in ("\n" + text).split("\n# ")[1:]:
            number, *lines = part.rstrip("\n").split("\n")
            sequences[int(number)] = cut(lines)
    return sequences


# ---- expectations: answers alone, as the calls are the same for the same seed ----

def brief(note):
    """A note in four digits: enough to see that it differs."""
    return f"{zlib.crc32(note.encode()) & 0xffff:04x}" if note else ""


def answer_of(call):
    return (call.code or "!") + ("_" + call.statuses if call.statuses else "") + ("=" + brief(call.note) if call.note else "")


def asked(lines):
    """A checksum of what was asked."""
    return zlib.crc32("\n".join(" ".join(line.split(" ", 2)[:2]) for line in lines).encode())


def keep(folder, emulated, path, about, excuses):
    comparison = compare(folder, emulated, excuses)
    left_out = collections.defaultdict(dict)  # sequence -> {line: the rest is as it was}
    for (entry, *_), places in comparison.found.items():
        for sequence, line, _ in places:
            left_out[sequence][line] = bool(HARMLESS.search(entry))
    about.update(alike=sorted(comparison.alike), left_out=sum(map(len, left_out.values())))
    text = [json.dumps(about)]
    begin, end = map(int, about["sequences"].split("-"))
    for number, lines in sorted(read_records(folder).items()):
        if not begin <= number < end:
            continue
        answers = []
        for i, line in enumerate(lines[:comparison.ended.get(number, -1) + 1]):
            if not left_out[number].get(i, True):
                break  # what comes behind it follows from it
            answers.append("?" if i in left_out[number] else answer_of(Call.of_line(line)))
        text.append(f"{number} {asked(lines[:len(answers)]):08x} " + " ".join(answers))
    packed = lzma.compress("\n".join(text).encode(), preset=9 | lzma.PRESET_EXTREME)
    pathlib.Path(path).write_bytes(packed)
    print(f"{path}: {len(text) - 1} sequences, {len(packed)} bytes, {about['left_out']} differences left out")


def read_expectations(path):
    head, *lines = lzma.decompress(pathlib.Path(path).read_bytes()).decode().split("\n")
    sequences = {}
    for line in lines:
        number, checksum, *answers = line.split(" ")
        sequences[int(number)] = (checksum, answers)
    return json.loads(head), sequences


def expected_calls(lines, expected):
    """The expectations of one sequence as calls, which have the shapes of the others'."""
    checksum, answers = expected
    calls = []
    for i, answer in enumerate(answers):
        entry, shape = (lines[i].split(" ", 2) + ["", ""])[:2] if i < len(lines) else ("?", "?")
        code, _, note = answer.partition("=")
        code, _, statuses = code.partition("_")
        calls.append(Call(entry, shape, None if code == "!" else code, statuses, note))
    return calls


# ---- comparing ----

class Comparison:
    def __init__(self, branches, excuses, same):
        """same: (entry, device's code, emulated one) that mean the same to the library, if these alone are allowed"""
        self.branches, self.excuses, self.same = branches, excuses, same
        self.alike = set()
        self.used = collections.Counter()
        self.found = collections.defaultdict(list)  # (entry, device's answer, emulated) -> [(sequence, line, shape)]
        self.compared = self.all = 0
        self.ended = {}  # sequence -> the line behind which nothing is compared

    def is_alike(self, entry, one, two):
        if one == two:
            return True
        self.alike.add((entry, one, two))
        is_known = self.same is None or (entry, one, two) in self.same
        return is_known and self.branches.kind(entry, one) == self.branches.kind(entry, two)

    def excuse(self, entry, shape, device, emulated):
        for number, excuse in enumerate(self.excuses):
            if (re.fullmatch(excuse["entry"], entry) and re.search(excuse.get("shape", ""), shape) and
                    re.fullmatch(excuse["device"], device) and re.fullmatch(excuse["emulated"], emulated)):
                self.used[number] += 1
                return True
        return False

    def differs(self, sequence, line, call, device, emulated):
        if not self.excuse(call.entry, call.shape, device, emulated):
            self.found[call.entry, device, emulated].append((sequence, line, call.shape))

    def sequence(self, number, device, emulated, is_brief):
        """Compares until what one of them did differs for the rest."""
        self.all += len(device)
        has_unasked = False
        for i, (one, two) in enumerate(zip(device, emulated)):
            self.ended[number] = i
            if one.code is None or one.code[0] in "XHL" or two.code is None:
                return
            if one.code == "?":
                continue
            if "~" in (one.code, two.code):
                has_unasked = True
            if (one.entry, one.shape) != (two.entry, two.shape):
                if has_unasked:  # what comes behind a call depends on what it says
                    return
                self.found[one.entry, "asked", two.entry].append((number, i, f"{one.shape} | {two.shape}"))
                return
            self.compared += 1
            if not self.call(number, i, one, two, is_brief):
                return
        self.ended[number] = len(device)

    def call(self, number, line, one, two, is_brief):
        """False: the rest cannot be compared."""
        if "~" in (one.code, two.code):  # who was not asked did nothing, also where a failure does something
            return bool(HARMLESS.search(one.entry))
        if not self.is_alike(one.entry, one.code, two.code):
            self.differs(number, line, one, one.code, two.code)
            if breaks_capture(one.code) != breaks_capture(two.code):
                return False
            return "0" not in (one.code, two.code) and "-" not in (one.code, two.code) or bool(HARMLESS.search(one.entry))
        if not same_statuses(one.statuses, two.statuses):
            self.differs(number, line, one, f"{one.code}_{one.statuses}", f"{two.code}_{two.statuses}")
            return False
        note = brief(two.note) if is_brief else two.note
        if one.code == "0" and one.note and note and one.note != note:
            self.differs(number, line, one, "=" + one.note.lstrip("="), "=" + note.lstrip("=") if is_brief else note)
            return bool(HARMLESS.search(one.entry))
        return True


def breaks_capture(code):
    return code in ("900", "901", "902", "903", "904", "905", "906", "908")


def same_statuses(one, two):
    one, two = one or "0000", two or "0000"
    return all(a == b or "." in (a, b) for a, b in zip(one, two))


def compare(device, emulated, excuses):
    is_brief = os.path.isfile(device)
    about, sequences = read_expectations(device) if is_brief else ({}, read_records(device))
    same = {tuple(pair) for pair in about["alike"]} if "alike" in about else None
    comparison = Comparison(Branches(ROOT), excuses, same)
    others = read_records(emulated)
    for number, lines in sorted(others.items()):
        if number not in sequences:
            continue
        theirs = expected_calls(lines, sequences[number]) if is_brief else [Call.of_line(line) for line in sequences[number]]
        comparison.sequence(number, theirs, [Call.of_line(line) for line in lines], is_brief)
    return comparison


def report(comparison, shows_all):
    found = sorted(comparison.found.items(), key=lambda item: -len(item[1]))
    for (entry, one, two), places in found[:None if shows_all else 40]:
        print(f"{len(places):6} {entry}: device {one}, emulated {two}: " +
              "; ".join(f"{sequence}:{line} {shape}" for sequence, line, shape in places[:4]))
    unused = [excuse for number, excuse in enumerate(comparison.excuses) if comparison.used[number] == 0]
    for excuse in unused:
        print(f"excuses nothing: {excuse}")
    excused = sum(comparison.used.values())
    print(f"{comparison.compared} of {comparison.all} calls compared, {sum(map(len, comparison.found.values()))} differences "
          f"of {len(comparison.found)} kinds, {excused} excused by {len(comparison.excuses)} lines")
    return 1 if comparison.found or unused else 0


def read_excuses():
    with open(HERE / "excused.toml", "rb") as file:
        return tomllib.load(file).get("difference", [])


def replay(program, path, excuses):
    about, _ = read_expectations(path)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        subprocess.run([program, "--driver", "emulated", "--seed", str(about["seed"]), "--sequences", about["sequences"],
                        "--processes", str(min(4, os.cpu_count() or 1)), "--out", folder], check=True,
                       env=os.environ | {"GANTRY_EMU_DEVICES": "2"})
        print(f"the calls took {time.monotonic() - begin:.1f} s; expectations of {about['device']}, driver {about['driver']}")
        return report(compare(path, folder, excuses), False)


def table(excuses):
    lines = ["| calls | which | device | emulated | driver | why |", "|---|---|---|---|---|---|"]
    for excuse in excuses:
        shown = [str(excuse.get(key, "")).replace("|", "\\|") for key in ("entry", "shape", "device", "emulated")]
        lines.append("| " + " | ".join(f"`{text}`" if text else "" for text in shown) + f" | {excuse['driver']} | {excuse['why']} |")
    return lines


def check_table(root, excuses):
    text = (root / "docs/design/driver.md").read_text().split("\n")
    missing = [line for line in table(excuses) if line not in text]
    for line in missing:
        print(f"docs/design/driver.md lacks: {line}")
    whole = [excuse for excuse in excuses
             if not excuse.get("shape") and ".*" in (excuse["device"], excuse["emulated"])]
    for excuse in whole:
        print(f"excuses a whole entry: {excuse}")
    if len(excuses) > MOST_EXCUSES:
        print(f"{len(excuses)} lines excuse differences, more than {MOST_EXCUSES}")
    return 1 if missing or whole or len(excuses) > MOST_EXCUSES else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--check-table", metavar="ROOT")
    parser.add_argument("--about", default="{}", help="with --keep: seed, sequences, device and driver, as JSON")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    excuses = read_excuses()
    if options.check_table:
        return check_table(pathlib.Path(options.check_table), excuses)
    if options.keep:
        return keep(*options.paths, json.loads(options.about), excuses)
    if len(options.paths) != 2:
        parser.error("two paths are needed")
    if options.replay:
        return replay(*options.paths, excuses)
    return report(compare(*options.paths, excuses), options.all)


if __name__ == "__main__":
    sys.exit(main())
