#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_heap_json.py MAKE_HEAP GANTRY: a heap as JSON, and what `gantry report heap` says about it."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MAKE_HEAP, GANTRY = sys.argv[1:3]
KINDS = ["device", "pinned", "write-combined", "host"]
TAGS = {"weights", 'say "hi" \\ <b>', "täg"}  # the library has blocks, too


def setUpModule():
    global FOLDER, HEAP, LIVE
    FOLDER = tempfile.mkdtemp()
    HEAP = os.path.join(FOLDER, "heap.json")
    LIVE = make(HEAP, "blocks")


def tearDownModule():
    shutil.rmtree(FOLDER)


def make(path, blocks):
    run = subprocess.run([MAKE_HEAP, path, blocks], capture_output=True)
    assert run.returncode == 0, run.stderr
    lines = [line.split("\t") for line in run.stdout.decode().splitlines()]
    return [(int(kind), int(address), int(size), tag) for kind, address, size, tag in lines]


def report(*arguments, status=0):
    run = subprocess.run([GANTRY, "report", "heap", *arguments], capture_output=True, text=True)
    assert run.returncode == status, (run.returncode, run.stderr)
    return run.stdout if status == 0 else run.stderr


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Heap(unittest.TestCase):
    def test_every_live_block_is_where_it_is(self):
        found = []
        for number, kind in enumerate(read(HEAP)["kinds"]):
            for slab in kind["slabs"]:
                for offset, size, tag in slab["blocks"]:
                    found.append((number, int(slab["base"], 16) + offset, size, kind["tags"][tag]["tag"]))
        found = [block for block in found if block[3] in TAGS]
        self.assertEqual(sorted(found), sorted(LIVE))
        self.assertGreater(len(LIVE), 1000)

    def test_ranges_cover_their_slab(self):
        for kind in read(HEAP)["kinds"]:
            self.assertEqual(sum(slab["bytes"] for slab in kind["slabs"]), kind["slab_bytes"])
            for slab in kind["slabs"]:
                end = 0
                for offset, size, state in slab["ranges"]:
                    self.assertEqual(offset, end)
                    self.assertIn(state, ("block", "small", "free", "waiting", "hole", "parked"))
                    end += size
                self.assertEqual(end, slab["bytes"])

    def test_sums_are_those_of_the_blocks(self):
        heap = read(HEAP)
        self.assertEqual([kind["kind"] for kind in heap["kinds"]], KINDS)
        for number, kind in enumerate(heap["kinds"]):
            live = [(size, tag) for of, _, size, tag in LIVE if of == number]
            listed = [block for slab in kind["slabs"] for block in slab["blocks"]]
            self.assertEqual(kind["block_count"], len(listed))
            self.assertEqual(kind["used_bytes"], sum(size for _, size, _ in listed))
            for tag in TAGS:
                entries = [entry for entry in kind["tags"] if entry["tag"] == tag]
                self.assertEqual(len(entries), 2)  # with a place, and without
                self.assertEqual(sum(entry["used_bytes"] for entry in entries), sum(size for size, of in live if of == tag))
            self.assertEqual(set(kind["stalls"]), {"mapping", "other", "gpu", "callback"})

    def test_without_blocks_there_are_sums_only(self):
        path = os.path.join(FOLDER, "sums.json")
        make(path, "sums")
        for sums, whole in zip(read(path)["kinds"], read(HEAP)["kinds"]):
            self.assertNotIn("slabs", sums)
            self.assertEqual(sums["used_bytes"], whole["used_bytes"])
            self.assertEqual(sums["tags"], whole["tags"])
        self.assertIn("device memory\n", report(path))

    def test_text_shows_slabs_and_tags(self):
        text = report(HEAP)
        for kind in KINDS:
            self.assertIn(kind + " memory\n", text)
        self.assertRegex(text, r"\n  0x[0-9a-f]+ +[0-9.]+ MiB \|[#sp+. w]{64}\|\n")
        self.assertIn("make_heap.c:", text)
        self.assertIn('say "hi" \\ <b>', text)
        self.assertIn("unknown place", text)

    def test_page_holds_the_heap(self):
        page = os.path.join(FOLDER, "heap.html")
        report(HEAP, "--format", "html", "-o", page)
        with open(page, encoding="utf-8") as file:
            html = file.read()
        inside = re.search(r'<script type="application/json" id="heap">(.*?)</script>', html, re.S).group(1)
        self.assertEqual(json.loads(inside), read(HEAP))
        report(HEAP, "-o", page)  # the ending says it too
        with open(page, encoding="utf-8") as file:
            self.assertEqual(file.read(), html)
        self.assertNotIn("<b>", inside)

    def test_what_is_wrong_is_named(self):
        cases = {"": "empty", "[1]": "no JSON object", "{}": "no heap that", '{"gantry_heap":1}': "no heap that",
                 '{"gantry_heap":2,"kinds":[]}': "version 2", '{"gantry_heap":1,"kinds":[{}]}': "no name or no tags",
                 '{"gantry_heap":1,"kinds":[': ":1:"}
        path = os.path.join(FOLDER, "wrong.json")
        for content, message in cases.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            self.assertIn(message, report(path, status=1))
        self.assertIn("No such file", report("/nowhere", status=1))
        self.assertIn("say 'gantry report heap FILE'", report(status=2))
        self.assertIn("neither --json", report(HEAP, "--json", status=2))
        self.assertIn("JSON already", report(HEAP, "--format", "json", status=2))

    def test_strange_members_do_no_harm(self):
        strange = {"gantry_heap": 1, "kinds": [{"kind": "x\x1b", "alloc_count": 1, "used_bytes": -1, "tags": [1, {"tag": 3}, {"line": 1e300}],
                                                "slabs": [{"bytes": 0, "ranges": [[0, 1, "block"]]}, {"bytes": 64, "ranges": [[60, 5, "block"], [1], 7, [0, 64, 3]]}, 5]}]}
        path = os.path.join(FOLDER, "strange.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(strange, file)
        text = report(path)
        self.assertNotIn("\x1b", text)
        self.assertIn("|" + 64 * "." + "|", text)

    def test_running_out_of_memory_writes_the_heap(self):
        path = os.path.join(FOLDER, "full.json")
        run = subprocess.run([MAKE_HEAP, "full"], env=dict(os.environ, GANTRY_HEAP_SNAPSHOT=path, GANTRY_LOG="warning"), capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(path, run.stderr)
        device = read(path)["kinds"][0]
        self.assertEqual(device["limit_bytes"], 16 << 20)
        self.assertEqual([entry["block_count"] for entry in device["tags"] if entry["tag"] == "too much"], [len(
            [block for slab in device["slabs"] for block in slab["blocks"] if block[1] == 1 << 20])])
        self.assertIn("too much", report(path))
        run = subprocess.run([MAKE_HEAP, "full"], env=dict(os.environ, GANTRY_HEAP_SNAPSHOT="/nowhere/x", GANTRY_LOG="warning"), capture_output=True, text=True)
        self.assertEqual(run.returncode, 0)
        self.assertIn("/nowhere/x could not be written: No such file or directory", run.stderr)
        run = subprocess.run([MAKE_HEAP, "full"], env=dict(os.environ, GANTRY_HEAP_SNAPSHOT="/dev/full", GANTRY_LOG="warning"), capture_output=True, text=True)
        self.assertEqual(run.returncode, 0)
        self.assertIn("the file cannot be written: No space left on device", run.stderr)

    def test_a_heap_that_cannot_be_written_leaves_the_file_as_it_was(self):
        for before in (None, "of a former run"):
            folder = tempfile.mkdtemp(dir=FOLDER)
            path = os.path.join(folder, "short.json")
            if before is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(before)
            run = subprocess.run([MAKE_HEAP, "short"], env=dict(os.environ, GANTRY_HEAP_SNAPSHOT=path, GANTRY_LOG="warning"), capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(path + " could not be written", run.stderr)
            self.assertEqual(os.listdir(folder), [] if before is None else ["short.json"])
            if before is not None:
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), before)

    def test_a_heap_goes_through_a_pipe(self):
        path = os.path.join(tempfile.mkdtemp(dir=FOLDER), "pipe")
        os.mkfifo(path)
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
            run = subprocess.run([MAKE_HEAP, "full"], env=dict(os.environ, GANTRY_HEAP_SNAPSHOT=path), capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(json.loads(reader.communicate()[0])["gantry_heap"], 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
