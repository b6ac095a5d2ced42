#!/usr/bin/env python3
"""The Debian package holds what it should and depends on what it needs.

Usage: test_package.py BUILD_DIR VERSION
"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"{command}\n{result.stdout}")
    return result.stdout


def check_compressed(path, text):
    """What is wrong with a file that `gzip -9n` should have made of a text."""
    data = path.read_bytes()
    if gzip.decompress(data) != text:
        return [f"{path.name}: another text"]
    # No name and no time, so that the same text makes the same bytes; the best compression.
    return [] if data[3:9] == b"\0\0\0\0\0\2" else [f"{path.name}: the header is {data[:10].hex()}"]


def check_documents(root, build):
    """What is wrong with the documents, which Debian's policy has rules for."""
    doc = root / "usr/share/doc/gantry"
    licences = ["MIT License"]
    if (root / "usr/share/gantry/photos").exists():
        licences.append("CC0 1.0")
    wrong = [f"missing: {word!r} in copyright" for word in licences if word not in (doc / "copyright").read_text()]
    wrong += check_compressed(root / "usr/share/man/man1/gantry.1.gz", pathlib.Path(build, "gantry.1").read_bytes())
    wrong += check_compressed(doc / "changelog.gz", pathlib.Path(SOURCE, "CHANGELOG.md").read_bytes())
    return wrong


def main(build, version):
    for tool, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file"), ("gzip", "gzip")):
        if not shutil.which(tool):
            print(f"skipped: {tool} (package {package}) is missing", file=sys.stderr)
            return 77
    config = pathlib.Path(build, "CPackConfig.cmake")
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run([shutil.which("cpack"), "-G", "DEB", "-B", folder, "--config", config], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PATH": folder})
        if told.returncode == 0 or "sudo apt-get install dpkg-dev file" not in told.stdout:
            sys.exit(f"without dpkg-shlibdeps and file: {told.returncode}\n{told.stdout}")
    with tempfile.TemporaryDirectory() as folder:
        run("sh", "-c", 'umask 077; exec "$@"', "sh", "cpack", "-G", "DEB", "-B", folder, "--config", config)
        package = next(pathlib.Path(folder).glob("gantry_*.deb"))
        contents = run("dpkg-deb", "--contents", package)
        fields = run("dpkg-deb", "--field", package)
        root = pathlib.Path(folder, "root")
        run("dpkg-deb", "--raw-extract", package, root)
        wrong = check_documents(root, build)
        shlibs = (root / "DEBIAN/shlibs").read_text()
    wanted = ["/usr/bin/gantry\n", "/libgantry.so", "/libgantry-emu.so\n", "/usr/include/gantry/gantry.h\n"]
    missing = [name for name in wanted if name not in contents]
    missing += [field for field in (f"Version: {version}\n", "libc6 (>=") if field not in fields]
    wrong += [f"missing: {name!r}" for name in missing]
    wrong += [f"permissions: {line}" for line in contents.splitlines()
              if not re.match(r"drwxr-xr-x|lrwxrwxrwx|-rw-r--r--|-rwxr-xr-x .*/bin/", line)]
    if shlibs != f"libgantry {version.split('.')[0]} gantry (= {version})\n":
        wrong.append(f"shlibs: {shlibs}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
