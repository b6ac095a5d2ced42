#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check what the compiler does not: layers, lengths, banned calls, names, comments, blanks.

Usage: check_style.py [--warnings] [ROOT]

Prints "file:line: rule: text" for each finding; the exit status is 1 when there is one.  With --warnings
also what is merely long.  CONTRIBUTING.md explains the rules.
"""
import os
import re
import subprocess
import sys

import spdx

TASKMAN = ["taskman/graph", "taskman/cpu", "taskman"]
# What each room may include, besides itself and <gantry/...>.  Longest matching folder wins.
LAYERS = {
    "base": [],
    "proof": ["base"],  # a library of its own
    "driver": ["base"],
    "emulator": ["base", "driver"],
    "work": ["base", "driver"],
    "heap": ["base", "driver"],
    "profile": ["base", "driver", "work"],
    "partition": ["base", "driver", "work"],
    "copykernel": ["base", "driver", "work", "heap", "profile"],
    "taskman/graph": ["base"],
    "taskman/cpu": ["base", "taskman/graph"],
    "taskman": ["base", "taskman/graph", "taskman/cpu"],
    "dispatcher": ["base", "driver", "work", "heap", "profile", "partition", "copykernel", *TASKMAN],
    "context": ["base", "driver", "work", "heap", "profile", "partition", "copykernel", *TASKMAN, "dispatcher"],
    "interop": ["base", "driver", "work", "heap", "profile", "partition", "copykernel", *TASKMAN, "dispatcher", "context"],
    "fleet": ["base", "driver", "work", *TASKMAN, "heap", "profile", "partition", "copykernel", "dispatcher", "context"],
    "torch": ["base", "driver", "heap"],  # a library of its own
    "limit": ["driver/cuda_abi.h", "partition/busy.h"],  # a library of its own, without ours
    "bench": ["base/clock.h", "driver/funcs.h", "driver/cuda_abi.h", "cli/messages.h", "cli/limit.h", "limit/job.h"],  # yardsticks call CUDA by hand; a limit is made by hand
    "cli": ["bench/harness.h", "limit/region.h", "limit/pace.h", "limit/job.h"],
    "samples": ["cli/samples.h", "cli/options.h", "cli/messages.h", "cli/program.h", "bench/raw_cuda.h", "bench/critical_scene.h"],  # to time kernels
    "include": [],
    "tests": None,  # anything
}
LIBRARY = ["base", "proof", "driver", "emulator", "work", "heap", "profile", "partition", "copykernel", "taskman", "dispatcher", "context", "interop", "fleet"]

BANNED_EVERYWHERE = ["strcpy", "strcat", "sprintf", "vsprintf", "gets", "atoi", "atol", "atof"]
BANNED_IN_LIBRARY = ["abort", "exit", "_exit", "quick_exit", "printf", "vprintf", "puts", "putchar", "perror",
                     "sleep", "usleep", "nanosleep", "strerror", "strerror_r"]
BANNED_OUTSIDE_BASE = ["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "strdup", "free"]
OWN_ALLOCATOR = ["base", "emulator"]  # these may call malloc themselves
# A program with more rights than who started it must not do what the environment says: gy_environment() alone asks.
BANNED_OUTSIDE_ENVIRONMENT = ["getenv", "secure_getenv"]
ENVIRONMENT = "base/environment.h"
# They break captures: driver/whole.h has the rule.
WHOLE_CONTEXT = re.compile(r"\b(cuCtxSynchronize|cuCtxRecordEvent|cuCtxWaitEvent)\s*\(")
WHOLE = "driver/whole.c"
LOADER = "base/library.c"  # dlerror() speaks the program's language elsewhere, as strerror() does; strerrordesc_np() does not
# glibc 2.27 to 2.40 can lose a wake-up of its conditions where several threads wait (decision 48).  In these files one
# waits, or all are woken.
CONDITIONS = ["pthread_cond_wait", "pthread_cond_timedwait"]
MAY_WAIT_FOR_CONDITIONS = ["cli/ticker.c", "samples/shared_gl/shared_gl.c"]

# Names of functions that other files can call: room -> pattern.
PREFIX = {
    "emulator": r"gy_|gantry_|cu[A-Z]",
    "proof": r"gy_|gantry_|__tsan_|__wrap_|pthread_|__cxa_guard_",  # compilers and programs call those
    "cli": r"cli_|main$",
    "bench": r"bench_|raw_|main$",
    "limit": r"gy_|cu[A-Z]|InitializeInjection$",  # programs and the driver call the others
}
FUNCTION_WARN, FUNCTION_FAIL = 40, 70
FILE_WARN, FILE_FAIL = 400, 700
GUARD = re.compile(r"guarded by|atomic|immutable|\bonly\b|\balone\b|rank |own guards?|signalled|see |link of|\w's\b", re.I)
COMMENTS_AND_LITERALS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
TEXT_FILES = re.compile(r"\.(c|h|cu|cuh|inc|py|sh|md|txt|cmake|json|in|map|proto|yml|supp)$|"
                        r"^tools/\w+$|(^|/)(LICENSE|\.clang-format|\.clang-tidy|\.editorconfig|\.gitignore)$|^\.ci/")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|home|root|Users)/(?!\*)")


class Checker:
    def __init__(self, root):
        self.root = root
        self.errors = []
        self.warnings = []
        self.tags = {}  # of structs, enums and unions of the library: where each is defined

    def error(self, path, line, rule, text):
        self.errors.append(f"{path}:{line}: {rule}: {text}")

    def warn(self, path, line, rule, text):
        self.warnings.append(f"{path}:{line}: {rule}: {text}")

    def check(self, path):
        with open(os.path.join(self.root, path), "rb") as file:
            data = file.read()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            self.error(path, 1, "utf-8", "the file is not UTF-8")
            return
        self.check_text(path, text)
        if re.search(r"\.(c|h|cu|cuh)$", path):
            code = self.strip(path, text)
            self.check_includes(path, text)
            self.check_calls(path, code)
            self.check_length(path, code, text != spdx.without(text))
            if path.endswith(".c"):
                self.check_names(path, code)
                self.check_log_callbacks(path, code)
            if path.startswith("include/") and path.endswith(".h"):
                self.check_public_docs(path, text)
            if library(path):
                self.check_abbreviations(path, text)
            if room_of(path) in LAYERS and library(path):
                self.check_guards(path, text, code)
                self.check_tags(path, code)

    # ---- any text file

    def check_text(self, path, text):
        lines = text.split("\n")
        if text and not text.endswith("\n"):
            self.error(path, len(lines), "final-newline", "the last line has no newline")
        if text.endswith("\n\n"):
            self.error(path, len(lines) - 1, "final-newline", "blank lines at the end")
        for number, line in enumerate(lines, 1):
            if "\r" in line:
                self.error(path, number, "carriage-return", "lines end with a newline alone")
            if line.endswith((" ", "\t")):
                self.error(path, number, "trailing-blank", "blanks at the end of the line")
            if "\t" in line:
                self.error(path, number, "tab", "a tab")
            if MACHINE_PATHS.search(line):
                self.error(path, number, "machine-path", "a path of one machine")
            if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", line):
                self.error(path, number, "leftover", "unfinished work belongs in an issue")

    # ---- C

    def strip(self, path, text):
        """code_of() the text; reports // comments."""
        for match in COMMENTS_AND_LITERALS.finditer(text):
            if match.group().startswith("//"):
                self.error(path, text.count("\n", 0, match.start()) + 1, "comment", "// comments are for debugging; use /* */")
        return code_of(text)

    def check_includes(self, path, text):
        room = room_of(path)
        own = re.sub(r"\.c$", ".h", path)
        first = None
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if not match:
                continue
            name = match.group(2)
            first = first or name
            if match.group(1) == "<":
                continue
            if "/" not in name:
                # A generated file lies in the build folder.
                if os.path.exists(os.path.join(self.root, os.path.dirname(path), name)):
                    self.error(path, number, "include", f'"{name}" is not named from the root')
                continue
            if room in LAYERS and not may_use(room, room_of(name)) and name not in LAYERS[room]:
                self.error(path, number, "layer", f"{room}/ must not include {name}")
        if path.endswith(".c") and first != own and os.path.exists(os.path.join(self.root, own)):
            if not path.startswith("tests/"):
                self.error(path, 1, "include", f'"{own}" must be the first include')

    def check_calls(self, path, code):
        room = room_of(path)
        banned = list(BANNED_EVERYWHERE)
        if library(path):
            banned += BANNED_IN_LIBRARY
            if room not in OWN_ALLOCATOR:
                banned += BANNED_OUTSIDE_BASE
            if path != ENVIRONMENT:
                banned += BANNED_OUTSIDE_ENVIRONMENT
            if path != LOADER:
                banned.append("dlerror")
        elif room == "cli":
            banned += ["getenv"]
        if not path.startswith(("tests/", "bench/")) and path not in MAY_WAIT_FOR_CONDITIONS:
            banned += CONDITIONS
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
        for number, line in enumerate(code.split("\n"), 1):
            for match in pattern.finditer(line):
                self.error(path, number, "banned-call", match.group(1) + "()")
            for match in WHOLE_CONTEXT.finditer(line if library(path) and room != "emulator" and path != WHOLE else ""):
                self.error(path, number, "banned-call", match.group(1) + "(): see driver/whole.h")

    def check_log_callbacks(self, path, code):
        """They are called under the log's lock, which a failing assertion would leave without giving it back: the rest
        of the program would hang."""
        for name in set(re.findall(r"\bgantry_set_log\((\w+),", code)):
            for body in re.finditer(rf"^static void {name}\([^;{{]*\n\{{\n(.*?)^\}}", code, re.M | re.S):
                asserted = re.search(r"\b(assert_\w+|fail|fail_msg|skip)\s*\(", body.group(1))
                if asserted:
                    line = code.count("\n", 0, body.start(1) + asserted.start()) + 1
                    self.error(path, line, "log-callback", "a log callback records, and the test asserts")

    def check_length(self, path, code, has_licence):
        lines = code.rstrip("\n").split("\n")
        self.limit(path, 1, "file-length", len(lines) - has_licence, FILE_WARN, FILE_FAIL)  # that line is not counted
        start = None
        for number, line in enumerate(lines, 1):
            if line == "{":
                start = number
            elif line.startswith("}") and start is not None:
                self.limit(path, start, "function-length", number - start + 1, FUNCTION_WARN, FUNCTION_FAIL)
                start = None

    def limit(self, path, line, rule, value, warn, fail):
        if value > fail:
            self.error(path, line, rule, f"{value} lines, at most {fail}")
        elif value > warn:
            self.warn(path, line, rule, f"{value} lines, as a rule at most {warn}")

    def check_names(self, path, code):
        room = room_of(path)
        if room not in PREFIX and not library(path):
            return
        wanted = PREFIX.get(room, r"gy_|gantry_")
        lines = code.split("\n")
        for number, line in enumerate(lines):
            if line != "{":
                continue
            first = number
            while first > 0 and lines[first - 1].strip() and not re.match(r"[#}]|.*;\s*$", lines[first - 1]):
                first -= 1
            signature = " ".join(lines[first:number])
            match = re.search(r"(\w+)\s*\(", signature)
            if match and not re.search(r"\bstatic\b", signature) and not re.match(wanted, match.group(1)):
                self.error(path, first + 1, "name", f"{match.group(1)}() is not static and lacks the prefix")

    def check_public_docs(self, path, text):
        """A function returning a status lists its statuses, in its comment or in that of a neighbour above
        with no blank line between them."""
        declaration = re.compile(r"^GANTRY_API\b[^;]*?\bgantry_status\s+\**(gantry_\w+)\s*\(", re.M)
        for match in declaration.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            block = text[:match.start()].rsplit("\n\n", 1)[-1]
            if "@retval" not in block and "tatuses as" not in block:
                self.error(path, number, "retval", f"{match.group(1)}() does not list its statuses")

    def check_tags(self, path, code):
        """A tag is defined once in the library, so that any two of its headers can be included together, and
        a search for a name finds one thing."""
        for number, line in enumerate(code.split("\n"), 1):
            match = re.match(r"\s*(?:typedef |static |const )*(?:struct|enum|union)\s+(?:_Alignas\(\w+\)\s+)?(\w+)\s*\{[^\\]*$", line)
            if match:
                first = self.tags.setdefault(match.group(1), f"{path}:{number}")
                if first != f"{path}:{number}":
                    self.error(path, number, "tag", f"{match.group(1)} is defined in {first}, too")

    def check_licences(self):
        """Where there is a LICENSE, every source file says which it is."""
        identifier = spdx.identifier_of(self.root)
        for path in list_files(self.root, spdx.NAMES) if identifier else ():
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                if not spdx.has(file.read(), spdx.line_of(path, identifier)):
                    self.error(path, 1, "licence", "it does not say its SPDX-License-Identifier: tools/spdx.py --fix")

    def check_abbreviations(self, path, text):
        """The comment that begins a file says what an abbreviation in its comments means."""
        comments = [comment for comment in re.finditer(r"/\*.*?\*/", text, re.S) if not spdx.LINE.match(text, comment.start())]
        head = " ".join(comments[0].group().split()) if comments and not spdx.without(text[:comments[0].start()]) else ""
        defined = re.search(r"\(GD\)|\bGD (\* )?is\b", head)
        for comment in comments:
            used = re.search(r"\bGD\b", comment.group())
            if used and not defined:
                line = text.count("\n", 0, comment.start() + used.start()) + 1
                self.error(path, line, "abbreviation", "the head comment does not say what GD is; or write it out")

    def check_guards(self, path, text, code):
        """Every field of a struct with a mutex says who may touch it."""
        lines = text.split("\n")
        code_lines = code.split("\n")
        for match in re.finditer(r"^(?:typedef )?struct [^;{}]*\{\n(.*?)^\}", code, re.M | re.S):
            if not re.search(r"\bgy_mutex\s+\w+", match.group(1)):
                continue
            first = code.count("\n", 0, match.start(1))
            covered = False
            for index in range(first, first + match.group(1).count("\n")):
                line = code_lines[index].strip()
                if not lines[index].strip():
                    covered = False
                elif not line and GUARD.search(lines[index]):
                    covered = True
                # Mutexes guard, condition variables are used under the mutex beside them: by their nature.
                if not line.endswith(";") or covered or re.match(r"#|(_Alignas\(\d+\) )?gy_(mutex|cond) ", line):
                    continue
                comment = self.comment_of_field(lines, code_lines, index)
                if not GUARD.search(comment):
                    self.error(path, index + 1, "guard", f"who may touch '{line}'?")

    @staticmethod
    def comment_of_field(lines, code_lines, index):
        """The comment on the field's line, continued below, or that directly above it."""
        comment = lines[index]
        below = index + 1
        while below < len(lines) and lines[below].strip() and not code_lines[below].strip():
            comment += lines[below]
            below += 1
        above = index - 1
        while above >= 0 and lines[above].strip() and not code_lines[above].strip():
            comment += lines[above]
            above -= 1
        return comment


def room_of(path):
    """The longest folder of the path that LAYERS knows, or its first."""
    folder = os.path.dirname(path)
    while folder and folder not in LAYERS:
        folder = os.path.dirname(folder)
    return folder or path.split("/")[0]


def may_use(room, target):
    """May a file of `room` include, or call, one of `target`?"""
    return LAYERS[room] is None or target == room or target in LAYERS[room]


def library(path):
    return path.split("/")[0] in LIBRARY


def code_of(text):
    """The text with comments and literals blanked out, line for line."""
    def blank(match):
        token = match.group()
        return {'"': '""', "'": "0"}.get(token[0], " ") + "\n" * token.count("\n")
    return COMMENTS_AND_LITERALS.sub(blank, text)


def list_files(root, wanted=TEXT_FILES):
    """Tracked files and new ones that git does not ignore; without git, what lies there."""
    try:
        output = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                                check=True, capture_output=True).stdout.decode()
        files = [name for name in output.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "build", "out", "__pycache__")]
            files += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(f for f in files if wanted.search(f) and os.path.isfile(os.path.join(root, f)))


def main(arguments):
    warnings = "--warnings" in arguments
    roots = [a for a in arguments if not a.startswith("-")]
    root = roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    checker = Checker(root)
    files = list_files(root)
    for path in files:
        checker.check(path)
    checker.check_licences()
    if warnings:
        print("\n".join(checker.warnings))
    for error in checker.errors:
        print(error)
    print(f"{len(files)} files, {len(checker.errors)} errors, {len(checker.warnings)} warnings")
    return 1 if checker.errors or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
