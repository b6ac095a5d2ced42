#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/check_style.py finds what it should and nothing else."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_style.py"


def check(files):
    """The rules that were broken by `files` (path -> text), as "path:line: rule"."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = pathlib.Path(root, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text)
        result = subprocess.run([sys.executable, str(TOOL), "--warnings", root], capture_output=True, text=True)
        lines = [":".join(line.split(":")[:3]) for line in result.stdout.splitlines()[:-1] if line]
        return result.returncode, lines


class CheckStyle(unittest.TestCase):
    def expect(self, path, text, *findings, code=1):
        status, found = check({path: text})
        self.assertEqual(found, [f"{path}:{finding}" for finding in findings])
        self.assertEqual(status, code if findings else 0)

    def test_clean_file(self):
        self.expect("heap/a.c", '#include "driver/context.h"\n\nint gy_a(void)\n{\n    return 0;\n}\n')

    def test_licences_are_said(self):
        line = "/* SPDX-License-Identifier: MIT */\n"
        for path, text, found in (("heap/a.c", line + "int a;\n", []), ("heap/a.c", "int a;\n" + line, ["heap/a.c:1: licence"]),
                                  ("heap/a.hpp", line.replace("MIT", "BSD"), ["heap/a.hpp:1: licence"]),
                                  ("tools/a", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n", []), ("tools/a.sh", "#!/bin/sh\n", ["tools/a.sh:1: licence"]),
                                  ("page/a.html", "<!DOCTYPE html>\n<!-- SPDX-License-Identifier: MIT -->\n", []), ("page/a.md", "# A\n", [])):
            status, lines = check({"LICENSE": "MIT License\n", path: text})
            self.assertEqual((lines, status), (found, 1 if found else 0), (path, text))
            self.assertEqual(check({path: text})[1], [])  # what has no licence says none

    def test_the_line_with_the_licence_is_not_counted(self):
        line = "/* SPDX-License-Identifier: MIT */\n"
        self.expect("heap/a.c", line + "int a;\n" * 700, "1: file-length", code=0)  # a warning
        self.expect("heap/a.c", line + "int a;\n" * 701, "1: file-length")
        self.expect("dispatcher/a.h", line + "/* The thread (GD). */\nint a; /* GD only */\n")

    def test_the_script_adds_the_line_once(self):
        with tempfile.TemporaryDirectory() as root:
            before = {"LICENSE": "MIT License\n", "a.py": "#!/usr/bin/env python3\nimport os\n", "b.c": "/* SPDX-License-Identifier: X */\nint b;\n", "c.md": "c\n"}
            for name, text in before.items():
                pathlib.Path(root, name).write_text(text)
            for _ in range(2):
                run = subprocess.run([sys.executable, str(TOOL.with_name("spdx.py")), "--fix", root], capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, run.stderr)
                now = {name: pathlib.Path(root, name).read_text() for name in before}
                self.assertEqual(now["a.py"], "#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\nimport os\n")
                self.assertEqual(now["b.c"], "/* SPDX-License-Identifier: MIT */\nint b;\n")
                self.assertEqual(now["c.md"], "c\n")

    def test_empty_tree_is_an_error(self):
        self.assertEqual(check({"picture.png": "x"})[0], 1)

    def test_head_comments_define_abbreviations(self):
        for head in ("/* The thread (GD). */\n", "/* Gates.\n *\n * GD\n * is the dispatcher's thread. */\n"):
            self.expect("dispatcher/a.h", head + "int a; /* GD only */\n")
        self.expect("dispatcher/a.h", "/* Gates. */\nint a; /* GD only */\n", "2: abbreviation")
        self.expect("dispatcher/a.c", "int b;\n/* GD is it.\n * GD only */\n", "2: abbreviation")
        self.expect("dispatcher/a.c", "int c = GD_PHASES; /* GD_PHASES */\nconst char *d = \"GD\";\n")

    def test_tags_are_defined_once(self):
        one, other = "struct gy_a {\n    int b;\n};\nstruct gy_c;\n", "enum gy_a { GY_B };\n"
        self.assertEqual(check({"heap/a.h": one, "profile/a.h": other}), (1, ["profile/a.h:1: tag"]))
        self.assertEqual(check({"heap/a.c": one, "heap/b.c": "/* */\nstatic struct gy_a {\n    int c;\n} d;\n"}),
                         (1, ["heap/b.c:2: tag"]))
        self.assertEqual(check({"heap/a.h": one, "heap/b.h": "struct gy_a *e(struct gy_a *f);\n"}), (0, []))
        self.assertEqual(check({"heap/a.h": one, "tests/a.h": other, "bench/a.h": other}), (0, []))

    def test_layers(self):
        self.expect("taskman/a.c", '#include "driver/context.h"\n', "1: layer")
        self.expect("base/a.c", '#include "heap/heap.h"\n', "1: layer")
        self.expect("driver/a.c", '#include "emulator/exec.h"\n', "1: layer")
        self.expect("samples/x/a.c", '#include "base/alloc.h"\n', "1: layer")
        self.expect("taskman/graph/a.c", '#include "taskman/cpu/pool.h"\n', "1: layer")
        self.expect("taskman/graph/a.c", '#include "taskman/manager.h"\n', "1: layer")
        self.expect("taskman/cpu/a.c", '#include "taskman/manager.h"\n', "1: layer")
        self.expect("taskman/cpu/a.c", '#include "taskman/graph/task.h"\n')
        self.expect("taskman/a.c", '#include "taskman/cpu/pool.h"\n')
        self.expect("dispatcher/a.c", '#include "taskman/cpu/event.h"\n')
        self.expect("heap/a.c", '#include "taskman/cpu/event.h"\n', "1: layer")
        self.expect("cli/a.c", '#include "bench/harness.h"\n')
        self.expect("tests/heap/a.c", '#include "heap/heap.h"\n')
        self.expect("bench/a.c", '#include "generated_kernels.h"\n')
        self.assertEqual(check({"heap/a.c": '#include "b.h"\n', "heap/b.h": "int gy_a;\n"}),
                         (1, ["heap/a.c:1: include"]))

    def test_own_header_comes_first(self):
        status, found = check({"base/a.h": "int gy_a;\n",
                               "base/a.c": '#include <stdio.h>\n#include "base/a.h"\n'})
        self.assertEqual((status, found), (1, ["base/a.c:1: include"]))

    def test_banned_calls(self):
        self.expect("heap/a.c", "static int x;\nvoid *gy_a(void)\n{\n    return malloc(1);\n}\n", "4: banned-call")
        self.expect("base/a.c", "void *gy_a(void)\n{\n    return malloc(1);\n}\n")
        self.expect("base/a.c", "void gy_a(void)\n{\n    abort();\n}\n", "3: banned-call")
        self.expect("cli/a.c", "void cli_a(void)\n{\n    exit(1);\n}\n")
        ask = "char *%s_a(void)\n{\n    return %s(\"A\");\n}\n"
        for room in ("base", "driver", "emulator", "partition"):
            self.expect(f"{room}/a.c", ask % ("gy", "getenv"), "3: banned-call")
            self.expect(f"{room}/a.c", ask % ("gy", "secure_getenv"), "3: banned-call")
        self.expect("heap/a.c", ask % ("gy", "gy_environment"))
        self.expect("cli/a.c", ask % ("cli", "getenv"), "3: banned-call")
        self.expect("cli/a.c", ask % ("cli", "secure_getenv"))
        self.expect("tests/heap/a.c", ask % ("gy", "getenv"))
        for said in ("strerror", "dlerror"):
            self.expect("heap/a.c", ask % ("gy", said), "3: banned-call")
            self.expect("cli/a.c", ask % ("cli", said))
        self.expect("base/library.c", ask % ("gy", "dlerror"))
        for path, prefix in (("heap/a.c", "gy"), ("samples/a/a.c", "a")):
            self.expect(path, ask % (prefix, "pthread_cond_wait"), "3: banned-call")
        self.expect("bench/a.c", ask % ("bench", "pthread_cond_wait"))
        self.expect("cli/a.c", "void cli_a(char *p)\n{\n    strcpy(p, p);\n}\n", "3: banned-call")
        self.expect("heap/a.c", "void gy_a(struct a *a)\n{\n    a->free(a);\n    gy_free(a); /* free(a) */\n}\n")

    def test_calls_on_a_whole_context_are_in_one_place(self):
        call = "int gy_a(struct a *a)\n{\n    return a->driver->cuCtxSynchronize();\n}\n"
        self.expect("heap/a.c", call, "3: banned-call")
        self.expect("driver/a.c", call.replace("Synchronize()", "RecordEvent(1)"), "3: banned-call")
        for path in ("emulator/a.c", "tests/heap/a.c", "bench/a.c"):
            self.expect(path, call.replace("gy_a", "bench_a" if path[0] == "b" else "gy_a"))

    def test_log_callbacks_do_not_assert(self):
        callback = "static void keep(void *user, int level, const char *line)\n{\n    %s;\n}\n"
        begin = "static void begin(void)\n{\n    gantry_set_log(keep, NULL, 1);\n    assert_true(1);\n}\n"
        self.expect("tests/heap/a.c", callback % "assert_non_null(line)" + begin, "3: log-callback")
        self.expect("tests/heap/a.c", callback % "lines++" + begin)

    def test_lengths(self):
        body = "    gy_b();\n"
        self.expect("heap/a.c", "void gy_a(void)\n{\n" + body * 38 + "}\n")
        self.expect("heap/a.c", "void gy_a(void)\n{\n" + body * 39 + "}\n", "2: function-length", code=0)
        self.expect("heap/a.c", "void gy_a(void)\n{\n" + body * 69 + "}\n", "2: function-length")
        self.expect("heap/a.h", "int gy_a;\n" * 400)
        self.expect("heap/a.h", "int gy_a;\n" * 401, "1: file-length", code=0)
        self.expect("heap/a.h", "int gy_a;\n" * 701, "1: file-length")

    def test_names(self):
        self.expect("heap/a.c", "void a(void)\n{\n}\n", "1: name")
        self.expect("heap/a.c", "static void a(void)\n{\n}\n")
        self.expect("heap/a.c", "struct a *\na(int b)\n{\n}\n", "1: name")
        self.expect("emulator/a.c", "CUresult cuInit(unsigned flags)\n{\n}\n")
        self.expect("driver/a.c", "CUresult cuInit(unsigned flags)\n{\n}\n", "1: name")

    def test_comments(self):
        self.expect("heap/a.c", "int gy_a; // why\n", "1: comment")
        self.expect("heap/a.c", 'const char *gy_a = "http://x"; /* http://y */\n')

    def test_public_functions_list_their_statuses(self):
        self.expect("include/gantry/a.h", "/** Do it. */\nGANTRY_API gantry_status gantry_a(void);\n", "2: retval")
        self.expect("include/gantry/a.h", "/** @retval GANTRY_OK */\nGANTRY_API gantry_status gantry_a(void);\n"
                    "GANTRY_API gantry_status\ngantry_b(void);\n")

    def test_fields_beside_a_mutex_say_their_guard(self):
        text = "struct a {\n    gy_mutex lock; /* rank LEAF */\n    int b;%s\n};\n"
        self.expect("heap/a.h", text % "", "3: guard")
        self.expect("heap/a.h", text % " /* guarded by lock */")
        self.expect("heap/a.h", text % " /* how many,\n            * guarded by lock */")
        self.expect("heap/a.h", "struct a {\n    int b;\n};\n")

    def test_any_text(self):
        self.expect("docs/a.md", "a \n", "1: trailing-blank")
        self.expect("docs/a.md", "a\tb\n", "1: tab")
        self.expect("docs/a.md", "a", "1: final-newline")
        self.expect("docs/a.md", "a\n\n", "2: final-newline")
        self.expect("docs/a.md", "see /" + "home/me/x\n", "1: machine-path")
        self.expect("docs/a.md", "TO" + "DO: more\n", "1: leftover")


if __name__ == "__main__":
    unittest.main()
