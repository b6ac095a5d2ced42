"""The C files of a tree as {path: text}: those that lie there, or those of a commit; and their text without comments."""
import os
import re
import subprocess

TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WANTED = re.compile(r"\.[ch]$|^docs/.*\.md$")


def code_of(text):
    """The text with comments and literals blanked out, line for line."""
    def blank(match):
        token = match.group()
        return {'"': '""', "'": "0"}.get(token[0], " ") + "\n" * token.count("\n")
    return TOKENS.sub(blank, text)


def read_folder(root):
    """Tracked files and new ones that git does not ignore; without git, what lies there."""
    try:
        output = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True).stdout
        paths = output.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in (".git", "build", "out", "__pycache__")]
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    files = {}
    for path in sorted(path for path in paths if WANTED.search(path)):
        if os.path.isfile(os.path.join(root, path)): # a deleted one stays in git's list until that is staged
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
