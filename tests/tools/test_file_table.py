#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/file_table.py writes the tables that the files make, and complains about what it cannot write."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/file_table.py"
DOCUMENT = """# A

<!-- The tables below are made by tools/file_table.py. -->
old
<!-- The tables end here. -->

## B
"""


class FileTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("docs/design/architecture.md", DOCUMENT)
        self.write("heap/a.h", "/* What a heap of 2 < 3 | things is, see\n * b.c.  More: of it.\n */\n#ifndef A\n")
        self.write("heap/a.c", "/* How it is done. */\n")
        self.write("heap/in/b.c", "/* The other part: with one thing.\n *\n * a --> b */\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def run_tool(self, *arguments):
        run = subprocess.run([sys.executable, TOOL, *arguments, self.root], capture_output=True, text=True)
        return run.returncode, run.stdout

    def table(self):
        return (self.root / "docs/design/architecture.md").read_text()

    def test_rows_are_first_sentences(self):
        self.assertEqual(self.run_tool()[0], 0)
        self.assertIn("### heap\n\n| file | what it is |\n|---|---|\n"
                      "| `a.c`, `a.h` | What a heap of 2 &lt; 3 \\| things is, see b.c |\n\n### heap/in\n", self.table())
        self.assertIn("| `b.c` | The other part: with one thing |\n", self.table())
        self.assertTrue(self.table().startswith("# A\n") and self.table().endswith("\n## B\n"))
        self.assertNotIn("old", self.table())

    def test_a_second_run_changes_nothing(self):
        self.run_tool()
        before = self.table()
        self.assertEqual(self.run_tool("--check")[0], 0)
        self.run_tool()
        self.assertEqual(self.table(), before)

    def test_check_notices_a_new_file_and_writes_nothing(self):
        self.run_tool()
        before = self.table()
        self.write("base/c.h", "/* New. */\n")
        status, output = self.run_tool("--check")
        self.assertEqual((status, self.table()), (1, before))
        self.assertIn("run tools/file_table.py", output)

    def test_check_notices_another_sentence(self):
        self.run_tool()
        self.write("heap/in/b.c", "/* Another part. */\n")
        self.assertEqual(self.run_tool("--check")[0], 1)

    def test_a_file_without_a_head_is_named(self):
        self.write("heap/c.c", '#include "heap/a.h"\n/* Not a head. */\n')
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("heap/c.c:1: ", output)

    def test_a_long_sentence_is_named(self):
        self.write("heap/c.c", "/* " + "word " * 50 + "*/\n")
        self.assertIn("heap/c.c:1: its first sentence has 249 characters", self.run_tool()[1])

    def test_other_heads(self):
        self.write("tools/t.py", '#!/usr/bin/env python3\n"""Does it.\n\nUsage: t\n"""\n')
        self.write("tools/t.sh", "#!/bin/sh\n# Does that, by J. Doe.  Not much.\necho\n")
        self.write("cmake/T.cmake", "# Finds it.\n#\n# Then more.\nset(a b)\n")
        self.run_tool()
        for row in ("`t.py` | Does it |", "`t.sh` | Does that, by J. Doe |", "`T.cmake` | Finds it |"):
            self.assertIn(row, self.table())

    def test_a_document_without_the_lines_is_refused(self):
        self.write("docs/design/architecture.md", "# A\n")
        self.assertEqual(self.run_tool()[0], 1)
        self.assertEqual(self.table(), "# A\n")


if __name__ == "__main__":
    unittest.main()
