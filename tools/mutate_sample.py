# SPDX-License-Identifier: MIT
"""What share of small mistakes do the tests notice?  The part of tools/mutate that draws them (--sample N).

The mistakes are those of tools/mutants.py in the files that the library is made of.  N are drawn by a seed, as many of
each room.  They are built in together, once, with LeakSanitizer linked in.  Each test runs once without any, to see that it passes, how
long it takes, and which mistakes it comes by.  Then each mistake is switched on in turn, and those tests run that come by
it, until one fails, and fails again.  Tests are light ($GANTRY_TEST_LIGHT).  Those that look at the files are left out.

Results are kept in a file that --resume goes on with.  tests/mutations/equivalent.toml lists mistakes that
change nothing; they are not drawn.
"""
import concurrent.futures
import dataclasses
import hashlib
import json
import math
import os
import random
import shlex
import subprocess
import sys
import threading
import time
import tomllib

import mutants

LEFT_OUT = {"tree", "style", "tools"}  # labels of tests that look at the files, or at their tools
NOT_DRAWN = {"base", "torch"}  # rooms
LONGEST = 120  # seconds; what takes longer without a mistake is left out
PATIENCE = 300  # seconds for one mistake: it lives when no test has noticed it until then
FIRST_LIMIT = 400  # seconds, of the run without a mistake
NOTICED, LIVED, NOT_MET = "noticed", "LIVED", "NOT MET"


def commands(copy):
    """What the library is compiled from: path -> its command, with a header's inline functions by that of a source beside it."""
    with open(os.path.join(copy.build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), copy.tree)
        if path.endswith(".c") and not path.startswith("..") and any("gantry.dir/" in word for word in words):
            found[path] = words[:words.index("-o")]
    for path, words in sorted(found.items()):
        folder = os.path.dirname(path)
        for name in sorted(os.listdir(os.path.join(copy.tree, folder))):
            if name.endswith(".h"):
                found.setdefault(os.path.join(folder, name), words)
    return found


def find_all(copy, paths, kept):
    """The mistakes of all these files; `kept` is a file with those found earlier."""
    cache = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            cache = json.load(file)
    with open(mutants.__file__, "rb") as file:
        rules = file.read().partition(b"OPERATORS")[2]

    def of(path):
        with open(os.path.join(copy.root, path), "rb") as file:
            key = hashlib.sha256(rules + file.read()).hexdigest()
        if cache.get(path, {}).get("key") != key:
            found = mutants.find(copy.tree, path, paths[path])
            cache[path] = {"key": key, "found": [dataclasses.astuple(mutant) for mutant in found]}
        return [mutants.Mutant(*values) for values in cache[path]["found"]]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(of, sorted(paths)))
    with open(kept, "w", encoding="utf-8") as file:
        json.dump(cache, file)
    return [mutant for part in found for mutant in part]


def draw(found, rooms, count, seed):
    """As many of each room as it has, in an order: first a place, then one of the mistakes there."""
    rng, shares = random.Random(seed), {}
    for room in rooms:
        places = {}
        for mutant in found:
            if room_of(mutant.file, rooms) == room:
                places.setdefault((mutant.file, mutant.point, mutant.kind), []).append(mutant)
        keys = sorted(places)
        rng.shuffle(keys)
        shares[room] = [rng.choice(places[key]) for key in keys]
    drawn, turn = [], 0
    while len(drawn) < count and turn < max(map(len, shares.values()), default=0):
        drawn += [share[turn] for share in shares.values() if turn < len(share)][:count - len(drawn)]
        turn += 1
    return drawn, shares


def room_of(path, rooms):
    return max((room for room in rooms if path.startswith(room + os.sep)), key=len, default=None)


def same(mutant, entry):
    """Is it that of the list?  Lines move; what it changes does not."""
    return mutant.file == entry["file"] and mutant.change == entry["change"]


class Sample:
    """The mistakes drawn, what is known of tests, and what became of each mistake.  `lock` guards the state."""

    def __init__(self, copy, path, jobs):
        self.copy, self.path, self.jobs, self.lock = copy, path, jobs, threading.Lock()
        self.state = {"seed": 0, "rooms": [], "drawn": [], "places": {}, "tests": {}, "results": {}}

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.state, file, indent=1)
        os.replace(self.path + ".new", self.path)

    @property
    def drawn(self):
        return [mutants.Mutant(*values) for values in self.state["drawn"]]

    def texts(self, drawn):
        """path -> the text with its mistakes"""
        parts, texts = {}, {}
        for number, mutant in enumerate(drawn):
            parts.setdefault(mutant.file, {})[number] = mutant
        for path, part in parts.items():
            with open(os.path.join(self.copy.root, path), "rb") as file:
                texts[path] = mutants.plant(file.read(), part, len(drawn))
        return texts

    def compiles(self, path, text, command):
        result = subprocess.run([*command, "-w", "-I", os.path.dirname(os.path.join(self.copy.tree, path)), "-fsyntax-only", "-x", "c", "-"],
                                input=text, stderr=subprocess.DEVNULL, check=False, cwd=self.copy.build)
        return result.returncode == 0

    def without_broken(self, drawn, paths):
        """Those that compile."""
        def broken(path):
            if self.compiles(path, self.texts(drawn)[path], paths[path]):
                return []
            return [mutant for mutant in drawn if mutant.file == path and
                    not self.compiles(path, self.texts([mutant])[path], paths[path])]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            wrong = {mutant for part in pool.map(broken, self.texts(drawn)) for mutant in part}
        return [mutant for mutant in drawn if mutant not in wrong]

    def folder(self):
        """Where this thread's tests write."""
        folder = os.path.join(os.path.dirname(self.path), threading.current_thread().name)
        os.makedirs(folder, exist_ok=True)
        return folder

    def look(self, name):
        """Run a test without any mistake, and note which it comes by."""
        seen, count = os.path.join(self.folder(), "seen"), len(self.state["drawn"])
        with open(seen, "wb") as file:
            file.write(bytes(count))
        how, seconds = self.copy.run(name, FIRST_LIMIT, self.folder(), GANTRY_TEST_LIGHT="1", GY_MUTANTS_SEEN=seen)
        with open(seen, "rb") as file:
            met = [number for number, byte in enumerate(file.read()) if byte]
        with self.lock:
            self.state["tests"][name] = {"seconds": round(seconds, 2), "how": how, "met": met}
            self.save()
        if how is not None or seconds > LONGEST:
            print(f"left out: {name} {how or 'takes'} ({seconds:.0f} s) without a mistake", flush=True)

    def tests_of(self, number, room):
        """The tests that come by it: the quick ones and its room's own first."""
        usable = [(name, test) for name, test in self.state["tests"].items()
                  if test["how"] is None and test["seconds"] <= LONGEST and number in test["met"]]
        return [name for name, _ in sorted(usable, key=lambda item: item[1]["seconds"] * (1 if item[0].startswith(room) else 4))]

    def fails(self, name, number):
        """How a test fails with this mistake, twice, or once when it hangs; None: it does not."""
        limit = 15 + 6 * self.state["tests"][name]["seconds"]
        how, seconds = self.copy.run(name, limit, self.folder(), GANTRY_TEST_LIGHT="1", GY_MUTANT=str(number))
        if how is not None and seconds < limit / 2:
            how, _ = self.copy.run(name, limit, self.folder(), GANTRY_TEST_LIGHT="1", GY_MUTANT=str(number))
        return how

    def judge(self, number):
        """Run the tests that come by a mistake until one notices it, twice."""
        mutant = self.drawn[number]
        names, began, result = self.tests_of(number, mutant.file.split("/")[0]), time.monotonic(), None
        for tried, name in enumerate(names, 1):
            how = self.fails(name, number)
            if how is not None:
                result = [NOTICED, f"{name} ({how})"]
            elif time.monotonic() > began + PATIENCE:
                result = [LIVED, f"{tried} of {len(names)} tests"]
            if result:
                break
        result = result or [LIVED if names else NOT_MET, f"{len(names)} tests"]
        with self.lock:
            self.state["results"][str(number)] = [*result, round(time.monotonic() - began, 1)]
            self.save()
            print(f"[{len(self.state['results'])}/{len(self.state['drawn'])}] {mutant.file}:{mutant.line} {mutant.change[:90]}: "
                  f"{' '.join(result)} {time.monotonic() - began:.0f} s", flush=True)

    def all(self, work, items):
        with concurrent.futures.ThreadPoolExecutor(self.jobs, "tests") as pool:
            for done in [pool.submit(work, item) for item in items]:
                done.result()


def wilson(noticed, count):
    """The 95 % interval of a rate, in percent."""
    if count == 0:
        return 0, 100
    z, p = 1.96, noticed / count
    middle, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return 100 * (middle - half) / (1 + z * z / count), 100 * (middle + half) / (1 + z * z / count)


def read_equivalent(root):
    path = os.path.join(root, "tests/mutations/equivalent.toml")
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return tomllib.load(file).get("equivalent", [])


def report(sample, least):
    """The table and those that live; the exit status."""
    rows, listed = {}, read_equivalent(sample.copy.root)
    for number, mutant in enumerate(sample.drawn):
        if str(number) in sample.state["results"] and not any(same(mutant, entry) for entry in listed):
            rows.setdefault(room_of(mutant.file, sample.state["rooms"]), []).append((mutant, *sample.state["results"][str(number)]))
    everything = [row for part in rows.values() for row in part]
    print(f"\nseed {sample.state['seed']}, {len(everything)} mistakes of {sum(sample.state['places'].values())} places\n"
          "\n| room | places | mistakes | noticed | % | 95 % interval | not met by a test |\n|---|---|---|---|---|---|---|")
    for room, part in [*sorted(rows.items()), ("all", everything)]:
        noticed = sum(row[1] == NOTICED for row in part)
        low, high = wilson(noticed, len(part))
        places = sample.state["places"].get(room, sum(sample.state["places"].values()))
        print(f"| {room} | {places} | {len(part)} | {noticed} | {100 * noticed / max(1, len(part)):.0f} | "
              f"{low:.0f} to {high:.0f} | {sum(row[1] == NOT_MET for row in part)} |")
    for mutant, outcome, by, _ in sorted(everything, key=lambda row: (row[0].file, row[0].line)):
        if outcome != NOTICED:
            print(f"{outcome}: {mutant.file}:{mutant.line}: {mutant.kind}: {mutant.change} ({by})")
    return 1 if wilson(sum(row[1] == NOTICED for row in everything), len(everything))[0] < least else 0


def begin(options, sample):
    """Draw, and leave out what does not compile."""
    copy = sample.copy
    copy.sync()
    copy.configure("-DCMAKE_EXE_LINKER_FLAGS=-fsanitize=leak", "-DCMAKE_C_FLAGS=-w")
    paths = commands(copy)
    rooms = options.rooms or sorted({path.split("/")[0] for path in paths if "/" in path} - NOT_DRAWN)
    paths = {path: words for path, words in paths.items() if room_of(path, rooms)}
    listed = read_equivalent(options.root)
    found = find_all(copy, paths, os.path.join(options.work, "mutants.json"))
    for entry in listed:
        if entry["file"] in paths and sum(same(mutant, entry) for mutant in found) != 1:
            print(f"equivalent.toml: not there once: {entry['file']}: {entry['change']}", flush=True)
    found = [mutant for mutant in found if not any(same(mutant, entry) for entry in listed)]
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    drawn, shares = draw(found, rooms, options.sample, seed)
    print(f"seed {seed}: {len(drawn)} of {len(found)} mistakes in {sum(map(len, shares.values()))} places", flush=True)
    kept = sample.without_broken(drawn, paths)
    if len(kept) < len(drawn):
        print(f"{len(drawn) - len(kept)} do not compile and are left out", flush=True)
    sample.state.update(seed=seed, rooms=rooms, places={room: len(share) for room, share in shares.items()},
                        drawn=[dataclasses.astuple(mutant) for mutant in kept])
    sample.save()


def main(options, copy_of):
    folder = os.path.join(options.work, "sample")
    os.makedirs(folder, exist_ok=True)
    copy = copy_of(options.root, folder)
    os.makedirs(copy.tree, exist_ok=True)
    sample = Sample(copy, os.path.realpath(options.resume or os.path.join(folder, "results.json")), options.jobs)
    if options.resume:
        with open(sample.path, encoding="utf-8") as file:
            sample.state = json.load(file)
    else:
        begin(options, sample)
    began = time.monotonic()
    copy.sync(sample.texts(sample.drawn))
    copy.configure("-DCMAKE_EXE_LINKER_FLAGS=-fsanitize=leak", "-DCMAKE_C_FLAGS=-w")
    if not copy.call(["ninja", "-C", copy.build, "-j", str(options.jobs)]):
        sys.exit(f"the sources with the mistakes in them do not compile: {copy.log}")
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    names = [name for name, (_, properties) in copy.tests.items() if not LEFT_OUT & set(properties.get("LABELS", []))]
    sample.all(sample.look, [name for name in names if name not in sample.state["tests"]])
    print(f"{len(names)} tests without a mistake after {time.monotonic() - began:.0f} s", flush=True)
    listed = read_equivalent(options.root)
    sample.all(sample.judge, [number for number, mutant in enumerate(sample.drawn)
                              if str(number) not in sample.state["results"] and not any(same(mutant, entry) for entry in listed)])
    print(f"all after {time.monotonic() - began:.0f} s; {sample.path}")
    return report(sample, 80 if options.least is None else options.least)
