#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/check_links.py finds the circles and the arrows up in objects that are made for it."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_links.py"
sys.path.insert(0, str(TOOL.parent))
import check_links  # noqa: E402

CC, NM = sys.argv[1:3]
SEAM = {"gy_ask": "taskman/cpu"}


def symbols(**files):
    """{path: (defined, undefined)} from path="defined,... > undefined,..." with _ for / and .c left out."""
    found = {}
    for name, text in files.items():
        defined, _, undefined = text.partition(">")
        found[name.replace("__", "/") + ".c"] = (set(defined.split()), set(undefined.split()))
    return found


class CheckLinks(unittest.TestCase):
    def expect(self, found, *complaints, seams=None, permitted=()):
        self.assertEqual(check_links.check(found, seams or {}, list(permitted))[0], list(complaints))

    def test_no_circle(self):
        self.expect(symbols(base__a="gy_a > gy_b malloc", base__b="gy_b > gy_c", base__c="gy_c >"))

    def test_a_pair_is_a_circle(self):
        pair = symbols(base__a="gy_a > gy_b", base__b="gy_b > gy_a")
        self.expect(pair, "circle of 2 files, 2 arrows: base/a.c base/b.c")
        self.expect(pair, permitted=[["base/*"]])

    def test_a_long_circle_and_a_pair(self):
        self.expect(symbols(base__a="gy_a > gy_b", base__b="gy_b > gy_c", base__c="gy_c > gy_a gy_d", base__d="gy_d >",
                            heap__x="gy_x > gy_y", heap__y="gy_y > gy_x"),
                    "circle of 3 files, 3 arrows: base/a.c base/b.c base/c.c",
                    "circle of 2 files, 2 arrows: heap/x.c heap/y.c")

    def test_what_is_permitted_has_to_be_there(self):
        self.expect(symbols(base__a="gy_a >"), "permitted, but there is no such circle any more: base/*",
                    permitted=[["base/*"]])

    def test_a_name_that_nobody_else_uses(self):
        found = symbols(base__a="gy_a gy_own gantry_b > gy_b", base__b="gy_b >")
        found["base/b.c"][1].add("gy_a")
        said = "base/a.c: no other file uses gy_own: make it static, or remove it"
        self.assertEqual(check_links.find_unused(found, set()), [said])
        self.assertEqual(check_links.find_unused(found, {"gy_own"}), [])
        self.assertEqual(check_links.find_unused(found, {"gy_own", "gy_a", "gy_gone"}),
                         ["base/a.c: gy_a is for tests only, but base/b.c uses it"])

    def test_arrows_up(self):
        self.expect(symbols(base__a="gy_a > gy_b", heap__b="gy_b >"), "arrow up: base/a.c -> heap/b.c: gy_b")
        self.expect(symbols(taskman__graph__a="gy_a > gy_b", taskman__cpu__b="gy_b >"),
                    "arrow up: taskman/graph/a.c -> taskman/cpu/b.c: gy_b")
        self.expect(symbols(taskman__cpu__a="gy_a > gy_b", taskman__b="gy_b >"),
                    "arrow up: taskman/cpu/a.c -> taskman/b.c: gy_b")
        self.expect(symbols(taskman__a="gy_a > gy_b", taskman__cpu__b="gy_b > gy_c", taskman__graph__c="gy_c >"))

    def test_a_seam_is_no_arrow_up_and_has_one_client(self):
        pool, other = "gy_pool > gy_ask", "gy_ask gy_other > gy_pool"
        self.expect(symbols(taskman__cpu__a=pool, taskman__b=other), seams=SEAM)
        self.expect(symbols(taskman__cpu__a=pool, taskman__b=other),  # and without the seam
                    "circle of 2 files, 2 arrows: taskman/b.c taskman/cpu/a.c",
                    "arrow up: taskman/cpu/a.c -> taskman/b.c: gy_ask")
        self.expect(symbols(taskman__cpu__a=pool),
                    "taskman/cpu/client.h: gy_ask() is defined by [], not by one client", seams=SEAM)
        self.expect(symbols(taskman__cpu__a=pool, taskman__cpu__b="gy_ask >"),
                    "taskman/cpu/client.h: gy_ask() is defined by ['taskman/cpu/b.c'], not by one client", seams=SEAM)

    def test_a_seam_is_narrow(self):
        wide = {f"gy_ask{i}": "taskman/cpu" for i in range(5)}
        self.expect(symbols(taskman__b=" ".join(wide) + " >"), "taskman/cpu/client.h declares 5 functions, at most 4",
                    seams=wide)

    def test_objects(self):
        """From sources to the answer, with a compiler's objects."""
        sources = {
            "taskman/cpu/client.h": "/* gy_not(this); */\nvoid gy_ask(void);\n",
            "taskman/cpu/a.c": "void gy_ask(void);\nvoid gy_pool(void);\nvoid gy_pool(void) { gy_ask(); }\n",
            "taskman/b.c": "void gy_pool(void);\nvoid gy_ask(void);\nint gy_b;\nvoid gy_ask(void) { gy_pool(); }\n",
            "taskman/graph/c.c": "extern int gy_b;\nint gy_c(void);\nint gy_c(void) { return gy_b; }\n",
        }
        with tempfile.TemporaryDirectory() as root:
            objects = []
            for path, text in sources.items():
                full = pathlib.Path(root, path)
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_text(text)
                if path.endswith(".c"):
                    objects.append(f"{root}/build/lib.dir/{path}.o")
                    os.makedirs(os.path.dirname(objects[-1]), exist_ok=True)
                    subprocess.run([CC, "-c", "-o", objects[-1], str(full)], check=True)
            arguments = [sys.executable, str(TOOL), "--nm", NM, root]
            run = subprocess.run([*arguments, *objects], capture_output=True, text=True)
            self.assertIn("arrow up: taskman/graph/c.c -> taskman/b.c: gy_b\n", run.stdout)
            self.assertNotIn("gy_ask", run.stdout)
            self.assertEqual(run.returncode, 1)
            run = subprocess.run([*arguments, f"{root}/elsewhere.o"], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (1, "no object of the library among them\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
