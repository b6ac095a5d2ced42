#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bash, zsh and fish complete behind gantry.  A shell that is not installed is left out, but for bash.

Usage: test_completion.py GANTRY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GANTRY = os.path.abspath(sys.argv[1])


def gantry(*arguments):
    return subprocess.run([GANTRY, *arguments], check=True, capture_output=True, text=True).stdout


def listed(command):
    return [line.split()[0] for line in gantry(command, "--list").splitlines()]


BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_gantry 2>&1
printf '%s\\n' "${COMPREPLY[@]}"
"""
# compadd and _files exist in a completion only.
ZSH = """
compdef() { : }
compadd() { local word; shift; for word in $@; do case $word in $PREFIX*) print -r -- $word ;; esac; done }
_files() { print -r -l -- $PREFIX*(N) }
source "$1"; shift
complete_words() { local -a words; words=("$@"); local CURRENT=$# PREFIX=${@[-1]}; _gantry }
complete_words "$@"
"""


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for shell in ("bash", "zsh", "fish"):
            (self.folder / f"script.{shell}").write_text(gantry("completion", shell))
        (self.folder / "run.pftrace").touch()

    def run_shell(self, *command):
        result = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, stdin=subprocess.DEVNULL,
                                env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual(result.stderr, "", command)
        return result.stdout

    def bash(self, *words):
        return self.run_shell("bash", "--norc", "-c", BASH, "bash", "script.bash", *words).split()

    def zsh(self, *words):
        return self.run_shell("zsh", "-f", "-c", ZSH, "zsh", "script.zsh", *words).split()

    def fish(self, *words):
        out = self.run_shell("fish", "--no-config", "-c", "source script.fish; complete -C \"$argv\"", "--", *words)
        return [line.split("\t")[0] for line in out.splitlines()]

    def check(self, complete):
        commands = re.findall(r"(?m)^  ([a-z]+) ", gantry("help").split("\nTopics")[0])
        self.assertEqual(sorted(complete("gantry", "")), sorted(commands))
        self.assertEqual(complete("gantry", "be"), ["bench"])
        self.assertEqual(sorted(complete("gantry", "run", "")), listed("run"))
        self.assertEqual(complete("gantry", "--log", "debug", "run", "hello"), ["hello_graph"])
        self.assertEqual(sorted(complete("gantry", "bench", "--runs", "3", "")), sorted([*listed("bench"), "all"]))
        self.assertEqual(complete("gantry", "bench", "--ru"), ["--runs"])
        self.assertEqual(complete("gantry", "bench", "--runs", ""), [])  # a number
        self.assertEqual(sorted(complete("gantry", "info", "--driver", "")), ["auto", "cuda", "emulated"])
        self.assertEqual(complete("gantry", "run", "proof_pipeline", "--reclaim", "b"), ["bounded"])
        self.assertEqual(complete("gantry", "run", "proof_pipeline", "--conc"), ["--concurrency"])
        self.assertEqual(complete("gantry", "run", "two_tenants", "--sha"), ["--shares"])
        self.assertEqual(sorted(complete("gantry", "report", "")), ["heap", "trace"])
        self.assertEqual(complete("gantry", "report", "tr"), ["trace"])
        self.assertEqual(complete("gantry", "report", "heap", "run."), ["run.pftrace"])
        self.assertEqual(complete("gantry", "report", "trace", "run."), ["run.pftrace"])
        self.assertEqual(complete("gantry", "report", "trace", "x", "--diff", "run."), ["run.pftrace"])
        self.assertEqual(complete("gantry", "help", "recor"), ["recording"])
        self.assertIn("heap", complete("gantry", "help", ""))

    def test_bash(self):
        self.check(self.bash)
        self.assertEqual(self.bash("gantry", "info", "--driver", "=", "em"), ["emulated"])  # its way of --driver=em

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh(self):
        self.check(self.zsh)

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish(self):
        self.check(self.fish)

    def test_every_option_of_help_is_completed(self):
        for name in listed("run"):
            options = set(re.findall(r"(?m)^ +(?:-[a-z], )?(--[a-z0-9-]+)", gantry("help", name)))
            self.assertEqual(options - set(self.bash("gantry", "run", name, "--")), set(), name)
        for name in ("info", "report", "bench", "doctor"):
            options = set(re.findall(r"(?m)^ +(?:-[a-z], )?(--[a-z0-9-]+)", gantry("help", name)))
            self.assertEqual(options - set(self.bash("gantry", name, "--")), set(), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
