#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/check_budgets.py counts what it should, and names the file that made a figure grow.

Usage: test_check_budgets.py CC NM
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_budgets.py"
sys.path.insert(0, str(TOOL.parent))
import check_budgets  # noqa: E402
from guards import circles, includes, kinds, lines, questions, structs, words  # noqa: E402
from guards.figures import Figures, Files  # noqa: E402

CC, NM = sys.argv[1:3]


def figures(**named):
    """Figures from name={path: number}."""
    found = Figures()
    for name, parts in named.items():
        for path, number in parts.items():
            found.add(name, path, number)
    return found


class Counters(unittest.TestCase):
    def asked(self, text, kind, path="dispatcher/a.c"):
        return questions.count(Files({path: text}))[kind]

    def test_questions_are_of_statements_that_decide(self):
        self.assertEqual(self.asked("void f(void) {\n    if (a->trust == B) {\n        c();\n    }\n}\n", "trust"), 1)
        self.assertEqual(self.asked("if (a &&\n    a->trust &&\n    b->trust) {}", "trust"), 2)
        self.assertEqual(self.asked("x = a->trust ? 1 : 2;", "trust"), 1)
        self.assertEqual(self.asked("return s->state == GY_STREAM_MEMBER;", "batch"), 1)
        self.assertEqual(self.asked("switch (m) { case GY_MODE_BATCH: f(); }", "call_mode"), 1)
        self.assertEqual(self.asked("if (a->mode == GY_MODE_BATCH) {}", "all"), 2)

    def test_what_does_not_decide_is_no_question(self):
        for text in ("a->trust = b;", "/* if (a->trust) */", 'f("if (a->trust)");', "assert(a->trust && b);", "call(a->trust);"):
            self.assertEqual(self.asked(text, "all"), 0, text)

    def test_rooms_without_modes_are_not_asked(self):
        for path in ("taskman/a.c", "heap/a.c", "emulator/a.c", "tests/dispatcher/a.c", "cli/a.c"):
            self.assertEqual(self.asked("if (a->trust) {}", "all", path), 0, path)
        self.assertEqual(self.asked("if (a->trust) {}", "all", "work/a.h"), 1)

    def test_a_pattern_without_any_code_is_stale(self):
        stale = questions.count(Files({"dispatcher/a.c": "f(a->spoilt);"})).stale
        self.assertFalse(any("spoilt" in line for line in stale))
        self.assertTrue(any("->refusals" in line and "write its new name" in line for line in stale))

    def test_structs(self):
        def count(body, path="heap/a.h"):
            return dict(structs.count(Files({path: f"struct gy_a {{\n{body}}};\n"})))

        self.assertEqual(count("int a;\n" * 25), {})
        self.assertEqual(count("int a;\n" * 26), {"gy_a": 26})
        self.assertEqual(count("int a, b;\n" * 13), {"gy_a": 26})
        self.assertEqual(count("int a[B(1, 2)]; /* one; two */\n" * 25), {})
        self.assertEqual(count("int a;\n" * 24 + "struct { int b; int c; } d;\n" + "void (*e)(int, int);\n"), {"gy_a": 26})
        self.assertEqual(count("unsigned a : 1;\n" * 25 + "#ifdef B\n#endif\n"), {})
        for apart in ("include/gantry/a.h", "driver/cuda_abi.h", "bench/a.h", "tests/heap/a.h"):
            self.assertEqual(count("int a;\n" * 26, apart), {}, apart)
        self.assertEqual(count("int a;\n" * 26, "cli/a.h"), {"gy_a": 26})

    def test_headers(self):
        chain = {f"heap/h{i}.h": f'#include "heap/h{i + 1}.h"\n#include <stdio.h>\n' for i in range(42)}
        found = includes.count(Files({**chain, "heap/h42.h": "#include <gantry/a.h>\n", "include/gantry/a.h": "", "tests/b.h": ""}))
        self.assertEqual(dict(found), {"above_40": 3, "largest": 43})
        self.assertEqual(sorted(found.parts["above_40"]), ["heap/h0.h", "heap/h1.h", "heap/h2.h"])
        self.assertEqual(includes.pulled_by({"a.h": '#include "b.h"\n', "b.h": '#include "a.h"\n'})["a.h"], {"b.h"})

    def test_lines(self):
        text = "/* Head.\n * More. */\n\nint gy_a; /* why */\nint gy_b;\n"
        found = lines.count(Files({"heap/a.c": text, "driver/a.h": text, "emulator/a.c": text, "cli/a.c": text, "include/gantry/a.h": text}))
        self.assertEqual(dict(found), {"heap": 2, "driver": 2, "emulator": 2, "command": 2, "library": 4, "comments": 150})
        self.assertEqual(found.parts["library"], {"heap/a.c": 2, "driver/a.h": 2})

    def test_kinds(self):
        found = kinds.count(Files({
            "docs/design/threading.md": "| thread | does |\n|---|---|\n| `GD` | a |\n| `GQ` | b |\n| the emulated driver's | `libgantry-emu.so` |\n| d | `libgantry-x.so`, e |\n\n| callback | |\n|---|---|\n| d | |\n",
            "docs/reference/environment.md": "| variable | says |\n|---|---|\n| `GANTRY_A` | `B` |\n\n| variable | says |\n|---|---|\n| `CUDA_C` | |\n",
            "base/thread.h": "enum gy_rank {\n    GY_RANK_A = 1,\n    GY_RANK_B, /* GY_RANK_C */\n};\n"
                             "gantry_status gy_thread_start(gy_thread *t);\nextern _Thread_local int gy_d;\n",
            "heap/a.c": "static _Thread_local int b;\n_Thread_local int gy_d;\nvoid f(void) { status = gy_thread_start(&t); }\n",
            "emulator/a.c": "static _Thread_local int b;\nint f(void) { return gy_thread_start(&t); }\n",
        }))
        self.assertEqual(dict(found), {"threads": 3, "variables": 2, "ranks": 2, "thread_starts": 1, "thread_local": 2})

    def test_words(self):
        """Users read README.md, tutorials, guides and reference, without the tables that tools make."""
        found = words.count(Files({
            "README.md": "# A head\n\nOne two.\n", "docs/guides/a.md": "a b c d\n", "docs/design/a.md": "a b\n", "docs/decisions/1.md": "a b\n" + "c" * 121 + "\n",
            "docs/reference/errors.md": "a\n<!-- wrong arguments: written -->\nb c d\n<!-- end of wrong arguments -->\ne\n",
            "docs/reference/functions.md": "a b\n", "heap/a.c": "int a;\n",
        }))
        self.assertEqual(dict(found), {"front": 5, "guides": 4, "reference": 2, "read_by_users": 11, "design": 2, "long_sentences": 0, "wide_lines": 1})

    def test_sentences_that_are_too_long(self):
        def lines(text):
            return [line for line, what in words.too_long(text) if "sentence" in what]

        long = "word " * 30 + "end."
        self.assertEqual(lines(f"{long}\n"), [1])
        self.assertEqual(lines(f"A beginning. And {long}\n"), [1])
        self.assertEqual(lines(f"## Head\n\n- an item\n\n- {long}\n"), [5])
        self.assertEqual(lines("word\n" * 15 + "end.\nNext " + "word\n" * 31), [17])
        for fits in (long[5:], f"| {long} |", f"```text\n{long}\n```", f"`{long}`", "- ten words\n" * 20, "[a](b) " * 30):
            self.assertEqual(lines(f"{fits}\n"), [], fits)

    def test_lines_that_are_too_wide(self):
        self.assertEqual(words.too_long("a\n" + "b" * 121 + "\n"), [(2, "121 columns, at most 120")])
        self.assertEqual(words.too_long("b" * 120 + "\n| " + "b" * 121 + " |\n"), [])


class Circles(unittest.TestCase):
    def complaints(self, files, **budget):
        symbols = {path: (set(defined.split()), set(used.split())) for path, (defined, used) in files.items()}
        return circles.compare("command", circles.arrows_among(symbols), budget)[0]

    PAIR = {"a.c": ("a", "b"), "b.c": ("b", "a"), "c.c": ("c", "a")}

    def test_what_is_permitted(self):
        self.assertEqual(self.complaints(self.PAIR, command=["a.c", "b.c"], command_arrows=2), [])
        self.assertEqual(self.complaints({"a.c": ("a", "b"), "b.c": ("b", "")}), [])

    def test_a_file_comes_in(self):
        self.assertEqual(self.complaints(self.PAIR, command=["a.c"], command_arrows=2),
                         ["circles: b.c is in a circle of the command now: it uses a.c (a) and is used by a.c"])

    def test_one_goes_and_stays_out(self):
        self.assertEqual(self.complaints(self.PAIR, command=["a.c", "b.c", "c.c"], command_arrows=2),
                         ["circles: c.c is in no circle of the command any more: take it out of command = [...]"])

    def test_arrows(self):
        self.assertEqual(self.complaints(self.PAIR, command=["a.c", "b.c"], command_arrows=1), ["circles: command_arrows is 2, at most 1: a.c b.c"])
        self.assertEqual(self.complaints(self.PAIR, command=["a.c", "b.c"], command_arrows=3),
                         ["circles: command_arrows is less than its budget: write command_arrows = 2 for 3"])

    def test_a_second_circle(self):
        files = {**self.PAIR, "x.c": ("x", "y a"), "y.c": ("y", "x")}
        self.assertEqual(self.complaints(files, command=["a.c", "b.c", "y.c"], command_arrows=4),
                         ["circles: x.c is in a circle of the command now: it uses y.c (y) and is used by y.c"])

    def test_objects(self):
        with tempfile.TemporaryDirectory() as root:
            objects = []
            for name, text in {"a": "void b(void);\nvoid a(void) { b(); }\n", "base/b": "void a(void);\nvoid b(void) { a(); }\n"}.items():
                source = pathlib.Path(root, f"{name}.c")
                source.parent.mkdir(exist_ok=True)
                source.write_text(text)
                objects.append(f"{root}/x.dir/__/{name}.c.o")
                os.makedirs(os.path.dirname(objects[-1]), exist_ok=True)
                subprocess.run([CC, "-c", "-w", "-o", objects[-1], str(source)], check=True)
            pathlib.Path(root, "list").write_text("\n".join(objects) + "\n")
            os.makedirs(f"{root}/tests/style")
            pathlib.Path(root, "tests/style/budgets.toml").write_text('[circles]\ncommand = ["a.c"]\ncommand_arrows = 2\n')
            run = subprocess.run([sys.executable, str(TOOL), "--nm", NM, "--objects", f"command=@{root}/list", root, "circles"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 1)
            self.assertEqual(run.stdout, "circles: base/b.c is in a circle of the command now: it uses a.c (a) and is used by a.c\n"
                                         "circles: command: 2 of 2 files, 2 arrows\n")


class Budgets(unittest.TestCase):
    def test_above_names_what_grew(self):
        now, before = figures(a={"x.c": 5, "y.c": 3, "z.c": 1}), figures(a={"x.c": 5, "y.c": 1})
        self.assertEqual(check_budgets.compare("g", now, {"a": 6}, lambda: before)[0], ["g: a is 9, at most 6: grown: y.c by 2, z.c by 1"])
        self.assertEqual(check_budgets.compare("g", now, {"a": 6})[0], ["g: a is 9, at most 6: most: x.c 5, y.c 3, z.c 1"])
        self.assertEqual(check_budgets.compare("g", now, {}, lambda: before)[0], ["g: a is 9 and has no budget: grown: y.c by 2, z.c by 1"])
        self.assertEqual(check_budgets.compare("g", now, {"a": 9}), ([], [], {}))

    def test_below_is_written(self):
        said = "g: a is less than its budget: write a = 1 for 2"
        self.assertEqual(check_budgets.compare("g", figures(a={"x.c": 1}), {"a": 2}), ([said], [], {"a": 1}))
        self.assertEqual(check_budgets.compare("lines", figures(a={"x.c": 1}), {"a": 2}), ([], [said.replace("g:", "lines:")], {"a": 1}))
        for value in (97, 103):
            self.assertEqual(check_budgets.compare("path.auto", figures(a={"x.c": value}), {"a": 100}, noise={"a": 0.03}), ([], [], {}))
        self.assertEqual(check_budgets.compare("path.auto", figures(a={"x.c": 104}), {"a": 100}, noise={"a": 0.03})[0],
                         ["path.auto: a is 104, at most 100: most: x.c 104"])
        self.assertEqual(check_budgets.compare("g", figures(), {"a": 2})[2], {"a": None})

    def test_of_comments_there_may_be_more(self):
        self.assertEqual(check_budgets.compare("lines", figures(comments={"x.c": 20}), {"comments": 17}), ([], [], {}))
        self.assertIn("lines: comments is 15, at least 17", check_budgets.compare("lines", figures(comments={"x.c": 15}), {"comments": 17})[0][0])

    def test_a_tree(self):
        """From sources in a repository to the exit status."""
        budgets = "# Some.\n[structs]\ngy_a = 27 # see a.h\ngy_gone = 30\n\n[kinds]\nthreads = 1\n"

        def struct(members):
            return "struct gy_a {\n" + "int a;\n" * members + "};\n"

        with tempfile.TemporaryDirectory() as root:
            def run(*words):
                done = subprocess.run([sys.executable, str(TOOL), *words, root, "structs"], capture_output=True, text=True)
                return done.returncode, done.stdout.splitlines()

            def git(*words):
                subprocess.run(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

            header, table = pathlib.Path(root, "heap/a.h"), pathlib.Path(root, check_budgets.BUDGETS)
            for path, text in ((header, struct(27)), (table, budgets)):
                path.parent.mkdir(parents=True)
                path.write_text(text)
            self.assertEqual(run(), (1, [f"structs: there is no gy_gone any more: take it out of {check_budgets.BUDGETS}", "structs: gy_a 27"]))
            self.assertEqual(run("--lower")[0], 0)
            self.assertEqual(table.read_text(), budgets.replace("gy_gone = 30\n", ""))
            git("init", "-q")
            git("add", ".")
            git("commit", "-qm", "a: b")
            header.write_text(struct(29))
            self.assertEqual(run(), (1, ["structs: gy_a is 29, at most 27: grown: heap/a.h by 2", "structs: gy_a 29"]))
            self.assertEqual(run("--lower")[0], 1)
            self.assertIn("gy_a = 27", table.read_text())
            header.write_text(struct(26))
            self.assertEqual(run()[0], 1)
            self.assertEqual(run("--lower")[0], 0)
            self.assertIn("gy_a = 26 # see a.h\n\n[kinds]\nthreads = 1\n", table.read_text())
            self.assertEqual(run(), (0, ["structs: gy_a 26"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
