#!/usr/bin/env python3
"""The Debian package holds what it should and depends on what it needs.

Usage: test_package.py BUILD_DIR VERSION
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile


def run(*command):
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"{command}\n{result.stdout}")
    return result.stdout


def main(build, version):
    for tool, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file")):
        if not shutil.which(tool):
            print(f"skipped: {tool} (package {package}) is missing", file=sys.stderr)
            return 77
    with tempfile.TemporaryDirectory() as folder:
        run("cpack", "-G", "DEB", "-B", folder, "--config", pathlib.Path(build, "CPackConfig.cmake"))
        package = next(pathlib.Path(folder).glob("gantry_*.deb"))
        contents = run("dpkg-deb", "--contents", package)
        fields = run("dpkg-deb", "--field", package)
    wanted = ["/usr/bin/gantry\n", "/libgantry.so", "/libgantry-emu.so\n", "/usr/include/gantry/gantry.h\n"]
    missing = [name for name in wanted if name not in contents]
    missing += [field for field in (f"Version: {version}\n", "libc6 (>=") if field not in fields]
    for name in missing:
        print(f"missing: {name!r}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
