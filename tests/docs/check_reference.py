#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Everything public is described, and there is a manual page for each function, struct and enum.

Usage: check_reference.py SOURCE_DIR

Exits with 77 where Doxygen is not installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()


def reference(source, output):
    return subprocess.run([sys.executable, SOURCE / "tools/site/reference.py", source, output], text=True, capture_output=True, check=False)


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.done = reference(SOURCE, cls.ours)

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_all_that_is_public_is_described(self):
        self.assertEqual((self.done.returncode, self.done.stdout.strip(), self.done.stderr), (0, "", ""))
        pages = {path.stem: path.read_text() for path in self.ours.glob("man3/*.3")}
        headers = "".join(path.read_text() for path in (SOURCE / "include/gantry").glob("*.h") if path.name != "host_module.h")
        code = re.sub(r"/\*\* @cond\b.*?@endcond\b|/\*.*?\*/", "", headers, flags=re.S)  # what is between those is a header's own
        public = set(re.findall(r"^GANTRY_API[^;]*?\b(gantry_\w+)\s*\(", code, re.M))
        public |= set(re.findall(r"\b(?:struct|enum) (gantry_\w+) \{", code))
        self.assertGreater(len(public), 200)
        self.assertEqual(public - set(pages), set())
        for name, page in pages.items():
            self.assertRegex(page, rf"(?s)\.SH NAME\n{name} \\- \S.*\.SH SYNOPSIS\n.*\.SH DESCRIPTION\n.*\w", name)
        html = "".join(path.read_text() for path in self.ours.glob("reference/*.rst"))
        self.assertEqual({name for name in public if not re.search(rf"\.\. c:\w+:: [^\n]*\b{name}\b", html)}, set())

    def test_every_class_of_the_cpp_header_is_in_its_page(self):
        page = (self.ours / "reference/gantry.hpp.rst").read_text()
        headers = "".join(path.read_text() for path in (SOURCE / "include/gantry").glob("**/*.hpp"))
        outside = re.sub(r"(?ms)^namespace detail\n\{.*?^\} // namespace detail", "", headers)
        classes = set(re.findall(r"(?m)^(?:template <[^\n]*> )?(?:class|struct) (?:\[\[[^\]]*\]\] )?(\w+)", outside)) - {"graph_state"}
        self.assertGreater(len(classes), 20)
        self.assertEqual(classes - set(re.findall(r"(?m)^\.\. cpp:class:: gantry::(\w+)$", page)), set())
        self.assertIn(".. describe:: context_ref(const context &owned)", page)
        # Each stands for something, whose handle or address it gives.
        values = {"context_calls", "device_span", "error", "place", "shape", "span", "typed_kernel"}
        for name in classes - values:
            text = re.search(rf"(?ms)^\.\. cpp:class:: gantry::{name}$(.*?)(?=^\S|\Z)", page)[1]
            self.assertRegex(text, r"(?m)\bget\(\)( const)?$|owner<", name)

    def test_the_returned_statuses_are_in_the_page(self):
        page = (self.ours / "man3/gantry_task_start_after.3").read_text()
        self.assertIn("gantry_status gantry_task_start_after(gantry_task *task, gantry_task *predecessor);", page)
        self.assertIn(".B GANTRY_ERR_LATE_DEPENDENCY", page)
        self.assertIn("gantry_task_add_reference(3)", page)

    def test_examples_are_in_the_pages(self):
        shown = re.findall(r"\bexample_(gantry_\w+)\([^\n]*\)\n\{", "\n".join(path.read_text() for path in (SOURCE / "docs/reference").glob("examples*.c")))
        self.assertGreaterEqual(len(shown), 30)
        for name in shown:
            self.assertRegex((self.ours / f"man3/{name}.3").read_text(), r"\.SH EXAMPLES\n\.nf\n.*\w")

    def test_what_lacks_a_description_is_named(self):
        (self.folder / "include/gantry").mkdir(parents=True)
        for declaration, name in (("GANTRY_API void gantry_new(void);", "gantry_new"),
                                  ("/** A struct. */\ntypedef struct gantry_new {\n    int told; /* what */\n    int untold;\n} gantry_new;", "untold"),
                                  ("/** An enum. */\ntypedef enum gantry_new {\n    GANTRY_TOLD, /* what */\n    GANTRY_UNTOLD,\n} gantry_new;",
                                   "GANTRY_UNTOLD"),
                                  ("#define GANTRY_NEW 3", "GANTRY_NEW"),
                                  ("typedef int (*gantry_new_fn)(void);", "gantry_new_fn")):
            (self.folder / "include/gantry/base.h").write_text(f"/**\n * @file base.h\n * A header.\n */\n{declaration}\n")
            done = reference(self.folder, self.folder / "out")
            self.assertEqual(done.returncode, 1, declaration)
            self.assertRegex(done.stdout, rf"{name}\b.* is not documented")

    def test_a_macro_of_several_lines_is_described_behind_its_last(self):
        (self.folder / "include/gantry").mkdir(parents=True)
        (self.folder / "include/gantry/base.h").write_text("/**\n * @file base.h\n * A header.\n */\n#define GANTRY_NEW \\\n    4u /* what it is for */\n")
        done = reference(self.folder, self.folder / "out")
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, "", ""))
        self.assertIn("what it is for", (self.folder / "out/reference/base.h.rst").read_text())


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("skipped: doxygen is missing (package doxygen)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
