#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command `gantry`, as a user meets it.

Usage: test_cli.py GANTRY VERSION NVML

NVML is a stand-in for that library.
"""
import json
import tempfile
import os
import re
import resource
import signal
import subprocess
import sys
import unittest

GANTRY = sys.argv[1]
VERSION = sys.argv[2]
NVML = sys.argv[3]
OF_THE_MACHINE = ("GANTRY_", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LOG_FILE", "CUDA_MPS_")
# The thread sanitizer, many times slower: what takes it longest is left out.
LIGHT = bool(os.environ.get("GANTRY_TEST_LIGHT"))


def gantry(*arguments, **environment):
    """Exit status, stdout, stderr."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_MACHINE)}
    result = subprocess.run([GANTRY, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            env={**inherited, **environment})
    return result.returncode, result.stdout, result.stderr


class Cli(unittest.TestCase):
    def expect_usage_error(self, arguments, *texts):
        status, out, err = gantry(*arguments)
        self.assertEqual((status, out), (2, ""), err)
        for text in texts:
            self.assertIn(text, err)

    def test_version(self):
        self.assertEqual(gantry("--version"), (0, f"gantry {VERSION}\n", ""))

    def test_help_names_every_command(self):
        for arguments in (["--help"], ["help"]):
            status, out, err = gantry(*arguments)
            self.assertEqual((status, err), (0, ""))
            for name in ("info", "run", "bench", "help"):
                self.assertRegex(out, rf"(?m)^  {name} ")

    def test_help_of_a_command(self):
        for name in ("info", "run", "report", "bench"):
            for arguments in (["help", name], ["--help", name], [name, "--help"], [name, "-h"]):
                status, out, err = gantry(*arguments)
                self.assertEqual((status, err), (0, ""))
                self.assertTrue(out.startswith(f"usage: gantry {name} "))
        for sample in gantry("run", "--list")[1].splitlines():
            name = sample.split()[0]
            status, out, err = gantry("run", name, "--help")
            self.assertEqual((status, err), (0, ""))
            self.assertTrue(out.startswith(f"usage: gantry run {name}"))

    def test_no_command_prints_the_overview_as_an_error(self):
        self.expect_usage_error([], "usage: gantry")

    def test_unknown_names_are_named(self):
        self.expect_usage_error(["crane"], "'crane'")
        self.expect_usage_error(["help", "crane"], "'crane'")
        self.expect_usage_error(["run", "crane"], "'crane'")
        self.expect_usage_error(["bench", "crane"], "'crane'")
        self.expect_usage_error(["info", "crane"], "'crane'")
        self.expect_usage_error(["info", "--driver", "opencl"], "'opencl'")
        self.expect_usage_error(["--log", "loud", "run"], "'loud'")
        self.expect_usage_error(["bench", "--driver", "opencl", "all"], "'opencl'")

    def test_words_that_nothing_takes_are_named(self):
        for arguments in (["--version"], ["--help", "info"], ["help", "info"], ["help", "help"], ["info"],
                          ["info", "--json"], ["run", "--list"], ["bench", "--list"], ["bench", "heap"],
                          ["report", "trace", "no.pftrace"]):
            self.expect_usage_error([*arguments, "crane"], "unexpected argument 'crane'")
        for sample in gantry("run", "--list")[1].splitlines():
            name = sample.split()[0]
            self.expect_usage_error(["run", name, "crane"], f"{name}: unexpected argument 'crane'")
        self.expect_usage_error(["report", "crane", "no.pftrace"], "there is no report 'crane'")

    def test_options_that_exclude_each_other_are_refused(self):
        for arguments in (["info", "--partitions", "plan.json", "--copies"],
                          ["info", "--partitions", "plan.json", "--calibrate"],
                          ["info", "--links", "--copies"],
                          ["report", "trace", "no.pftrace", "--format", "html", "--json"],
                          ["report", "trace", "no.pftrace", "--diff", "other.pftrace", "--waterfall"]):
            self.expect_usage_error(arguments, *(word for word in arguments if word.startswith("--")))
        self.expect_usage_error(["bench", "--list", "--runs", "x"], "--runs", "'x'")

    def test_unknown_options_are_named(self):
        self.expect_usage_error(["--crane"], "--crane")
        self.expect_usage_error(["-x"], "-x")
        self.expect_usage_error(["run", "--crane"], "run: unknown option --crane")
        self.expect_usage_error(["bench", "-x", "all"], "bench: unknown option -x")

    def test_arguments_of_options_are_checked(self):
        self.expect_usage_error(["--log"], "--log needs an argument")
        self.expect_usage_error(["bench", "--runs"], "--runs needs an argument")
        self.expect_usage_error(["bench", "--json=yes", "all"], "--json=yes takes no argument")
        for number in ("0", "-1", "x", "1x", "", "100001", "99999999999999999999"):
            self.expect_usage_error(["bench", "--runs", number, "all"], "--runs")

    def test_samples_name_what_they_do_not_take(self):
        for sample, option, value in (("critical_latency", "--samples", "x"), ("critical_latency", "--wait", "long"),
                                      ("two_tenants", "--seconds", "nan"), ("two_tenants", "--shares", "100,1"),
                                      ("proof_pipeline", "--jobs", "0"), ("image_pipeline", "--workers", "-1"),
                                      ("stencil", "--steps", "3"), ("stencil", "--halo", "x"), ("tile_cholesky", "--kernels", "mkl"),
                                      ("proof_pipeline", "--concurrency", "1,x"), ("proof_pipeline", "--gate", "yes"),
                                      ("scale_vector", "--driver", "opencl")):
            self.expect_usage_error(["run", sample, option, value], sample, option, f"'{value}'")
            self.expect_usage_error(["run", sample, "--crane"], f"{sample}: unknown option --crane")

    def options_of(self, *words):
        """The long options in a help text that take an argument, and what stands for it: {"--runs": "N"}."""
        return dict(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z0-9-]+) ([A-Z]\w*)\b", gantry(*words, "--help")[1]))

    @unittest.skipIf(LIGHT, "two hundred processes, of which none has a second thread yet")
    def test_every_option_of_every_sample_refuses_what_it_does_not_take(self):
        # Any text is the name of a file or a folder; whether there is one is not known before it is opened.
        files = {("image_pipeline", "--input"), ("image_pipeline", "--output"), ("image_pipeline", "--dump-graph"),
                 ("proof_pipeline", "--timeline")}
        tried = set()
        for line in gantry("run", "--list")[1].splitlines():
            sample = line.split()[0]
            for option in self.options_of("run", sample):
                status, out, err = gantry("run", sample, option)
                self.assertEqual((status, out), (2, ""), (sample, option))
                self.assertIn(f"{sample}: option {option} needs an argument", err)
                if (sample, option) in files:
                    continue
                for value in ("x,", "-1", "99999999999"):
                    status, out, err = gantry("run", sample, option, value, GANTRY_DRIVER="emulated")
                    self.assertEqual((status, out), (2, ""), (sample, option, value, err))
                    self.assertIn(f"try 'gantry run {sample} --help'", err)
                tried.add((sample, option))
        self.assertGreaterEqual(len(tried), 30)
        for some in (("stencil", "--devices"), ("tile_cholesky", "--devices"), ("image_pipeline", "--device"),
                     ("critical_latency", "--critical-sms"), ("two_tenants", "--shares")):
            self.assertIn(some, tried)

    def test_devices_that_are_not_there_are_wrong_arguments(self):
        for sample, option, value in (("stencil", "--devices", "0,0"), ("stencil", "--devices", "0,9"), ("stencil", "--devices", ""),
                                      ("tile_cholesky", "--devices", "9"), ("tile_cholesky", "--devices", "0,,1"),
                                      ("image_pipeline", "--device", "9"), ("critical_latency", "--critical-sms", "10000"),
                                      ("stencil", "--rows", "3"), ("tile_cholesky", "--tile", "65"), ("tile_cholesky", "--size", "65")):
            status, out, err = gantry("run", sample, option, value, GANTRY_DRIVER="emulated")
            self.assertEqual((status, out), (2, ""), (sample, option, value, err))
            if option in ("--device", "--devices"):
                self.assertEqual(err.count("gantry: error: "), 1, err)  # one line has the cause
            if value == "9":
                self.assertRegex(err, r"^gantry: error: no device 9: there (are|is) \d")

    def test_every_option_of_every_command_refuses_what_it_does_not_take(self):
        files = {("info", "--partitions"), ("report", "--diff"), ("report", "--output"), ("doctor", "--root")}
        words = {"bench": ["all"], "report": ["trace", "no.pftrace"]}
        tried = 0
        for command in ("info", "run", "report", "bench", "doctor"):
            for option in self.options_of(command):
                self.expect_usage_error([command, *words.get(command, []), option], f"{command}: option {option} needs an argument")
                if (command, option) not in files:
                    self.expect_usage_error([command, option, "x,", *words.get(command, [])], option, "'x,'")
                    tried += 1
        self.assertGreaterEqual(tried, 4)
        self.expect_usage_error(["report", "trace", "no.pftrace", "--format", "x,"], "--format", "'x,'")
        self.expect_usage_error(["report", "trace", "no.pftrace", "--format"], "report: option --format needs an argument")

    def test_a_sample_or_bench_must_be_named(self):
        self.expect_usage_error(["run"], "which sample?")
        self.expect_usage_error(["bench"], "which bench?")

    def test_info_shows_the_device_and_why_this_driver(self):
        status, out, err = gantry("info", "--driver", "emulated")
        self.assertEqual((status, err), (0, ""))
        self.assertTrue(out.startswith(f"gantry {VERSION}\n"))
        self.assertIn("asked for with --driver", out)
        self.assertRegex(out, r"(?m)^multiprocessors +[1-9]")

    def plan(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8",
                                           errors="surrogateescape")
        self.addCleanup(os.unlink, file.name)
        with file:
            file.write(text)
        return file.name

    def test_info_carries_out_a_plan_and_checks_it(self):
        plan = self.plan('{"partitions": [{"name": "critical", "size": "at_least", "sm_count": 10, "priority": -1},'
                         '{"name": "bulk", "sm_count": 32}, {"name": "other", "size": "rest"}]}')
        status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", plan)
        if status == 1 and "reads no plans" in err:
            self.assertIn("libcjson-dev", err)  # what a build without it says; the rest is for one with it
            print("note: built without cJSON, so plans are not read")
            return
        self.assertEqual((status, err), (0, ""))
        shown = json.loads(out)
        self.assertEqual([(p["name"], p["granted_sms"], p["seen_sms"], p["seen_in_graph"], p["strays"], p["overlap"])
                          for p in shown["partitions"]],
                         [("critical", 16, 16, 16, 0, 0), ("bulk", 32, 32, 32, 0, 0), ("other", 84, 84, 84, 0, 0)])
        self.assertEqual(shown["unnamed"], {"seen_sms": 84, "seen_in_graph": 84, "strays": 0})
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", plan)
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"\(a task of none\) +84 +84 +0\n")
        self.assertRegex(out, r"other +84 +84 +84 +84 +0 +0 +0 .*\(default\)")
        self.assertRegex(out, r"(?m)^critical +8 +-1 +- +not divided$")
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", self.plan(
            '{"partitions": [{"name": "a", "sm_count": 16, "cluster_size": 8, "workqueue_limit": 4, "workqueue_scope":'
            '"balanced"}]}'), GANTRY_EMU_PROFILE="b200,cuda=13010")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"(?m)^a +8 +0 +4 +balanced$")
        self.assertRegex(out, r"(?m)^default +0 +0 +8 +shared$")
        status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", self.plan(
            '{"partitions": [{"name": "a", "sm_count": 16, "workqueues_of": "b"}, {"name": "b", "sm_count": 16, "workqueue_limit": 3}]}'),
            GANTRY_EMU_PROFILE="cuda=13010")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual([p["workqueue_limit"] for p in json.loads(out)["partitions"]], [3, 3, 8])
        for text, named in [('{"partitions": [{"nam": "a"}]}', "nam"), ('{"partitions": [{"name": "a", "sm_count": -1}]}', "sm_count"),
                            ('{"plan": []}', "plan"), ("[1]", "no JSON object"),
                            ('{"partitions": [{"name": "a", "sm_count": 1000}]}', "1000"),
                            ('{"partitions": [{"name": "a", "share": 50}]}', 'not an object like {"percent": 25}'),
                            ('{"partitions": [], "partitions": []}', '"partitions": twice'),
                            ('{"partitions": [{"name": "a", "name": "b"}]}', '"name": twice'),
                            ('{"partitions": [{"name": "a", "share": {"percent": 1, "percent": 1}}]}', '"percent": twice'),
                            ('{"partitions": []}\n{}', 'json:2: text after the object: "{}"'),
                            ('{"partitions": []}\0', 'a byte of value 0 after the object'),
                            ('{"\\u001b[3m": []}', r'"\x1b[3m": ')]:
            status, out, err = gantry("info", "--driver", "emulated", "--partitions", self.plan(text))
            self.assertEqual((status, out), (1, ""))
            self.assertIn(named, err)
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", self.plan('{"partitions":\n[}'))
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^gantry: error: .*\.json:2: no JSON object")
        for path, why in (("there/is/no.json", "No such file or directory"), ("/", "Is a directory")):
            self.assertEqual(gantry("info", "--partitions", path), (1, "", f"gantry: error: {path}: {why}\n"))

    def test_info_lets_what_names_no_partition_borrow(self):
        for rest in ('"size": "rest", "borrows": "critical"', '"sm_count": 32, "default": true, "borrows": "critical"'):
            plan = self.plan('{"partitions": [{"name": "critical", "size": "at_least", "sm_count": 16}, {"name": "bulk", '
                             + rest + "}]}")
            status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", plan)
            if "reads no plans" in err:
                print("note: built without cJSON, so plans are not read")
                return
            self.assertEqual((status, err), (0, ""))
            shown = json.loads(out)
            wide = 16 + shown["partitions"][1]["granted_sms"]
            self.assertEqual(shown["unnamed"], {"seen_sms": wide, "seen_in_graph": wide, "strays": 0})
            self.assertEqual([p["seen_sms"] for p in shown["partitions"]], [16, wide - 16])
            status, out, err = gantry("info", "--driver", "emulated", "--partitions", plan)
            self.assertEqual((status, err), (0, ""))
            self.assertRegex(out, rf"\(a task of none\) +{wide} +{wide} +0  \({wide} with borrowed ones\)\n")

    def test_info_carries_out_a_plan_on_a_driver_that_divides_nothing(self):
        text = '"partitions": [{"name": "critical", "sm_count": 16, "priority": -1}, {"name": "bulk", "size": "rest"}]}'
        plan = self.plan('{"fallback": "priority", ' + text)
        status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", plan, GANTRY_EMU_PROFILE="cuda=12030")
        if "reads no plans" in err:
            print("note: built without cJSON, so plans are not read")
            return
        told = ("gantry: warning: there are no green contexts here: the 2 partitions are streams with priorities, each on "
                "all 132 SMs\n")
        self.assertEqual((status, err), (0, told))
        shown = json.loads(out)
        self.assertEqual((shown["total_sms"], shown["is_divided"]), (132, False))
        self.assertEqual([(p["granted_sms"], p["seen_sms"], p["priority"]) for p in shown["partitions"]],
                         [(132, 132, -1), (132, 132, 0)])
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", plan, GANTRY_EMU_PROFILE="cuda=12030")
        self.assertEqual((status, err), (0, told))
        self.assertIn("which this driver does not divide\n", out)
        self.assertIn("none: streams with priorities, on all multiprocessors\n", out)
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", self.plan("{" + text),
                                  GANTRY_EMU_PROFILE="cuda=12030")
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err.count("CUDA 12.3"), 1)

    def test_info_shows_what_shares_come_to(self):
        text = ('{"partitions": [{"name": "the \\"half\\"", "sm_count": 64, "share": {"percent": 25}},'
                '{"name": "rest", "size": "rest"}]}')
        plan = self.plan(text.replace("rest", "r\udce9st", 1))  # a byte that is no UTF-8
        status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", plan)
        if "reads no plans" in err:
            print("note: built without cJSON, so plans are not read")
            return
        self.assertEqual((status, err), (0, ""))
        half, rest = json.loads(out)["partitions"]
        self.assertEqual((half["name"], half["share"]["target"], rest["share"]), ('the "half"', 0.25, None))
        self.assertEqual(rest["name"], "r\ufffdst")
        self.assertGreater(half["share"]["since_ns"], 0)
        self.assertGreater(half["share"]["measured"], 0)
        self.assertLess(half["share"]["measured"], 1)
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", self.plan(text))
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r'(?m)^the "half" +25\.0 % +[0-9.]+ % +[0-9.]+ % +[0-9.]+ % +[0-9.]+ %$')

    def test_info_does_not_wait_for_a_tiny_share(self):
        plan = self.plan('{"partitions": [{"name": "a", "sm_count": 16, "share": {"percent": 0.0000001}},'
                         '{"name": "b", "size": "rest"}]}')
        status, out, err = gantry("info", "--driver", "emulated", "--partitions", plan)
        if "reads no plans" in err:
            print("note: built without cJSON, so plans are not read")
            return
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"(?m)^a +1e-07 % is too small to be measured here$")
        status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", plan)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(json.loads(out)["partitions"][0]["share"], {"target": 1e-9, "measured": None})

    @unittest.skipIf(LIGHT, "plans are carried out by the same threads on every device")
    def test_info_carries_out_plans_elsewhere(self):
        plan = self.plan('{"partitions": [{"name": "a", "size": "at_least", "sm_count": 6}, {"name": "b", "size": "rest"}]}')
        if "reads no plans" in gantry("info", "--driver", "emulated", "--partitions", plan)[2]:
            print("note: built without cJSON, so plans are not read")
            return
        for environment, sizes, facts in [
                ({"GANTRY_EMU_PROFILE": "mig"}, [8, 8], {"is_mig": True, "total_sms": 16, "mps_percentage": 0}),
                ({"GANTRY_EMU_PROFILE": "small"}, [8, 8], {"is_mig": False, "total_sms": 16}),
                ({"GANTRY_EMU_PROFILE": "b200"}, [8, 140], {"total_sms": 148, "is_structured": False}),
                ({"GANTRY_EMU_PROFILE": "b200,cuda=13010"}, [8, 140], {"is_structured": True}),
                ({"GANTRY_EMU_PROFILE": "mps"}, [8, 124], {"mps_percentage": 100}),
                ({"GANTRY_EMU_PROFILE": "mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, [8, 124], {"mps_percentage": 50})]:
            status, out, err = gantry("info", "--json", "--driver", "emulated", "--partitions", plan, **environment)
            self.assertEqual(status, 0, err)
            shown = json.loads(out)
            self.assertEqual({name: shown[name] for name in facts}, facts)
            self.assertEqual([p["seen_sms"] for p in shown["partitions"]], sizes)
            self.assertEqual("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is 50" in err,
                             "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in environment)

    def test_info_as_json(self):
        status, out, err = gantry("info", "--json", GANTRY_DRIVER="emulated")
        self.assertEqual((status, err), (0, ""))
        info = json.loads(out)
        self.assertEqual((info["version"], info["driver"]), (VERSION, "emulated"))
        self.assertIn("GANTRY_DRIVER", info["why"])
        self.assertGreater(info["device"]["total_sms"], 0)
        self.assertRegex(info["device"]["uuid"], "^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

    def test_info_shows_work_queues_and_the_driver_s_log(self):
        def info(**environment):
            status, out, err = gantry("info", "--driver", "emulated", **environment)
            self.assertEqual((status, err), (0, ""))
            return out, json.loads(gantry("info", "--json", "--driver", "emulated", **environment)[1])
        out, shown = info()
        self.assertRegex(out, r"(?m)^work queues +not told by drivers before CUDA 13\.1 \(CUDA_DEVICE_MAX_CONNECTIONS is not set")
        self.assertRegex(out, r"(?m)^driver's log +nowhere \(CUDA_LOG_FILE is not set")
        self.assertNotRegex(out, r"(?m)^MPS")
        self.assertEqual((shown["mps"], shown["log_file"]), (None, None))
        means = {"jemalloc": "jemalloc, built with the library", "installed": "jemalloc as installed; .*GLIBC_TUNABLES", "none": "no jemalloc"}
        self.assertRegex(out, rf"(?m)^small blocks +{means[shown['small_allocator']]}")
        out, shown = info(GANTRY_EMU_PROFILE="cuda=13010", CUDA_DEVICE_MAX_CONNECTIONS="16", CUDA_LOG_FILE="stderr")
        self.assertRegex(out, r"(?m)^work queues +16, shared, can be handed on \(CUDA_DEVICE_MAX_CONNECTIONS is 16\)$")
        self.assertRegex(out, r"(?m)^driver's log +in stderr \(CUDA_LOG_FILE\)$")
        self.assertEqual(shown["work_queues"], {"limit": 16, "scope": "shared", "can_be_handed_on": True,
                                                "max_connections": "16"})
        self.assertEqual(shown["log_file"], "stderr")
        for asked, limit in (("", 8), ("0", 8), ("no", 8), ("1", 1), ("32", 32), ("99", 32)):
            shown = info(GANTRY_EMU_PROFILE="cuda=13010", CUDA_DEVICE_MAX_CONNECTIONS=asked)[1]
            self.assertEqual(shown["work_queues"]["limit"], limit, asked)
        out, shown = info(GANTRY_EMU_PROFILE="cuda=12030", CUDA_LOG_FILE="stderr")
        self.assertRegex(out, r"(?m)^driver's log +nowhere: this driver writes none$")
        self.assertIsNone(shown["log_file"])

    def test_info_tells_limits_of_mps_apart(self):
        def mps(device="mps", **environment):
            status, out, err = gantry("info", "--driver", "emulated", GANTRY_EMU_PROFILE=device, **environment)
            self.assertEqual((status, err), (0, ""))
            return re.search(r"(?m)^MPS +(.*)$", out)[1]
        nvml = {"LD_LIBRARY_PATH": os.path.dirname(NVML)}  # counts the cores of 132 multiprocessors
        self.assertEqual(mps(**nvml), "a client without a limit: 132 of 132 multiprocessors")
        self.assertEqual(mps(),
                         "a client without a limit: 132 multiprocessors; NVML does not say of how many")
        self.assertEqual(mps(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50", **nvml),
                         "active thread percentage 50: 132 of 132 multiprocessors")  # the emulated driver has no limit
        self.assertEqual(mps("mig,mps", **nvml), "16 of 132 multiprocessors: a limit of the MPS server")
        self.assertEqual(mps("mig,mps", CUDA_MPS_SM_PARTITION="GPU-1/Dx4", **nvml),
                         "static partition GPU-1/Dx4: 16 of 132 multiprocessors")
        shown = json.loads(gantry("info", "--json", "--driver", "emulated", GANTRY_EMU_PROFILE="mig,mps",
                                  CUDA_MPS_SM_PARTITION="GPU-1/Dx4", **nvml)[1])
        self.assertEqual(shown["mps"], {"percentage": 100, "static_partition": "GPU-1/Dx4", "total_sms": 16, "device_sms": 132})

    def test_info_shows_how_copies_are_performed(self):
        status, out, err = gantry("info", "--copies", "--driver", "emulated")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("blocks: HtoD 4 and DtoH 4 of 1024 threads", out)
        self.assertRegex(out, r"copy engines at most \(preset\)")

    def test_info_measures_copies(self):
        status, out, err = gantry("info", "--calibrate", "--json", "--driver", "emulated")
        self.assertEqual(status, 0, err)
        copies = json.loads(out)["copies"]
        self.assertTrue(copies["measured"])
        self.assertEqual([len(row) for row in copies["engine_up_to"].values()], [8, 8, 8])

    def test_info_says_why_there_is_no_device(self):
        status, out, err = gantry("info", "--driver", "emulated", GANTRY_EMULATOR="/nowhere/libgantry-emu.so")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("/nowhere/libgantry-emu.so", err)
        self.assertIn("GANTRY_ERR_NO_DRIVER", err)
        status, out, err = gantry("info", "--driver", "emulated", GANTRY_DEVICE="99")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("99", err)

    def test_what_the_emulated_driver_cannot_take_is_told(self):
        for variable, text, why, status in (
                ("GANTRY_EMU_DEVICES", "many", "a number from 1 to [0-9]+: there is no device", 1),
                ("GANTRY_EMU_DEVICES", "0", "a number from 1 to [0-9]+: there is no device", 1),
                ("GANTRY_EMU_PROFILE", "h300", "h200, b200, mig or small, with settings behind commas: there is no device", 1),
                ("GANTRY_EMU_PROFILE", "h200,fast", "h200, b200, mig or small, with settings behind commas: there is no device", 1),
                ("GANTRY_EMU_PROFILE", "mps=1", "h200, b200, mig or small, with settings behind commas: there is no device", 1),
                ("GANTRY_EMU_THREADS", "2x", "a number from 1 to [0-9]+: it is ignored", 0)):
            told, out, err = gantry("info", "--driver", "emulated", **{variable: text})
            self.assertEqual(told, status, err)
            self.assertRegex(err, rf'(?m)^gantry-emu: \${variable} is "{text}", not {why}$')
        for variable in ("GANTRY_EMU_DEVICES", "GANTRY_EMU_PROFILE", "GANTRY_EMU_THREADS"):
            status, out, err = gantry("info", "--driver", "emulated", **{variable: ""})
            self.assertEqual((status, err), (0, ""))

    def test_log_level(self):
        self.assertEqual(gantry("--log", "error", "info", GANTRY_DRIVER="emulated")[2], "")
        status, out, err = gantry("--log", "debug", "info", "--driver", "emulated", GANTRY_DEVICE="99")
        self.assertEqual(status, 1)
        self.assertIn("gantry: error: ", err)

    def test_a_bench_of_two_devices_is_refused_on_one(self):
        status, out, err = gantry("bench", "--driver", "emulated", "fleet", GANTRY_EMU_DEVICES="1")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("gantry: error: bench fleet: cannot run: it needs 2 devices, and there is 1\n", err)

    def test_every_bench_gives_verified_results(self):
        names = [line.split()[0] for line in gantry("bench", "--list")[1].splitlines()]
        self.assertIn("heap", names)
        if LIGHT:
            names.remove("heap")  # its threads are those of heap.crowd
        for name in names:
            status, out, err = gantry("bench", "--json", "--runs", "1", "--driver", "emulated", name, GANTRY_NVTX="")
            self.assertEqual((status, err), (0, ""), name)
            self.assertTrue(out)
            for line in out.splitlines():
                result = json.loads(line)
                result.pop("ratio_error", None)  # of pairs of runs
                for more in ("ratio_low", "ratio_high", "streams", "graphs", "rounds", "taken") if name == "ways" else ():
                    self.assertIn(more, result)
                    del result[more]
                self.assertEqual(list(result), ["name", "value", "unit", "yardstick", "yardstick_value", "ratio",
                                                "verified", "emulated"])
                self.assertTrue(result["name"].startswith(name + "/"), line)
                self.assertNotEqual(result["unit"].strip(), "", line)
                # A thread notes when it saw what the device wrote: where all CPUs are busy with emulating, that is late.
                is_late = result["emulated"] and result["name"].startswith("latency/publish")
                if not is_late and not result["name"].endswith(("-adds", "-hidden")):  # differences of two runs
                    self.assertGreater(result["value"], 0)
                self.assertIs(result["verified"], True)
                self.assertIs(result["emulated"], name not in ("tasks", "bandwidth"))  # these need no device

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_what_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w") as full:
            for arguments in (["--version"], ["help"], ["bench", "--list"], ["info", "--driver", "emulated"],
                              ["completion", "bash"]):  # more than stdio keeps, so that an earlier write has failed
                result = subprocess.run([GANTRY, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual((result.returncode, result.stderr),
                                 (1, "gantry: error: standard output: No space left on device\n"))

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_page_that_cannot_be_written_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = os.path.join(folder, "run.pftrace")
            subprocess.run([GANTRY, "run", "hello_graph"], check=True, capture_output=True,
                           env={**os.environ, "GANTRY_DRIVER": "emulated", "GANTRY_PROFILE": recording})
            for format in ("html", "json", "text"):
                done = subprocess.run([GANTRY, "report", "trace", recording, "--format", format, "-o", "/dev/full"], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (1, "gantry: error: /dev/full: No space left on device\n"))

    def test_a_page_for_which_there_is_no_room_leaves_nothing(self):
        def at_most_64_kib():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as on a full disk, write() fails
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        with tempfile.TemporaryDirectory() as folder:
            recording, page = os.path.join(folder, "run.pftrace"), os.path.join(folder, "page.html")
            subprocess.run([GANTRY, "run", "hello_graph"], check=True, capture_output=True,
                           env={**os.environ, "GANTRY_DRIVER": "emulated", "GANTRY_PROFILE": recording})
            done = subprocess.run([GANTRY, "report", "trace", recording, "-o", page], capture_output=True, text=True, preexec_fn=at_most_64_kib)
            self.assertEqual((done.returncode, done.stderr), (1, f"gantry: error: {page}: File too large\n"))
            self.assertEqual(os.listdir(folder), ["run.pftrace"])

    def test_no_file_takes_the_place_of_a_closed_standard_output(self):
        for arguments in (["--version"], ["info", "--driver", "emulated"]):
            result = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", GANTRY, *arguments], stderr=subprocess.PIPE,
                                    text=True)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "gantry: error: standard output: Bad file descriptor\n"))

    def test_the_programs_among_the_samples_run_too(self):
        for arguments, said in ((["hello_graph"], "look: 1000 of 1000 numbers are 3 i + 1\n"),
                                (["host_pool"], "right: 90 squares, 10 runs on 2 threads of the host\n"),
                                (["fork_join", "--count", "1000", "--leaf", "10", "--workers", "2"],
                                 "right: one loop says ")):
            status, out, err = gantry("run", *arguments, GANTRY_DRIVER="emulated")
            self.assertEqual((status, err), (0, ""))
            self.assertIn(said, out)

    def test_an_error_is_told_once_and_without_places_unless_asked(self):
        samples = [line.split()[0] for line in gantry("run", "--list")[1].splitlines()]
        for name in samples:
            of_fleet = name in ("stencil", "tile_cholesky")  # which uses the devices it is told, or all
            status, out, err = gantry("run", name, *(["--devices", "99"] if of_fleet else []), GANTRY_DEVICE="99",
                                      GANTRY_EMU_DEVICES="1", GANTRY_DRIVER="emulated")
            if name in ("fork_join", "host_pool"):  # they need no device
                self.assertEqual(status, 0)
                continue
            self.assertEqual(status, 2 if of_fleet else 1, err)  # an argument is wrong, or the environment
            self.assertEqual(err.count("no device 99"), 1, err)
            if name == "hello_graph":  # prints what gantry_last_error() says
                self.assertEqual(err, "gantry: error: no device 99: there are 1 [GANTRY_ERR_NO_DEVICE]\n")
            else:
                self.assertIn("gantry: error: no device 99: there are 1 [GANTRY_ERR_NO_DEVICE]\n", err)
        err = gantry("--log", "debug", "run", "scale_vector", GANTRY_DEVICE="99", GANTRY_DRIVER="emulated")[2]
        self.assertRegex(err, r"no device 99: there are 1 \[GANTRY_ERR_NO_DEVICE, .*device\.c:\d+\]\n")

    def test_a_machine_without_a_device_is_no_fault(self):
        status, out, err = gantry("run", "proof_pipeline", "--repeat", "1", "--concurrency", "1", "--rows-log2", "4")
        self.assertEqual(status, 0)
        if "without a GPU" in err:
            self.assertRegex(err, r"^gantry: note: running on the emulated driver, without a GPU \(.*\)\n$")
        self.assertNotIn("cannot open shared object", err)

    def test_hints_lead_to_the_help_that_is_needed(self):
        for arguments, hint in ((["crane"], "gantry help"), (["version"], "gantry --version"),
                                (["info", "crane"], "gantry help info"), (["bench", "--runs", "x"], "gantry help bench"),
                                (["run", "crane"], "gantry help run"), (["report"], "gantry help report"),
                                (["run", "two_tenants", "--crane"], "gantry run two_tenants --help")):
            self.expect_usage_error(arguments, f"\ngantry: note: try '{hint}'\n")

    def test_lists(self):
        for command in ("run", "bench"):
            status, out, err = gantry(command, "--list")
            self.assertEqual((status, err), (0, ""))
            for line in out.splitlines():
                self.assertRegex(line, r"^  [a-z0-9_]+ +\S")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
