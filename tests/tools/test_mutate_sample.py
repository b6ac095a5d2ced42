#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/mutate --sample: which mistakes are made of a small file, and what becomes of them in a small project.

Usage: test_mutate_sample.py SOURCES COMPILER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COMPILER, SOURCES = sys.argv.pop(), sys.argv.pop()
sys.path.insert(0, os.path.join(SOURCES, "tools"))
import mutants  # noqa: E402
import mutate_sample  # noqa: E402

TOY = """#include <stdbool.h>
#define TWICE(x) (2 * (x))
enum { LARGE = 7 };
static int tables[3] = {1, 2, 3};
void gy_toy_lock(int *at);
static inline void note(int *at, int value) { *at = value; }
int toy(int count, int most, int *at);
int toy(int count, int most, int *at)
{
    static int calls = 5;
    bool is_large = false;
    int left = count - most;
    gy_toy_lock(at);
    note(at, TWICE(left + 1));
    left += tables[sizeof(int) - 4];
    for (int i = 0; i < most; i++) {
        if (count == most && !is_large) {
            continue;
        }
        switch (i) {
        case LARGE + 1:
            left = calls;
            break;
        default:
            note(at, most);
        }
    }
    return left > most ? toy(most, count, at) : left;
}
"""
EXPECTED = {  # "line kind change"
    "11 constant false -> true in bool is_large = false; at 20 in toy()",
    "12 arithmetic count - most -> count + most in toy()",
    "14 call note(at, TWICE(left + 1)) is left out in toy()",
    "14 return return 0; before note(at, TWICE(left + 1)) in toy()",
    "15 return return 0; before left += tables[sizeof(int) - 4] in toy()",
    "15 arithmetic left += tables[sizeof(int) - 4] -> left -= tables[sizeof(int) - 4] in toy()",
    "15 arithmetic left += tables[sizeof(int) - 4] -> left = tables[sizeof(int) - 4] in toy()",
    "15 arithmetic sizeof(int) - 4 -> sizeof(int) + 4 in toy()",
    "15 constant 4 -> 4 + 1 in left += tables[sizeof(int) - 4]; at 33 in toy()",
    "15 constant 4 -> 4 - 1 in left += tables[sizeof(int) - 4]; at 33 in toy()",
    "16 constant 0 -> 0 + 1 in for (int i = 0; i < most; i++) { at 17 in toy()",
    "16 relation i < most -> i <= most in toy()",
    "16 relation i < most -> i >= most in toy()",
    "16 bound i < most -> (i) + 1 < most in toy()",
    "17 condition count == most && !is_large -> 1 in toy()",
    "17 condition count == most && !is_large -> 0 in toy()",
    "17 condition count == most && !is_large -> count == most || !is_large in toy()",
    "17 condition count == most && !is_large -> !!(count == most) in toy()",
    "17 condition count == most && !is_large -> !!(!is_large) in toy()",
    "17 condition !is_large -> !!is_large in toy()",
    "17 relation count == most -> count != most in toy()",
    "18 return continue is left out in toy()",
    "22 assignment left = calls is left out in toy()",
    "23 return break is left out in toy()",
    "25 call note(at, most) is left out in toy()",
    "28 condition left > most -> 1 in toy()",
    "28 condition left > most -> 0 in toy()",
    "28 relation left > most -> left >= most in toy()",
    "28 relation left > most -> left <= most in toy()",
    "28 arguments toy(most, count, at) -> toy(count, most, at) in toy()",
    "6 assignment *at = value is left out in note()",
    "13 return return 0; before gy_toy_lock(at) in toy()",
    "16 return return 0; before for (int i = 0; i < most; i++) { if (count == most && !is_la in toy()",
}
FILES = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(sum C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
enable_testing()
add_library(gantry STATIC room/sum.c)
add_executable(test_sum test_sum.c)
target_link_libraries(test_sum gantry)
add_test(NAME room.sum COMMAND test_sum)
set_tests_properties(room.sum PROPERTIES LABELS "room")
add_test(NAME room.red COMMAND test_sum red)
set_tests_properties(room.red PROPERTIES LABELS "room")
add_test(NAME style.files COMMAND ${CMAKE_COMMAND} -E false)
set_tests_properties(style.files PROPERTIES LABELS "style;tree")
""",
    "room/sum.c": """int sum(int count);
int unused(int count);
int sum(int count)
{
    int result = 0;
    for (int i = 1; i <= count; i++) {
        result += i;
    }
    return result;
}
int unused(int count)
{
    return count * 3;
}
""",
    "test_sum.c": """int sum(int count);
int main(int count, char **arguments)
{
    (void)arguments;
    return count > 1 || sum(4) != 10;
}
""",
    "tests/mutations/equivalent.toml": """
[[equivalent]]
file = "room/sum.c"
change = "1 -> 1 - 1 in for (int i = 1; i <= count; i++) { at 17 in sum()"
reason = "adds nothing"
""",
}


class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = os.path.join(self.folder.name, "sum")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, files):
        for path, text in files.items():
            path = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def test_what_is_made_of_a_file(self):
        self.write({"toy.c": TOY})
        found = mutants.find(self.root, "toy.c", ["-std=c11"])
        made = {f"{mutant.line} {mutant.kind} {mutant.change}" for mutant in found}
        self.assertEqual(made, EXPECTED)

    def test_all_of_them_compile_together_and_one_is_on(self):
        main = "\nvoid gy_toy_lock(int *at) { (void)at; }\nint main(void) { int at; return toy(3, 2, &at); }\n"
        self.write({"toy.c": TOY + main})
        found = mutants.find(self.root, "toy.c", ["-std=c11"])
        path, seen = os.path.join(self.root, "planted.c"), os.path.join(self.root, "seen")
        with open(path, "wb") as file:
            file.write(mutants.plant((TOY + main).encode(), dict(enumerate(found)), len(found)))
        subprocess.run([COMPILER, "-w", "-std=c11", "-o", path[:-2], path], check=True)
        with open(seen, "wb") as file:
            file.write(bytes(len(found)))

        def run(**environment):
            return subprocess.run([path[:-2]], env=environment, check=False, timeout=60).returncode
        plain = run(GY_MUTANTS_SEEN=seen)
        with open(seen, "rb") as file:
            met = {found[number].change for number, byte in enumerate(file.read()) if byte}
        self.assertIn("count - most -> count + most in toy()", met)
        self.assertNotIn("left = calls is left out in toy()", met)
        numbers = {mutant.change: number for number, mutant in enumerate(found)}
        self.assertEqual([plain, run(), run(GY_MUTANT=str(numbers["left > most -> left >= most in toy()"]))], [2, 2, 0])

    def test_a_project(self):
        self.write(FILES)
        command = [sys.executable, os.path.join(SOURCES, "tools/mutate"), "--root", self.root]
        done = subprocess.run([*command, "--sample", "99", "--seed", "7"], check=False, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)  # too few are noticed
        self.assertIn("left out: room.red failed", done.stdout)
        self.assertNotIn("style.files", done.stdout)
        self.assertIn("NOT MET: room/sum.c:13: ", done.stdout)
        self.assertNotIn("1 -> 1 - 1", done.stdout)
        results = os.path.join(self.root, "build/mutate/sample/results.json")
        with open(results, encoding="utf-8") as file:
            state = json.load(file)
        outcomes = {state["results"][str(number)][0] for number, values in enumerate(state["drawn"]) if values[1] < 10}
        self.assertEqual(outcomes, {"noticed"})
        self.assertEqual(state["rooms"], ["room"])
        del state["results"]["0"]
        with open(results, "w", encoding="utf-8") as file:
            json.dump(state, file)
        again = subprocess.run([*command, "--resume", results, "--least", "0"], check=False, capture_output=True, text=True, timeout=300)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertEqual(done.stdout[done.stdout.index("\nseed 7,"):], again.stdout[again.stdout.index("\nseed 7,"):])
        self.assertEqual(again.stdout.count("\n["), 1)  # one alone was done again

    def test_the_interval(self):
        low, high = mutate_sample.wilson(80, 100)
        self.assertEqual((round(low, 1), round(high, 1)), (71.1, 86.7))  # as tables of it say
        self.assertEqual(mutate_sample.wilson(0, 0), (0, 100))
        self.assertEqual(round(mutate_sample.wilson(10, 10)[0], 1), 72.2)


if __name__ == "__main__":
    if shutil.which("clang") is None:
        print("skipped: clang is missing", file=sys.stderr)
        sys.exit(77)
    unittest.main()
