#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the command says to people: prefixes, suggestions, help on everything, and what a terminal is shown.

Usage: test_messages.py GANTRY
"""
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import fcntl
import unittest

GANTRY = sys.argv[1]


def clean(**environment):
    return {**{name: value for name, value in os.environ.items() if not name.startswith("GANTRY_") and
               name not in ("NO_COLOR", "COLUMNS", "TERM")}, "TERM": "xterm", **environment}


def gantry(*arguments, **environment):
    """Exit status, stdout, stderr."""
    result = subprocess.run([GANTRY, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            env=clean(**environment))
    return result.returncode, result.stdout, result.stderr


def on_terminal(columns, *arguments, **environment):
    """What a terminal of so many columns is sent, with \n at the ends of lines; None: there are no terminals."""
    try:
        terminal, side = pty.openpty()
    except OSError:
        return None
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([GANTRY, *arguments], stdin=subprocess.DEVNULL, stdout=side, stderr=side,
                               env=clean(**environment))
    os.close(side)
    shown = b""
    try:
        while (more := os.read(terminal, 4096)):
            shown += more
    except OSError:
        pass  # how Linux says that the other side is closed
    os.close(terminal)
    process.wait()
    return shown.decode().replace("\r\n", "\n")


def listed(*arguments):
    return [line.split()[0] for line in gantry(*arguments, "--list")[1].splitlines()]


class Messages(unittest.TestCase):
    def test_each_line_on_stderr_says_what_it_is(self):
        for arguments in (["crane"], ["info", "--crane"], ["run", "two_tenants", "--crane"], ["report", "trace", "none"],
                          ["run", "image_pipeline", "--input", "/nowhere", "--driver", "emulated"],
                          ["info", "--partitions", "none.json"], ["info"], ["bench", "--runs", "x", "heap"]):
            status, out, err = gantry(*arguments)
            for line in err.splitlines():
                self.assertRegex(line, r"^gantry: (error|warning|note): \S", arguments)

    def test_samples_that_are_programs_say_errors_as_the_command_does(self):
        status, out, err = gantry("run", "hello_graph", GANTRY_DRIVER="emulated", GANTRY_EMULATOR="/nowhere.so")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"\Agantry: error: [^\n]* \[GANTRY_ERR_NO_DRIVER\]\ngantry: note: 'gantry doctor' [^\n]*\n\Z")

    def test_names_of_files_cannot_harm_a_terminal(self):
        err = gantry("report", "trace", "a\033[2Jb")[2]
        self.assertEqual(err, "gantry: error: a\\x1b[2Jb: No such file or directory\n")

    def test_mistyped_words_are_recognised(self):
        for arguments, meant in ((["inf"], "info"), (["rnu"], "run"), (["reprot", "trace"], "report"), (["hlp"], "help"),
                                 (["help", "recordng"], "recording"), (["help", "hello_grpah"], "hello_graph"),
                                 (["run", "image"], "image_pipeline"), (["bench", "heep"], "heap"),
                                 (["bench", "copies"], "copy"), (["bench", "submitting"], "submit"), (["running"], "run"),
                                 (["bench", "copyright-law"], None), (["bench", "allocator"], None),
                                 (["bench", "--rusn", "3", "heap"], "--runs"), (["info", "--josn"], "--json"),
                                 (["run", "proof_pipeline", "--job=3"], None), (["--verbos", "info"], None),
                                 (["run", "proof_pipeline", "--repaet=3"], "--repeat"),
                                 (["info", "--driver", "emulatd"], "emulated"), (["xyzzy"], None)):
            is_wrong = meant is not None or arguments[-1] in ("xyzzy", "copyright-law", "allocator")
            status, out, err = gantry(*arguments) if is_wrong else gantry(*arguments, "--help")
            if meant is None:
                self.assertNotIn("did you mean", err)
            else:
                self.assertEqual(status, 2)
                self.assertIn(f"; did you mean '{meant}'?\n", err)

    def test_an_abbreviation_of_several_options_names_them(self):
        status, out, err = gantry("run", "proof_pipeline", "--re", "3")
        self.assertEqual(status, 2)
        self.assertIn("--repeat or --reclaim", err)

    def test_what_to_do_next_is_said(self):
        err = gantry("info", "--driver", "emulated", GANTRY_EMULATOR="/nowhere.so")[2]
        self.assertEqual(err.splitlines()[-1], "gantry: note: 'gantry doctor' says what is missing, and how to get it")
        for said, name in ("FILE", "none.pftrace"), (GANTRY, GANTRY):
            self.assertIn(f"; say 'gantry report trace {said}' of a recording, or 'gantry report heap {said}'\n", gantry("report", name)[2])
        self.assertIn("say 'gantry report trace FILE' or 'gantry report heap FILE'\n", gantry("report", "trace")[2])
        self.assertIn("say 'gantry report trace FILE' or 'gantry report heap FILE'\n", gantry("report")[2])

    def test_there_is_help_on_everything(self):
        topics = re.findall(r"(?m)^  ([a-z]+) ", gantry("help")[1].split("Topics of")[1])
        self.assertEqual(topics, sorted(topics))
        self.assertGreaterEqual(len(topics), 6)
        names = listed("run") + listed("bench") + topics
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            status, out, err = gantry("help", name)
            self.assertEqual((status, err), (0, ""), name)
            self.assertGreater(len(out.splitlines()), 3, name)
            self.assertIn(name, out.splitlines()[0])
            self.assertLessEqual(max(map(len, out.splitlines())), 106, name)
        for name in listed("run"):  # what one sees in a sample
            self.assertRegex(gantry("help", name)[1], r"\n\n[A-Z][^\n]*\w+s\b[^\n]*\n", name)

    def test_topics_are_found_by_other_words(self):
        for word, topic in (("partitions", "plans"), ("shares", "plans"), ("trace", "recording"), ("errors", "statuses"), ("variables", "environment"),
                            ("gpu", "emulator")):
            status, out, err = gantry("help", word)
            self.assertEqual((status, err, out), (0, "", gantry("help", topic)[1]), word)
            self.assertNotIn(word, listed("run") + listed("bench"))
        for word in ("partition", "share s", "are", " ", "rror"):  # a bench, and no words
            self.assertFalse(gantry("help", word)[1].startswith(("plans:", "statuses:")), word)

    def test_the_topics_have_what_the_documents_have(self):
        out = gantry("help", "environment")[1]
        for name in ("GANTRY_LOG", "GANTRY_DRIVER", "GANTRY_EMU_FAIL"):
            self.assertRegex(out, rf"(?m)^  {name} +\S")
        self.assertNotRegex(out, r"\]\(|`|<")
        self.assertRegex(gantry("help", "statuses")[1], r"-11 +GANTRY_ERR_NO_DRIVER +no usable CUDA driver library")

    def test_places_in_the_source_are_told_when_asked_for(self):
        for options in (["--verbose"], ["-v"], ["--log", "debug"]):
            err = gantry(*options, "info", "--driver", "emulated", GANTRY_DEVICE="99")[2]
            self.assertRegex(err, r"\[GANTRY_ERR_NO_DEVICE, .*device\.c:\d+\]\n")
        err = gantry("info", "--driver", "emulated", GANTRY_DEVICE="99")[2]
        self.assertNotRegex(err, r"\.c:\d")

    def test_help_fits_a_narrow_terminal(self):
        for arguments in (["help"], ["help", "bench"], ["help", "info"], ["help", "recording"], ["run", "--list"],
                          ["run", "proof_pipeline", "--help"], ["help", "environment"]):
            shown = on_terminal(60, *arguments)
            if shown is None:
                self.skipTest("no terminal")
            long = [line for line in shown.splitlines() if len(line) > 60 and " " in line.strip()]
            self.assertEqual(long, [], arguments)
            wide = on_terminal(120, *arguments)
            self.assertEqual(wide, gantry(*arguments)[1], arguments)  # as it was written
            self.assertEqual(shown.split(), wide.split(), arguments)  # the same words

    def test_colours_are_for_terminals_that_want_them(self):
        shown = on_terminal(80, "crane")
        if shown is None:
            self.skipTest("no terminal")
        self.assertIn("gantry: \033[1;31merror:\033[0m there is no command", shown)
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\033", on_terminal(80, "crane", **environment))
        self.assertIn("\033", on_terminal(80, "crane", NO_COLOR=""))
        self.assertNotIn("\033", gantry("crane")[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
