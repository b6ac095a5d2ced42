# SPDX-License-Identifier: MIT
"""Small mistakes that are made by rule, from the syntax tree that clang prints: what tools/mutate --sample draws from.

Each is an expression, or a place of a statement, that a switch takes: `(GY_MUTANT(7) ? (a <= b) : (a < b))`.  All that are
drawn are compiled in together, and one is switched on by $GY_MUTANT=7.  With $GY_MUTANTS_SEEN, a file of a byte for each, the
switches note instead which of them a program came by.
"""
import bisect
import dataclasses
import json
import re
import subprocess

# Defined in each file that has a switch, and once in each program and library (weak, hidden): no other file is needed, and
# no header, whose names could be the file's own.
SWITCH = """\
#ifndef GY_MUTANT
extern char *gy_mutants_getenv(const char *) __asm__("getenv");
extern int gy_mutants_atoi(const char *) __asm__("atoi");
extern int gy_mutants_open(const char *, int) __asm__("open");
extern int gy_mutants_close(int) __asm__("close");
extern void *gy_mutants_mmap(void *, unsigned long, int, int, int, long) __asm__("mmap");
__attribute__((weak, visibility("hidden"))) int gy_mutant = -1; /* the one that is on; -1: none is */
__attribute__((weak, visibility("hidden"))) volatile char *gy_mutants_seen;
__attribute__((weak, visibility("hidden"), constructor(101))) void gy_mutants_read(void)
{
    const char *number = gy_mutants_getenv("GY_MUTANT"), *path = gy_mutants_getenv("GY_MUTANTS_SEEN");
    gy_mutant = number != 0 ? gy_mutants_atoi(number) : -1;
    int file = path != 0 && gy_mutants_seen == 0 ? gy_mutants_open(path, 2 /* O_RDWR */) : -1;
    if (file >= 0) {
        void *seen = gy_mutants_mmap(0, GY_MUTANTS, 3 /* to read and write */, 1 /* MAP_SHARED */, file, 0);
        gy_mutants_seen = seen != (void *)-1 ? seen : 0;
        gy_mutants_close(file);
    }
}
#define GY_MUTANT(n) ((gy_mutants_seen != 0 ? (void)(gy_mutants_seen[n] = 1) : (void)0), gy_mutant == (n))
#endif
"""
OPERATORS = {  # kind -> operator -> others that may stand there by mistake
    "relation": {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]},
    "condition": {"&&": ["||"], "||": ["&&"]},
    "arithmetic": {"+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"], "&": ["|"], "|": ["&"], "^": ["|"], "<<": [">>"],
                   ">>": ["<<"], "+=": ["-=", "="], "-=": ["+=", "="], "*=": ["="], "|=": ["=", "&="], "&=": ["=", "|="],
                   "<<=": [">>="], ">>=": ["<<="], "^=": ["|="]},
}
ONLY_AT_BUILD = {"UnaryExprOrTypeTraitExpr", "StaticAssertDecl", "OffsetOfExpr", "ConstantExpr", "EnumDecl", "RecordDecl",
                 "GenericSelectionExpr"}
# Dropping these is seen by clang's analysis of locks, or changes nothing: assertions, points for tests, ends of mutexes.
NO_CALLS = re.compile(r"\(void\)\w+$|assert|gy_(mutex|cond|guard)_fini|GY_POINT|\w*(un)?lock\w*\s*\(|\w*_is_locked")
LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*$")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One mistake: what is put before and behind the text [begin, end) of a file, N in it for its number."""
    file: str
    line: int
    kind: str
    point: int  # mistakes of one place have the same
    begin: int
    end: int
    before: str
    after: str
    change: str  # for people, and for the list of those that change nothing


class Finder:
    """The mistakes of one file."""

    def __init__(self, path, source):
        self.path, self.source, self.found, self.function = path, source, [], ""
        self.lines = [at for at, byte in enumerate(source) if byte == 10]

    def text(self, begin, end):
        return re.sub(r"\s*\n\s*", " ", self.source[begin:end].decode("utf-8", "replace"))

    def macro_end(self, at):
        """Where the use of a macro that begins here ends."""
        while at < len(self.source) and (chr(self.source[at]).isalnum() or self.source[at] == 95):
            at += 1
        if self.source[at:at + 1] != b"(":
            return at
        depth = 0
        for end in range(at, len(self.source)):
            depth += {40: 1, 41: -1}.get(self.source[end], 0)
            if depth == 0:
                return end + 1
        return at

    def span(self, node):
        """(begin, end, is it a macro, or within one); None: it cannot be changed as text."""
        place = node.get("range", {})
        ends = []
        for side in ("begin", "end"):
            where = place.get(side, {})
            macro = where.get("expansionLoc")
            where = macro or where
            if "offset" not in where or "includedFrom" in where:
                return None
            ends.append((where["offset"], macro is not None, where.get("tokLen", 0)))
        (begin, from_macro, _), (end, to_macro, length) = ends
        end = self.macro_end(end) if to_macro else end + length
        text = self.source[begin:end]
        if begin >= end or b"\n#" in text or b"//" in text or b"__LINE__" in text:
            return None
        return begin, end, from_macro and to_macro and ends[0][0] == ends[1][0]

    def add(self, kind, span, before, after, change):
        begin, end = span[:2]
        line = bisect.bisect_left(self.lines, begin) + 1
        self.found.append(Mutant(self.path, line, kind, begin, begin, end, before, after, f"{change} in {self.function}()"))

    def instead(self, kind, span, other, where=""):
        """Another expression in its place."""
        old = self.text(*span[:2])
        self.add(kind, span, f"(GY_MUTANT(N) ? ({other}) : (", "))", f"{old} -> {other}{where}")

    def binary(self, node):
        """Another operator between the same two."""
        span, parts = self.span(node), [self.span(part) for part in node["inner"][:2]]
        if span is None or span[2] or None in parts or parts[0][1] > parts[1][0]:
            return
        left, right = self.text(*parts[0][:2]), self.text(*parts[1][:2])
        middle = self.source[parts[0][1]:parts[1][0]].decode()
        operator = node["opcode"]
        pointers = [is_pointer(part) for part in node["inner"][:2]]
        if middle.count(operator) != 1 or (pointers[1] and operator in OPERATORS["arithmetic"]):
            return
        for kind, table in OPERATORS.items():
            for other in table.get(operator, []):
                self.instead(kind, span, f"{left} {other} {right}")
        if operator in ("<", "<=") and not any(pointers):
            self.instead("bound", span, f"({left}) + 1 {operator} {right}")
        if operator in ("&&", "||"):
            self.instead("condition", span, f"!!({left})")
            self.instead("condition", span, f"!!({right})")

    def arguments(self, node):
        """Two arguments of one type, swapped."""
        span, given = self.span(node), [(self.span(part), type_of(part)) for part in node["inner"][1:]]
        if span is None or span[2]:
            return
        for (first, one), (second, other) in zip(given, given[1:]):
            if None in (first, second) or one != other or self.text(*first[:2]) == self.text(*second[:2]):
                continue
            text = [self.text(*part) for part in ((span[0], first[0]), second[:2], (first[1], second[0]), first[:2], (second[1], span[1]))]
            if first[1] <= second[0]:
                self.instead("arguments", span, "".join(text))

    def statement(self, node):
        """A call or an assignment that is left out, as one of a block's statements."""
        span = self.span(node)
        is_call = node["kind"] in ("CallExpr", "AtomicExpr", "StmtExpr", "CStyleCastExpr")
        is_assignment = node["kind"] == "BinaryOperator" and node.get("opcode") == "="
        if span is None or not (is_call or is_assignment) or NO_CALLS.match(self.text(*span[:2])):
            return
        if span[2] and not is_call:
            return
        self.add("call" if is_call else "assignment", span, "(GY_MUTANT(N) ? (void)0 : (void)(", "))",
                 f"{self.text(*span[:2])} is left out")

    def early(self, node):
        """The function returns before one of the statements of its body."""
        kind = node["type"]["qualType"].split("(")[0].strip()
        if re.match(r"(struct|union)\b[^*]*$", kind) or "noreturn" in node["type"]["qualType"]:
            return
        body = [part for part in node["inner"] if part["kind"] == "CompoundStmt"][0]
        for number, part in enumerate(body.get("inner", [])):
            span = self.span(part)
            if number == 0 or span is None or part["kind"] in ("DeclStmt", "ReturnStmt", "LabelStmt", "NullStmt") or span[2]:
                continue
            text = "return;" if kind == "void" else "return 0;"
            self.add("return", (span[0], span[0]), f"if (GY_MUTANT(N)) {{ {text} }} ", "",
                     f"{text} before {self.text(*span[:2])[:60]}")

    def literal(self, node, parent):
        span = self.span(node)
        if span is None or parent.get("castKind") == "NullToPointer":
            return
        text, begin = self.text(*span[:2]), self.source.rfind(b"\n", 0, span[0]) + 1
        where = f" in {self.text(begin, self.source.index(10, span[0])).strip()} at {span[0] - begin}"
        if text in ("true", "false"):
            self.instead("constant", span, "false" if text == "true" else "true", where)
        elif LITERAL.match(text) and not span[2]:
            self.instead("constant", span, f"{text} + 1", where)
            if node["value"] != "0":
                self.instead("constant", span, f"{text} - 1", where)

    def expression(self, node, parent):
        """What can be wrong with this node by itself."""
        kind = node["kind"]
        if kind in ("BinaryOperator", "CompoundAssignOperator"):
            self.binary(node)
        elif kind == "CallExpr":
            self.arguments(node)
        elif kind == "IntegerLiteral":
            self.literal(node, parent)
        elif kind in ("IfStmt", "WhileStmt", "ConditionalOperator"):
            condition = self.span(node["inner"][0])
            if condition is not None and not node.get("hasVar"):
                for other in ["0"] if kind == "WhileStmt" else ["1", "0"]:
                    self.instead("condition", condition, other)
        elif kind in ("ContinueStmt", "BreakStmt"):
            span = self.span(node)
            if span is not None and not span[2]:
                self.add("return", span, "if (!GY_MUTANT(N)) ", "", f"{kind[:-4].lower()} is left out")
        elif kind == "UnaryOperator" and node["opcode"] == "!":
            span = self.span(node)
            if span is not None and not span[2]:
                self.instead("condition", span, f"!{self.text(*span[:2])}")
        elif kind == "ReturnStmt" and node.get("inner"):
            span = self.span(node["inner"][0])
            if span is not None and type_of(node["inner"][0]) == "_Bool" and self.text(*span[:2]) not in ("true", "false"):
                self.instead("return", span, f"!({self.text(*span[:2])})")

    def walk(self, node, parent):
        if node.get("kind") in ONLY_AT_BUILD or (node.get("kind") == "VarDecl" and node.get("storageClass") == "static"):
            return
        whole = self.span(node) if "range" in node else None
        if whole is not None and whole[2] and node["kind"] != "IntegerLiteral" and "Cast" not in node["kind"]:
            return  # a macro's inside
        if "kind" in node:
            self.expression(node, parent)
        parts = node.get("inner", [])
        if whole is not None and self.source[whole[0]:].startswith(b"__builtin_expect("):
            parts = parts[:2]  # what is expected is no more than a hint
        for part in parts:
            if node["kind"] in ("CompoundStmt", "CaseStmt", "DefaultStmt", "LabelStmt") and "kind" in part:
                self.statement(part)
            self.walk(part, node)


def type_of(node):
    return node.get("type", {}).get("desugaredQualType") or node.get("type", {}).get("qualType", "")


def is_pointer(node):
    return re.search(r"[*\[]", type_of(node)) is not None


def functions(tree):
    """Those of the file itself: most of a tree is what it includes, which is not even read."""
    for text in re.split(rb"\n    \},?\n", tree[tree.index(b"\n    {\n"):]):
        head, _, body = text.partition(b'"kind": "CompoundStmt"')
        if body and b'"kind": "FunctionDecl"' in head[:200] and b'"includedFrom"' not in head[:head.index(b'"range"')]:
            yield json.loads(text + b"}")


def find(root, path, command):
    """The mistakes that can be made in a file, with the options of the command that compiles it.  A header that is no C (device
    code, or a list of macros) has none."""
    options = [word for word in command if re.match(r"-(D|I|isystem|std=)", word)]
    with open(f"{root}/{path}", "rb") as file:
        finder = Finder(path, file.read())
    if path.endswith(".h") and b" inline " not in finder.source:
        return []
    clang = subprocess.run(["clang", "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json", *options, "-x", "c", f"{root}/{path}"],
                           capture_output=True, check=False)
    if clang.returncode != 0:
        if path.endswith(".h"):
            return []
        raise SystemExit(f"clang cannot read {path}: {clang.stderr.decode()}")
    for node in functions(clang.stdout):
        body = [part for part in node["inner"] if part["kind"] == "CompoundStmt"]
        finder.function = node["name"]
        finder.early(node)
        finder.walk(body[0], node)
    return finder.found


def plant(source, mutants, count):
    """The source with these mistakes in it (number -> mistake), each behind its switch."""
    out, at, within = [SWITCH.replace("GY_MUTANTS,", f"{count},"), "#line 1\n"], 0, []

    def close(until):
        nonlocal at
        while within and within[-1].end <= until:
            mutant = within.pop()
            out.extend([source[at:mutant.end].decode(), mutant.after])
            at = mutant.end

    for number, mutant in sorted(mutants.items(), key=lambda item: (item[1].begin, item[1].end > item[1].begin, -item[1].end)):
        close(mutant.begin)
        out.extend([source[at:mutant.begin].decode(), mutant.before.replace("(N)", f"({number})", 1)])
        at = mutant.begin
        within.append(mutant)
    close(len(source))
    return "".join([*out, source[at:].decode()]).encode()
