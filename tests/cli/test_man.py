#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gantry(1) has every command, option, sample and bench, and the formatter has nothing to say about it.

Usage: test_man.py GANTRY PAGE
"""
import re
import shutil
import subprocess
import sys
import unittest

GANTRY, PAGE = sys.argv[1:3]


def gantry(*arguments):
    return subprocess.run([GANTRY, *arguments], check=True, capture_output=True, text=True).stdout


def names(text):
    return re.findall(r"(?m)^  ([a-z][a-z0-9_]*) ", text)


def overview():
    """The commands, and the topics of help."""
    commands, topics = gantry("help").split("\nTopics of")
    return [name for name in names(commands) if name != "help"], names(topics)


class Man(unittest.TestCase):
    def setUp(self):
        with open(PAGE, encoding="utf-8") as file:
            self.page = file.read().replace("\\-", "-").replace("\\&", "")  # a hyphen, nothing before a dot

    def test_everything_that_help_says_is_there(self):
        commands, topics = overview()
        self.assertGreaterEqual(len(commands), 4)
        samples, benches = names(gantry("run", "--list")), names(gantry("bench", "--list"))
        self.assertGreaterEqual(len(benches), 5)
        texts = [gantry("help")] + [gantry("help", name) for name in commands]
        texts += [gantry("run", name, "--help") for name in samples]
        texts += [gantry("help", name) for name in [*benches, *topics] if name not in ("environment", "exit")]
        for name in commands:
            self.assertIn(f"\n.SS gantry {name}\n", self.page)
        for name in samples:
            self.assertIn(f"\n.SS gantry run {name}\n", self.page)
        for name in benches:
            self.assertRegex(self.page, rf"(?m)^  {name} ")
        options = {option for text in texts for option in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text)}
        self.assertGreaterEqual(len(options), 20)
        self.assertEqual({option for option in options if not re.search(rf"{option}\b", self.page)}, set())
        for text in texts:
            self.assertIn(text.rstrip("\n"), self.page)

    def test_it_has_examples_and_every_exit_status(self):
        examples = self.page.split("\n.SH EXAMPLES\n")[1].split("\n.SH ")[0]
        commands = re.findall(r"(?m)^    (?:[A-Z_]+=\S+ )*gantry ([a-z]+) ", examples + " ")
        self.assertEqual(set(commands), set(overview()[0]))
        self.assertIn("\n    gantry info\n", examples)
        statuses = self.page.split("\n.SH EXIT STATUS\n")[1].split("\n.SH ")[0]
        self.assertEqual(re.findall(r"\b\d+\b", statuses), ["0", "1", "2", "130", "125", "126", "127"])

    def test_it_has_the_variables(self):
        variables = re.findall(r"(?m)^\.B ([A-Z_]+)$", self.page)
        self.assertIn("GANTRY_DRIVER", variables)
        self.assertGreater(len(variables), 15)
        self.assertNotRegex(self.page, r"\]\(|`")

    def test_the_formatter_has_no_complaint(self):
        if shutil.which("groff") is None:
            self.skipTest("there is no groff")
        run = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", PAGE], capture_output=True, text=True)
        complaints = [line for line in run.stderr.splitlines() if "cannot adjust line" not in line and
                      "can't break line" not in line]  # of longer lines than the page is wide
        self.assertEqual((run.returncode, complaints), (0, []))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
