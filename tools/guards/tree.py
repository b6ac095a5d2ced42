# SPDX-License-Identifier: MIT
"""The C files and the documents of a tree as {path: text}: those that lie there, or those of a commit."""
import os
import re
import subprocess

from check_style import list_files

WANTED = re.compile(r"\.[ch]$|^[A-Z]+\.md$|^(docs|examples|samples)/.*\.md$")


def read_folder(root):
    """Those of list_files()."""
    files = {}
    for path in filter(WANTED.search, list_files(root)):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            files[path] = file.read()
    return files


def read_commit_of(root, path):
    """The files as they were in the commit that last changed `path`; None: git does not know it."""
    def git(*words, **options):
        return subprocess.run(["git", "-C", root, *words], check=True, capture_output=True, **options).stdout

    try:
        commit = git("log", "-1", "--format=%H", "--", path).decode().strip()
        if not commit:
            return None
        paths = [name for name in git("ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0") if WANTED.search(name)]
        answer = git("cat-file", "--batch", input="".join(f"{commit}:{name}\n" for name in paths).encode())
    except (OSError, subprocess.CalledProcessError):
        return None
    files, at = {}, 0
    for name in paths: # "<object> blob <bytes>\n<text>\n"
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[-1])
        files[name] = answer[end + 1:end + 1 + size].decode()
        at = end + 2 + size
    return files
