#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_environment.py GANTRY HELLO_GRAPH: the file that $GANTRY_PROFILE names, where several processes have the same one."""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GANTRY, PROGRAM = sys.argv[1:3]


class Environment(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gantry-profile-")
        self.addCleanup(shutil.rmtree, self.folder)

    def record(self, name, **environment):
        """What a program that records says, and the files that there are then."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("GANTRY_") or key == "GANTRY_EMULATOR"}
        run = subprocess.run([PROGRAM], capture_output=True, text=True,
                             env={**inherited, **environment, "GANTRY_DRIVER": "emulated", "GANTRY_PROFILE": os.path.join(self.folder, name)})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stderr, sorted(os.listdir(self.folder))

    def expect_whole(self, name):
        path = os.path.join(self.folder, name)
        run = subprocess.run([GANTRY, "report", "trace", path], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_file_that_another_process_records_into(self):
        path = os.path.join(self.folder, "run.pftrace")
        with open(path, "w", encoding="utf-8") as file:
            file.write("theirs")
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            told, files = self.record("run.pftrace")
            self.assertIn("another process records into the file of $GANTRY_PROFILE; this one into " + path + ".", told)
            self.assertEqual(len(files), 2)
            self.assertRegex(files[1], r"^run\.pftrace\.\d+$")
            self.expect_whole(files[1])
            with open(path, encoding="utf-8") as theirs:
                self.assertEqual(theirs.read(), "theirs")
        told, files = self.record("run.pftrace")  # it has ended, and the file is old
        self.assertEqual((told, len(files)), ("", 2))
        self.expect_whole("run.pftrace")

    def test_a_device_is_nobody_s(self):
        with open("/dev/null", "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertEqual(self.record("/dev/null"), ("", []))

    def test_names_with_parts(self):
        self.assertEqual(self.record("%q{RANK}.%h.%%.pftrace", RANK="3"), ("", [f"3.{os.uname().nodename}.%.pftrace"]))
        told, files = self.record("p%p")
        self.assertEqual(told, "")
        self.assertEqual(len([name for name in files if re.match(r"p\d+$", name)]), 1)

    def test_a_name_that_stands_for_nothing(self):
        told, files = self.record("%q{NONE}.pftrace")
        self.assertEqual(told, "gantry: note: nothing is recorded into $GANTRY_PROFILE: $GANTRY_PROFILE: %q{NONE}: there is no "
                               "such variable [GANTRY_ERR_INVALID_ARGUMENT]\n")
        self.assertEqual(files, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
