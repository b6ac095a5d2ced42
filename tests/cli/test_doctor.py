#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gantry doctor, on this machine and on others that are made of files.

Usage: test_doctor.py GANTRY FAKE (a CUDA driver whose cuInit() fails as it is told)
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

GANTRY, FAKE = sys.argv[1:3]


def doctor(*arguments, **environment):
    """Exit status, stdout, stderr."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(
                 ("GANTRY_", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LOG_FILE", "CUDA_MPS_"))}
    result = subprocess.run([GANTRY, "doctor", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            env={**inherited, **environment})
    return result.returncode, result.stdout, result.stderr


def findings(*arguments, **environment):
    """Exit status, the object, and its findings by name."""
    status, out, err = doctor("--json", *arguments, **environment)
    assert err == "", err
    found = json.loads(out)
    return status, found, {one["name"]: one for one in found["findings"]}


HAS_CUDA = findings()[1]["driver"] == "cuda"


class Doctor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def put(self, path, text="", mode=0o666):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def put_gpu(self):
        self.put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
        self.put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
        self.put("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n")  # its sound
        self.put("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n")

    def look(self):
        return findings("--root", str(self.root))

    def test_this_machine(self):
        status, found, by_name = findings()
        self.assertEqual((status, found["ok"]), (0, True), found)
        self.assertIn(found["driver"], ("cuda", "emulated"))
        self.assertEqual(by_name["emulated driver"]["state"], "ok")
        self.assertEqual("may be opened at run time" in by_name["small blocks"]["found"], by_name["small blocks"]["state"] == "ok")
        status, out, err = doctor()
        self.assertEqual((status, err), (0, ""))
        for one in found["findings"]:
            self.assertRegex(out, rf"(?m)^{one['state']} +{one['name']} ")
        self.assertRegex(out, r"\nAll is well")

    @unittest.skipIf(HAS_CUDA, "the driver of this machine works")
    def test_what_the_environment_says(self):
        _, _, by_name = findings()
        self.assertIn("CUDA_DEVICE_MAX_CONNECTIONS is", by_name["work queues"]["found"])
        self.assertNotIn("MPS", by_name)
        _, _, by_name = findings(GANTRY_EMU_PROFILE="mps", CUDA_MPS_SM_PARTITION="GPU-1/Dx4", CUDA_LOG_FILE="stderr",
                                 CUDA_DEVICE_MAX_CONNECTIONS="2")
        self.assertEqual(by_name["driver's log"]["found"], "CUDA_LOG_FILE is stderr")
        self.assertIn("CUDA_DEVICE_MAX_CONNECTIONS is 2", by_name["work queues"]["found"])
        self.assertTrue(by_name["MPS"]["found"].startswith("static partition GPU-1/Dx4: 132 multiprocessors; NVML does"))

    @unittest.skipIf(HAS_CUDA, "the driver of this machine works")
    def test_a_machine_without_a_gpu_is_no_fault(self):
        status, found, by_name = self.look()
        self.assertEqual((status, found["ok"], found["driver"]), (0, True, "emulated"))
        self.assertEqual({by_name[name]["state"] for name in ("GPU", "NVIDIA driver")}, {"absent"})
        self.assertNotIn("kernel module", by_name)
        self.assertIn("emulated driver", doctor("--root", str(self.root))[1].splitlines()[-1])
        self.assertNotIn("cannot open shared object", doctor()[1])

    def test_a_driver_that_is_installed_and_fails_is_a_fault(self):
        (self.root / "libcuda.so.1").symlink_to(FAKE)
        for code, name in (("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), ("46", ""), ("999", "CUDA_ERROR_UNKNOWN")):
            status, found, by_name = findings("--root", str(self.root), LD_LIBRARY_PATH=str(self.root), FAKE_DRIVER_INIT=code)
            self.assertEqual((status, found["ok"], by_name["NVIDIA driver"]["state"]), (1, False, "fault"))
            self.assertIn(f"{name} ({code})", by_name["NVIDIA driver"]["found"])
            self.assertIn("does not start", by_name["NVIDIA driver"]["advice"])
        for code in ("34", "100"):
            status, found, by_name = findings("--root", str(self.root), LD_LIBRARY_PATH=str(self.root), FAKE_DRIVER_INIT=code)
            self.assertEqual((status, by_name["NVIDIA driver"]["state"]), (0, "absent"))

    @unittest.skipIf(HAS_CUDA, "the driver of this machine works")
    def test_a_gpu_without_its_driver_is_a_fault(self):
        self.put_gpu()
        status, found, by_name = self.look()
        self.assertEqual((status, found["ok"]), (1, False))
        self.assertEqual(by_name["GPU"]["found"], "1 NVIDIA GPU among the PCI devices")
        self.assertEqual(by_name["kernel module"]["state"], "fault")
        self.assertEqual(by_name["NVIDIA driver"]["state"], "fault")
        self.assertIn("nvidia-driver", by_name["NVIDIA driver"]["advice"])
        self.assertIn("programs cannot use it", doctor("--root", str(self.root))[1])

    @unittest.skipIf(HAS_CUDA, "the driver of this machine works")
    def test_a_container_needs_to_be_given_the_gpu(self):
        self.put_gpu()
        self.put(".dockerenv")
        self.assertIn("--gpus all", self.look()[2]["NVIDIA driver"]["advice"])

    @unittest.skipIf(HAS_CUDA, "the driver of this machine works")
    def test_permissions_and_missing_files_are_told(self):
        self.put("proc/driver/nvidia/version", "NVRM version: 580.1\nGCC\n")
        self.put("dev/nvidiactl")
        self.put("dev/nvidia3", mode=0)
        status, found, by_name = self.look()
        self.assertEqual(status, 1)
        self.assertEqual((by_name["kernel module"]["state"], by_name["kernel module"]["found"]),
                         ("ok", "NVRM version: 580.1"))
        self.assertEqual(by_name["permission"]["state"], "ok")
        self.assertIn("nvidia-modprobe", by_name["permission, memory"]["advice"])
        if os.access(self.root / "dev/nvidia3", os.R_OK):
            return  # root may open everything
        self.assertEqual(by_name["permission, device"]["found"], "/dev/nvidia3: Permission denied")
        self.assertIn("usermod -aG", by_name["permission, device"]["advice"])

    def test_tools_that_are_missing_are_named_with_their_packages(self):
        tools = self.root / "bin"
        tools.mkdir()
        cc = tools / "cc"
        cc.write_text("#!/bin/sh\necho 'my cc 7.1'\n")
        cc.chmod(cc.stat().st_mode | stat.S_IXUSR)
        status, found, by_name = findings(PATH=str(tools), CUDA_PATH=str(self.root))
        self.assertEqual(by_name["C compiler"]["found"], "my cc 7.1")
        for name, package in (("C++ compiler", "g++"), ("CMake", "cmake"), ("pkg-config", "pkg-config"),
                              ("CUDA toolkit", "nvidia-cuda-toolkit"), ("clang", "clang")):
            self.assertEqual(by_name[name]["state"], "absent", name)
            self.assertRegex(by_name[name]["advice"], rf"apt install .*{package.replace('+', '.')}")
        self.assertEqual(status, 0)

    def put_program(self, name, says):
        self.put(f"bin/{name}", f"#!/bin/sh\necho '{says}'\n", 0o755)

    def test_each_mpi_is_told_and_what_it_lacks(self):
        self.put("bin/README")
        path = str(self.root / "bin")
        status, _, by_name = findings(PATH=path)
        self.assertEqual((status, by_name["MPI"]["state"]), (0, "absent"))
        self.assertIn("libmpich-dev", by_name["MPI"]["advice"])
        self.assertNotIn("MPICH", by_name)
        self.put_program("mpiexec.mpich", "HYDRA\n    Version:     4.0.2\n    Release Date: x")
        self.put_program("mpicc.openmpi", "")
        _, _, by_name = findings(PATH=path)
        self.assertEqual(by_name["MPICH"]["found"], f"{path}/mpiexec.mpich is found, mpicc.mpich is not")
        self.assertEqual(by_name["Open MPI"]["found"], f"{path}/mpicc.openmpi is found, mpiexec.openmpi is not")
        self.assertIn("libopenmpi-dev", by_name["Open MPI"]["advice"])
        self.assertNotIn("MPI", by_name)
        self.put_program("mpicc.mpich", "")
        self.assertEqual(findings(PATH=path)[2]["MPICH"], {"name": "MPICH", "state": "ok", "advice": None,
                                                             "found": f"{path}/mpiexec.mpich: 4.0.2"})
        for name in ("mpiexec.mpich", "mpicc.mpich", "mpicc.openmpi"):
            (self.root / "bin" / name).unlink()
        self.put_program("mpicc", "")
        self.put_program("mpiexec", "mpiexec (OpenRTE) 5.0.11")
        self.assertEqual(findings(PATH=path)[2]["MPI"]["found"], f"{path}/mpiexec: mpiexec (OpenRTE) 5.0.11")

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_nccl_tells_its_version(self):
        library = self.root / "libnccl.so.2"
        for body, found in (("*version = 23203; return 0;", "libnccl.so.2 is found, version 2.32.3"), ("return 1;", "libnccl.so.2 tells no version")):
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True, text=True,
                           input=f"int ncclGetVersion(int *version) {{ (void)version; {body} }}\n")
            self.assertIn(found, findings(LD_LIBRARY_PATH=str(self.root))[2]["NCCL"]["found"])

    @unittest.skipIf(HAS_CUDA, "the driver of this machine works")
    def test_no_driver_at_all_is_a_fault(self):
        status, found, by_name = findings(GANTRY_EMULATOR="/nowhere/emu.so")
        self.assertEqual((status, found["ok"], found["driver"]), (1, False, None))
        self.assertIn("/nowhere/emu.so", by_name["emulated driver"]["found"])
        self.assertIn("GANTRY_EMULATOR", by_name["emulated driver"]["advice"])

    def test_a_recording_of_the_user_is_left_alone(self):
        path = self.root / "run.pftrace"
        path.write_text("precious")
        self.assertEqual(doctor(GANTRY_PROFILE=str(path))[0], 0)
        self.assertEqual(path.read_text(), "precious")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
