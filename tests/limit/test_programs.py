#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that know nothing of Gantry, limited and not: `gantry limit`, the preloaded library and its doors, on the
emulated driver under a driver's name.

Usage: test_programs.py BUILD_FOLDER
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
GANTRY, LIBRARY, CHECK = BUILD / "gantry", BUILD / "libgantry-limit.so", BUILD / "libgantry-limit-check.so"
PROGRAM, LINKED = BUILD / "tests/limit_program", BUILD / "tests/limit_linked"
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "tests/driver"))
ENVIRONMENT.pop("LD_PRELOAD", None)
UNCHARGED = {"UNCHARGED": "1"}  # the program is not to wait for its charge
SEEDS = 40


def run(*words, status=0, environment=None):
    """Run it to its end; its output."""
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300,
                            env=dict(ENVIRONMENT, **(environment or {})))
    if result.returncode != status:
        raise AssertionError(f"{words}: {result.returncode} instead of {status}\n{result.stdout}{result.stderr}")
    return result


def limited(share, *words, status=0, environment=None, options=()):
    return run(GANTRY, "limit", "--share", share, *options, "--", *words, status=status, environment=environment)


def told(result):
    """What the program printed, as one object; and nothing but that was printed anywhere."""
    if result.stderr:
        raise AssertionError(f"on stderr: {result.stderr}")
    return json.loads(result.stdout)


def jobs():
    """And what all of them share."""
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith((f"gantry-limit-{os.geteuid()}-", f"gantry-devices-{os.geteuid()}")))


class Doors(unittest.TestCase):
    """By whatever door a program comes: what it computes is the same, and it is charged."""

    def check(self, program, door):
        free, paid = told(run(program, "doors", door)), told(limited(50, program, "doors", door))
        self.assertEqual(paid["word"], free["word"])
        self.assertEqual(free["charged_ms"], 0)
        self.assertEqual(paid["unmeasured"], 0)
        self.assertGreater(paid["charged_ms"], 29.8)  # 30 kernels of 1 ms, each group less the bias of its events
        self.assertLess(paid["charged_ms"], 30.1)

    def test_doors(self):
        for door in ("dlsym", "default", "next", "dlvsym", "getproc", "getproc2", "ptsz"):
            with self.subTest(door=door):
                self.check(PROGRAM, door)

    def test_exported_names(self):
        self.check(LINKED, "exported")

    def test_kinds_of_work(self):
        free, paid = told(run(PROGRAM, "kinds")), told(limited(90, PROGRAM, "kinds"))
        self.assertEqual(paid["word"], free["word"])
        for kind in ("kernel", "ex", "cooperative", "graph", "fill", "fill_now", "copy"):
            self.assertGreater(paid[kind], 0, kind)
        self.assertEqual(paid["upload"], 0)
        self.assertGreater(told(limited(90, PROGRAM, "kinds", options=["--copies"]))["upload"], 0)

    def test_constructors_that_come_first(self):
        """A linked library's runs before ours, and keeps what it finds."""
        with tempfile.TemporaryDirectory() as folder:
            source, library, program = (pathlib.Path(folder, name) for name in ("a.c", "libearly.so", "program"))
            source.write_text("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <string.h>\nstatic void *found;\n"
                              "__attribute__((constructor)) static void early(void)\n"
                              f"{{ found = dlsym(dlopen(\"{BUILD}/libgantry-emu.so\", RTLD_NOW), \"cuLaunchKernel\"); }}\n"
                              "int is_limited(void)\n"
                              "{ Dl_info i; return dladdr(found, &i) && strstr(i.dli_fname, \"gantry-limit\") ? 5 : 1; }\n")
            run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
            source.write_text("int is_limited(void);\nint main(void) { return is_limited(); }\n")
            run("cc", "-o", program, source, library, f"-Wl,-rpath,{folder}")
            limited(50, program, status=5)

    def test_what_is_between_launches(self):
        """Copies and what the host does are not the kernels' time: a group ends before them."""
        for events in told(limited(90, PROGRAM, "between"))[1:]:
            self.assertGreaterEqual(events, 3)  # the first is alone on its stream: its end has an event, its cost is known

    def test_what_is_waited_for_at_once(self):
        """Its cost is known and its stream empty: no events, but for those by which the cost is measured again."""
        found = told(limited(90, PROGRAM, "waited"))
        self.assertLess(found["events"], 400)  # of 200 pieces; those that a busy host saw late are measured next
        self.assertGreater(found["charged_us"], 0)
        self.assertEqual(found["unmeasured"], 0)

    def test_what_lies_behind_is_not_asked_about(self):
        """Of the groups of a stream the first is asked about alone: has it begun, has it ended."""
        found = told(limited(100, PROGRAM, "queued"))
        self.assertLessEqual(found["questions"], 2 * (found["looks"] + 1))
        self.assertEqual(found["unmeasured"], 0)

    def test_streams_that_go_with_open_groups(self):
        """No event is recorded on a stream that is destroyed, and none is left behind."""
        found = told(limited(90, PROGRAM, "destroyed"))
        self.assertEqual((found["unmeasured"], found["failed"]), (0, 0))

    def test_a_driver_that_is_opened_late(self):
        """What asks for a name before there is a driver gets none, and finds the library's when there is one."""
        self.assertGreater(told(limited(50, PROGRAM, "late"))["charged_ms"], 29.8)

    def test_what_runs_longer_than_before(self):
        """What is charged by its cost is what the host saw, when that is much more."""
        self.assertGreater(told(limited(90, PROGRAM, "longer"))["charged_ms"], 25)

    def test_other_devices_are_left_alone(self):
        self.assertEqual(told(limited(50, PROGRAM, "doors", "dlsym", options=["--device", "3"], environment=UNCHARGED))["charged_ms"], 0)

    def test_python_finds_it_by_ctypes(self):
        """HAMi#2641: NCCL by ctypes."""
        code = ("import ctypes, sys; lib = ctypes.CDLL('libcuda.so.1'); f = ctypes.c_void_p(); "
                "sys.exit(lib.cuInit(0) or lib['cuGetProcAddress_v2'](b'cuLaunchKernel', ctypes.byref(f), 13000, "
                "ctypes.c_ulonglong(0), None) or not f.value)")
        limited(50, sys.executable, "-c", code)


class Library(unittest.TestCase):
    def test_exports(self):
        """Names of a driver, dlsym and dlvsym, and nothing else."""
        lines = run("nm", "-D", "--defined-only", LIBRARY).stdout.split("\n")
        names = {line.split()[2] for line in lines if line}
        self.assertLessEqual({"dlsym", "dlvsym", "cuLaunchKernel_ptsz", "cuGetProcAddress_v2"}, names)
        self.assertEqual([name for name in names if not re.fullmatch(r"cu[A-Z]\w+|dlsym|dlvsym", name)], [])
        self.assertEqual(run("nm", "-D", "--defined-only", CHECK).stdout.split()[2:], ["InitializeInjection"])

    def test_runs_on_old_systems(self):
        """No symbol of the C library is younger than 2.28, and no other library is needed."""
        for library in (LIBRARY, CHECK):
            wanted = re.findall(r"GLIBC_([0-9.]+)", run("objdump", "-T", library).stdout)
            self.assertTrue(wanted)
            self.assertLessEqual(max(tuple(map(int, version.split("."))) for version in wanted), (2, 28))
            needed = set(re.findall(r"NEEDED +(\S+)", run("objdump", "-p", library).stdout))
            self.assertLessEqual({"libdl.so.2", "libpthread.so.0"}, needed)  # where the functions were before 2.34
            self.assertLessEqual(needed, {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"})

    def test_nothing_before_the_first_launch(self):
        """No file, and no thread."""
        before = jobs()
        code = ("import ctypes, os; lib = ctypes.CDLL('libcuda.so.1'); lib.cuInit(0); "
                "print(open('/proc/self/maps').read().count('gantry-limit-'), os.listdir('/dev/shm'))")
        self.assertTrue(limited(50, sys.executable, "-c", code).stdout.startswith("0 "))
        self.assertEqual(jobs(), before)


class Results(unittest.TestCase):
    def test_random_programs(self):
        """What every call returns and what memory holds at the end: equal, limited or not."""
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                self.assertEqual(told(limited((5, 30, 90)[seed % 3], PROGRAM, "random", seed)),
                                 told(run(PROGRAM, "random", seed)))

    def test_captures_stay_whole(self):
        """HAMi#1360: they have the program's nodes alone."""
        free, paid = told(run(PROGRAM, "capture")), told(limited(50, PROGRAM, "capture"))
        self.assertEqual(paid, free)

    def test_threads(self):
        """Legacy, per-thread and own streams at the same time; each thread looks at its own results."""
        for share in (20, 90):
            self.assertTrue(told(limited(share, PROGRAM, "threads"))["done"])

    def test_our_failures_are_ours(self):
        free, paid = told(run(PROGRAM, "failures")), told(limited(90, PROGRAM, "failures"))
        self.assertEqual(paid["word"], free["word"])
        self.assertGreater(paid["unmeasured"], 0)

    def test_contexts_come_and_go(self):
        free, paid = told(run(PROGRAM, "contexts")), told(limited(90, PROGRAM, "contexts"))
        self.assertEqual(paid["word"], free["word"])
        self.assertEqual(paid["events"], 0)  # none is left behind

    def test_a_primary_context_is_released(self):
        """Once of two times: it lives on; then for good."""
        self.assertEqual(told(limited(90, PROGRAM, "primary")), told(run(PROGRAM, "primary")))

    def test_spinning_for_a_later_launch(self):
        """HAMi-core#142: what is held is let through when nothing ends."""
        self.assertGreaterEqual(told(limited(30, PROGRAM, "spin"))["credits"], 1)


    def test_devices_that_wait_for_each_other(self):
        """How many steps they get is for test_coupled.c to say: here the machine may be busy."""
        found = told(limited(30, PROGRAM, "ranks", environment={"GANTRY_EMU_DEVICES": "2"}))
        self.assertGreater(found["charged_ms"], 0)
        self.assertEqual(found["credits"], 0)


class Processes(unittest.TestCase):
    def setUp(self):
        self.before = jobs()

    def tearDown(self):
        run(GANTRY, "limit", "--share", 50, "--", "true")  # sweeps what was killed
        self.assertEqual(jobs(), self.before)

    def test_fork(self):
        """HAMi-core PR #292."""
        first, second, done = limited(50, PROGRAM, "fork").stdout.split()
        self.assertGreater(json.loads(first)["charged_ms"], 29)
        self.assertGreater(json.loads(second)["charged_ms"], 29)
        self.assertTrue(json.loads(done)["done"])

    def test_exit_under_load(self):
        for how in ("exit", "_exit") * 10:
            told(limited(30, PROGRAM, "leave", how))

    def test_killed(self):
        """HAMi#2500: a process that is killed leaves nothing that others wait for."""
        name = f"killed-{os.getpid()}"
        for _ in range(5):
            process = subprocess.Popen([GANTRY, "limit", "--share", "30", "--job", name, "--", PROGRAM, "leave", "wait"],
                                       stdout=subprocess.PIPE, env=ENVIRONMENT)
            self.assertTrue(json.loads(process.stdout.readline())["ready"])
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            self.assertGreater(told(limited(30, PROGRAM, "doors", "dlsym", options=["--job", name]))["charged_ms"], 29)

    def test_a_job_by_its_file(self):
        """What a process left that did not leave is removed, wherever it lies."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "job")
            told(limited(30, PROGRAM, "leave", "_exit", options=["--job", path]))
            self.assertTrue(path.exists())
            told(limited(90, PROGRAM, "leave", "exit", options=["--job", path]))
            self.assertEqual(os.listdir(folder), [])

    def test_a_file_that_is_cut_short(self):
        """The program goes on, and its results are the same."""
        with tempfile.TemporaryDirectory() as folder:
            result = limited(90, PROGRAM, "truncated", options=["--job", pathlib.Path(folder, "job")])
            self.assertEqual(json.loads(result.stdout), told(run(PROGRAM, "truncated")))

    def test_a_signal_of_the_programs_own(self):
        """SIGBUS from elsewhere ends a program as without a limit."""
        limited(90, PROGRAM, "bus", status=-signal.SIGBUS)

    def test_two_that_leave_at_once(self):
        """The later one removes the file."""
        name = f"pair-{os.getpid()}"
        for _ in range(10):
            pair = [subprocess.Popen([GANTRY, "limit", "--share", "90", "--job", name, "--", PROGRAM, "doors", "dlsym"],
                                     stdout=subprocess.DEVNULL, env=dict(ENVIRONMENT, **UNCHARGED)) for _ in range(2)]
            self.assertEqual([process.wait(timeout=120) for process in pair], [0, 0])
            self.assertEqual([job for job in jobs() if name in job], [])

    def test_one_budget_and_status(self):
        """Who joins a job shares its bucket, and the status shows both."""
        name = f"joined-{os.getpid()}"
        process = subprocess.Popen([GANTRY, "limit", "--share", "30", "--job", name, "--", PROGRAM, "leave", "wait"],
                                   stdout=subprocess.PIPE, env=ENVIRONMENT)
        self.assertTrue(json.loads(process.stdout.readline())["ready"])
        told(run(GANTRY, "limit", "--join", name, "--", PROGRAM, "doors", "dlsym"))
        job, = told(run(GANTRY, "limit", "--status", "--json", "--job", name))["jobs"]
        self.assertEqual((job["share_percent"], job["processes"], len(job["devices"])), (30, 1, 1))
        self.assertGreater(job["devices"][0]["charged_s"], 0.029)
        text = run(GANTRY, "limit", "--status").stdout
        self.assertIn(f"-{name}  share 30 %, processes 1", text)
        self.assertIn("has a share of 30 %, not 50 %",
                      run(GANTRY, "limit", "--share", 50, "--job", name, "--", "true", status=125).stderr)
        process.kill()
        process.wait()
        process.stdout.close()

    def test_overrun(self):
        """A kernel that never ends is told of, and killed where that was asked for."""
        result = limited(50, PROGRAM, "forever", status=-signal.SIGKILL,
                         options=["--overrun", "kill", "--overrun-after", "100ms"])
        self.assertIn("has run for more than 100 ms: the process is killed", result.stderr)


class Command(unittest.TestCase):
    def test_exit_status(self):
        for status in (0, 7):
            self.assertEqual(limited(50, "sh", "-c", f"exit {status}", status=status).stdout, "")
        limited(50, "sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)
        limited(50, "no-such-program", status=127)
        limited(50, BUILD / "CMakeCache.txt", status=126)
        limited(50, BUILD / "CMakeCache.txt/program", status=126)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script")
            script.write_text("#!/no/such/interpreter\n")
            script.chmod(0o700)
            limited(50, script, status=127)

    def test_wrong_calls(self):
        for words, says in (((), "which program"), (("--", "true"), "which share"), (("--share", "0", "true"), "percent"),
                            (("--share", "nan", "true"), "percent"), (("--share", "30", "--device", "1,", "true"), "ordinals"),
                            (("--share", "30", "--job", "a b", "true"), "no name"), (("--join", "no-such-job", "true"), "no job"),
                            (("--share", "30", "--overrun", "kill", "true"), "--overrun-after"), (("--status", "true"), "no program")):
            with self.subTest(words=words):
                result = run(GANTRY, "limit", *words, status=125)
                self.assertIn(says, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_options_behind_the_program_are_its_own(self):
        self.assertEqual(limited(50, "echo", "--help", "--share").stdout, "--help --share\n")

    def test_others_stay_preloaded(self):
        out = limited(50, "sh", "-c", "echo $LD_PRELOAD", environment={"LD_PRELOAD": "libpthread.so.0"}).stdout
        self.assertEqual(out, f"{LIBRARY}:libpthread.so.0\n")

    def test_behind_a_sanitizer(self):
        """Its runtime is found in the program's file and loaded first."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "a.c"), pathlib.Path(folder, "checked")
            source.write_text("#include <dlfcn.h>\nint main(void) { return dlsym(RTLD_NEXT, \"malloc\") != 0 && "
                              "dlsym(RTLD_DEFAULT, \"cuLaunchKernel\") == 0 ? 5 : 1; }\n")
            if subprocess.run(["cc", "-fsanitize=address", "-D_GNU_SOURCE", "-o", program, source], capture_output=True).returncode != 0:
                self.skipTest("no AddressSanitizer for cc")
            self.assertEqual(limited(50, program, status=5, environment={"ASAN_OPTIONS": "detect_leaks=0"}).stderr, "")

    def test_what_is_not_reached(self):
        with tempfile.TemporaryDirectory() as folder:
            source, static = pathlib.Path(folder, "a.c"), pathlib.Path(folder, "static")
            source.write_text("int main(void) { return 3; }\n")
            run("cc", "-static", "-o", static, source)
            self.assertIn("linked statically", limited(50, static, status=3).stderr)
            self.assertIn("linked statically", limited(50, static, status=125, options=["--strict"]).stderr)

    def test_a_lost_preload(self):
        """A child of a strict job that drops LD_PRELOAD ends when it initialises CUDA; a tool that is injected stays."""
        lost = ("env", "-u", "LD_PRELOAD", PROGRAM, "doors", "dlsym")
        result = limited(50, *lost, status=125, options=["--strict"])
        self.assertRegex(result.stderr, r"^gantry limit: process \d+ ends: libgantry-limit.so is not loaded with it, and the job is strict\n$")
        self.assertEqual(result.stdout, "")
        self.assertEqual(told(limited(50, *lost, environment=UNCHARGED))["charged_ms"], 0)
        self.assertGreater(told(limited(50, PROGRAM, "doors", "dlsym", options=["--strict"]))["charged_ms"], 29.8)
        tool = ("sh", "-c", "echo $CUDA_INJECTION64_PATH")
        self.assertEqual(limited(50, *tool, options=["--strict"], environment={"CUDA_INJECTION64_PATH": "/tool.so"}).stdout, "/tool.so\n")
        self.assertEqual(limited(50, *tool, options=["--strict"]).stdout, f"{CHECK}\n")

    def test_a_driver_of_a_namespace_of_its_own(self):
        """dlmopen(): a strict job ends it, another one lets it compute."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "a.c"), pathlib.Path(folder, "apart")
            source.write_text("#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(void) { void *cuda = dlmopen(LM_ID_NEWLM, \"libcuda.so.1\", RTLD_NOW); "
                              "return ((int (*)(unsigned))dlsym(cuda, \"cuInit\"))(0) == 0 ? 5 : 1; }\n")
            run("cc", "-o", program, source, "-ldl")
            self.assertIn("is not loaded with it", limited(50, program, status=125, options=["--strict"]).stderr)
            limited(50, program, status=5)

    def test_bad_job_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "job")
            path.write_text("something else")
            path.chmod(0o600)
            result = limited(50, PROGRAM, "doors", "dlsym", options=["--job", path], environment=UNCHARGED)
            self.assertIn("without a limit", result.stderr)
            self.assertEqual(json.loads(result.stdout)["charged_ms"], 0)
            self.assertEqual(path.read_text(), "something else")
            self.assertIn("by its size", limited(50, "true", status=125, options=["--job", path, "--strict"]).stderr)

    def test_nobody_reads_stderr(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run(["true"], stderr=writer, env=dict(ENVIRONMENT, LD_PRELOAD=str(LIBRARY), GANTRY_LIMIT_JOB="/job",
                                                                  GANTRY_LIMIT_SETTINGS="nonsense"))
        os.close(writer)
        self.assertEqual(result.returncode, 0)

    def test_explain(self):
        text = run(GANTRY, "limit", "--explain").stdout
        self.assertIn("not reached", text)
        self.assertIn(str(LIBRARY), text)


if __name__ == "__main__":
    unittest.main()
