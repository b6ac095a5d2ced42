#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The documents say what is so.

Usage: check_docs.py SOURCE_DIR

docs/reference/errors.md lists the statuses of base.h, docs/design/threading.md the lock ranks of base/thread.h,
docs/design/architecture.md the rooms of the tree; links between documents lead somewhere.
"""
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
DOCUMENTS = [*SOURCE.glob("*.md"), *SOURCE.glob("docs/**/*.md"), *SOURCE.glob("samples/*.md"), *SOURCE.glob("examples/*.md")]


def text(path):
    return (SOURCE / path).read_text()


def rows(path, columns):
    """The rows of the tables of a document that have so many columns, without heads and rules."""
    found = []
    for line in text(path).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == columns and not set(cells[0]) <= set("-: "):
            found.append(cells)
    return found


def headings(path):
    """What a link may have behind its #: the headings, as they are turned into names."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"(?m)^#+ +(.*?) *$", path.read_text())}


class Documents(unittest.TestCase):
    def test_errors_lists_every_status(self):
        declared = re.findall(r'X\((\w+), (-?\d+), "([^"]+)"\)', text("include/gantry/base.h"))
        self.assertGreater(len(declared), 10)
        listed = [row[:3] for row in rows("docs/reference/errors.md", 4) if row[0].startswith("`GANTRY_")]
        self.assertEqual(listed, [[f"`GANTRY_{name}`", value, meaning] for name, value, meaning in declared])

    def test_threading_lists_every_rank_in_order(self):
        declared = re.findall(r"^ +(GY_RANK_\w+)(?: = 1)?,", text("base/thread.h"), re.M)
        self.assertGreater(len(declared), 5)
        listed = [row[0].strip("`") for row in rows("docs/design/threading.md", 4) if "GY_RANK" in row[0]]
        self.assertEqual(listed, declared)

    def test_architecture_names_every_room(self):
        rooms = {path.parent.name for path in SOURCE.glob("*/CMakeLists.txt") if path.parent.name != "build"}
        rooms |= {"include", "docs", "tools", "cmake"}
        listed = set(re.findall(r"^\| \[?`([\w./-]+?)/`", text("docs/design/architecture.md"), re.M))
        self.assertEqual({name.split("/")[0] for name in listed}, rooms)

    def test_scripts_know_when_a_package_is_there(self):
        """Else each run would install it, and say that it is missing."""
        named = set()
        for script in ("check.sh", "quickstart.sh"):
            for packages in re.findall(r"(?:require|want) ((?:[a-z0-9+.-]+ ?)+)", text(script)):
                named |= set(packages.split())
        self.assertIn("xvfb", named)
        known = set(re.findall(r"[a-z0-9+.-]+", " ".join(re.findall(r"(?m)^        ([a-z0-9+.| -]+)\)", text("tools/packages.sh")))))
        self.assertEqual(named - known, set())

    def test_architecture_has_the_tables_that_the_files_make(self):
        run = subprocess.run([sys.executable, SOURCE / "tools/file_table.py", "--check", SOURCE], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_the_list_of_functions_is_what_the_headers_say(self):
        run = subprocess.run([sys.executable, SOURCE / "tools/function_table.py", "--check", SOURCE], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        listed = set(re.findall(r"(?m)^\| `(gantry_\w+)\(\)` \| \S", text("docs/reference/functions.md")))
        exported = set(text("tests/abi/exports.txt").split())
        self.assertGreater(len(exported), 150)
        self.assertEqual(exported - listed, {"gantry_bandwidth_raised"})  # a variable

    def test_the_path_of_a_task_is_marked_in_the_code(self):
        """Each step names a function, in a file, above which the mark of that step stands."""
        document = text("docs/design/path-of-a-task.md")
        steps = {int(step): body for step, body in re.findall(r"(?ms)^(\d)\. (.*?)(?=^\d\. |^\S)", document)}
        self.assertEqual(sorted(steps), list(range(1, 10)))
        marks = {}
        for room in ("taskman", "dispatcher"):
            for path in (SOURCE / room).glob("**/*.[ch]"):
                for step, rest in re.findall(r"(?s)/\* Path of a task, step (\d) of 9:.*?\*/\n(.*?\n\})", path.read_text()):
                    self.assertNotIn(int(step), marks)
                    marks[int(step)] = (re.search(r"(\w+)\(", rest)[1], path.relative_to(SOURCE).as_posix())
                    # It is the one that tests/dispatcher/test_path.c sees a task in.
                    self.assertIn(f"gy_point(GY_POINT_PATH_{step}, ", rest)
        for step, body in steps.items():
            function, path = marks[step]
            self.assertRegex(body, rf"`{function}\(\)`")
            self.assertIn(f"`{path}`", body)

    def test_environment_lists_every_variable_that_is_read(self):
        rooms = ["base", "proof", "driver", "emulator", "work", "heap", "profile", "partition", "copykernel", "taskman", "dispatcher", "context", "interop", "fleet"]
        read = set()
        for room in rooms:
            for path in (SOURCE / room).glob("**/*.c"):
                read |= set(re.findall(r'(?:gy_environment(?:_is_on|_even_empty)?|gy_emu_read_number)\("(\w+)"[,)]', path.read_text()))
        read.add(re.search(r'#define LIMIT "(\w+)"', text("partition/limit.c"))[1])
        listed = re.findall(r"^\| `(\w+)` \|", text("docs/reference/environment.md"), re.M)
        self.assertEqual(sorted(listed), sorted(read))

    def test_porting_guide_names_what_there_is(self):
        headers = "".join(path.read_text() for path in (SOURCE / "include").glob("**/*.h"))
        named = set(re.findall(r"\b(gantry_\w+|GANTRY_\w+)", text("docs/guides/porting-from-pxtask.md")))
        named -= {"GANTRY_DEVICE", "GANTRY_SYNC"}  # variables of the environment
        self.assertGreater(len(named), 80)
        self.assertEqual({name for name in named if not re.search(rf"\b{name}\b", headers)}, set())

    def test_each_decision_has_a_number_of_its_own(self):
        pages = sorted((SOURCE / "docs/decisions").glob("0*.md"))
        self.assertGreater(len(pages), 40)
        listed = {link: title for link, title in re.findall(r"(?m)^\| \[\d+\]\((\S+)\) \| (.*?) \| \S.*\|$", text("docs/decisions/README.md"))}
        self.assertEqual(listed, {page.name: page.read_text().split("\n")[0].partition(". ")[2] for page in pages})
        numbers = [int(page.name[:4]) for page in pages]
        self.assertEqual(sorted(set(numbers)), numbers)
        for number, page in zip(numbers, pages):
            self.assertRegex(page.read_text(), rf"\A# {number}\. ", page.name)

    def test_every_guide_begins_with_a_program_that_runs(self):
        """Before the first heading there is a program of the tree that a test builds, or a command that runs one."""
        guides = sorted((SOURCE / "docs/guides").glob("*.md"))
        self.assertGreater(len(guides), 20)
        samples = set(re.findall(r"`(\w+)`", text("samples/README.md"))) | {"bench"}
        for guide in guides:
            front = guide.read_text().partition("\n## ")[0]
            programs = [guide.parent / link for link in re.findall(r"\]\((\S*?(?:examples|samples|porting|programs)/[\w/]+(?:\.cu?(?:pp)?)?)\)", front)]
            programs += [SOURCE / "samples" / name for name in re.findall(r"gantry run (\w+)", front) if name in samples]
            self.assertEqual([path for path in programs if not path.exists()], [], guide)
            commands = re.findall(r"(?m)gantry (?:check|limit|bench) [-\w]|^GANTRY_\w+=\S+ (?:\S+/)?\w+", front)
            self.assertTrue(programs or commands or "README.md#a-whole-program" in front, f"{guide}: no program before its first heading")

    def test_links_lead_somewhere(self):
        links = 0
        for document in DOCUMENTS:
            prose = re.sub(r"(?ms)^```.*?^```", "", document.read_text())  # in code, [&](...) is a lambda
            for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
                if "://" not in target:
                    links += 1
                    path = document.parent / target if target else document
                    self.assertTrue(path.exists(), f"{document}: {target}")
                    if heading:
                        self.assertIn(heading, headings(path), f"{document}: {target}")
        self.assertGreater(links, 5)

    def test_functions_and_macros_exist(self):
        known = "".join(path.read_text() for room in SOURCE.iterdir()
                        if room.is_dir() and room.name != "build"
                        for path in room.glob("**/*") if path.suffix in (".c", ".h", ".cu", ".py", ".cmake", ".txt"))
        known += text("CMakeLists.txt")
        words = set(re.findall(r"\w+", known)) | {"GANTRY_" + name for name in re.findall(r"X\((ERR_\w+),", known)}
        for document in DOCUMENTS:
            named = set(re.findall(r"\b(?:gantry|gy)_\w*[a-z0-9]\b|\bGANTRY_\w*[A-Z0-9]\b", document.read_text()))
            named -= {f"gantry_image_{name}" for name in re.findall(r"`(\w+)\.cu`", document.read_text())}  # made of it
            self.assertEqual(named - words, set(), document)

    def test_named_files_exist(self):
        """Paths in backticks with a folder in them are of the tree (or of the build)."""
        for document in DOCUMENTS:
            for target in re.findall(r"`([a-z]\w*/[\w./-]+\.(?:c|h|cu|py|sh|md|txt|map|cmake))`", document.read_text()):
                if not target.startswith(("build/", "out/", "gantry/")):
                    self.assertTrue((SOURCE / target).exists(), f"{document}: {target}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
