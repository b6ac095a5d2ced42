#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The reference of the public headers, of what Doxygen reads in them: pages for Sphinx and manual pages.

Usage: reference.py SOURCE_DIR OUTPUT_DIR

Writes OUTPUT_DIR/reference/HEADER.rst for each header, gantry.hpp among them, and OUTPUT_DIR/man3/NAME.3 for each function, struct and enum.  A function has the example
example_NAME() of docs/reference/examples*.c where there is one.  The exit status is 1, and the complaints are printed, when something public
has no description.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cpp_reference  # noqa: E402

NAME = re.compile(r"\b(?:gantry_\w+|GANTRY_\w+)\b(?:\(\))?")
ROLES = {"function": "func", "struct": "struct", "enum": "enum", "enumvalue": "enumerator", "typedef": "type", "define": "macro"}


def run_doxygen(headers, output, pattern="*.h"):
    """Doxygen's complaints."""
    output.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(output / "xml", ignore_errors=True)
    done = subprocess.run(["doxygen", HERE / "Doxyfile.in"], text=True, capture_output=True, check=False,
                          env={**os.environ, "GANTRY_HEADERS": str(headers), "GANTRY_OUTPUT": str(output), "GANTRY_PYTHON": sys.executable,
                               "GANTRY_FILTER": str(HERE / "doxygen_filter.py"), "GANTRY_PATTERN": pattern,
                               "GANTRY_IS_C": "YES" if pattern == "*.h" else "NO"})
    return [line for line in done.stderr.splitlines() if line.strip()] or ([] if done.returncode == 0 else ["doxygen failed"])


def inline(node):
    """The text of a paragraph, code between backticks."""
    text = node.text or ""
    for child in node:
        if child.tag == "computeroutput":
            text += f"`{inline(child)}`"
        elif child.tag not in ("parameterlist", "simplesect", "verbatim"):
            text += {"mdash": "—"}.get(child.tag, "") + inline(child)
        text += child.tail or ""
    return re.sub(r"\s+", " ", text)


def description(*nodes):
    """(blocks, statuses): blocks are ("text" or "code", its text), statuses (name, what it means here)."""
    blocks, statuses = [], []
    for node in nodes:
        for part in node.findall("para"):
            for child in part.findall("verbatim"):
                blocks.append(("code", child.text.strip("\n")))
            if inline(part).strip():
                blocks.append(("text", inline(part).strip()))
            for section in part.findall("simplesect"):
                blocks.append(("text", "Returns " + " ".join(inline(child) for child in section).strip()))
            for item in part.iter("parameteritem"):
                names = ",".join(inline(name) for name in item.iter("parametername"))
                statuses.append((names.replace(",", ", "), " ".join(inline(child) for child in item.find("parameterdescription")).strip()))
    return blocks, statuses


def entry(node, kind, header):
    blocks, statuses = description(node.find("briefdescription"), node.find("detaileddescription"))
    name = node.findtext("name") or node.findtext("compoundname")
    return {"kind": kind, "name": name, "header": header, "blocks": blocks, "statuses": statuses, "parts": []}


def declaration(node):
    if node.findtext("argsstring", "").startswith(")("):  # a pointer to a function
        return re.sub(r" ?\(\*", " (*", " ".join(inline(node.find("type")).split()) + node.findtext("name") + node.findtext("argsstring"))
    return re.sub(r" ([,)])", r"\1", re.sub(r"\* (?=\w)", "*", " ".join((node.findtext("definition") + (node.findtext("argsstring") or "")).split())))


def members(node, header, structs):
    for member in node.iter("memberdef"):
        kind = member.get("kind")
        if kind == "variable" or member.find("name") is None:
            continue
        found = entry(member, kind, header)
        if kind == "define":
            arguments = [inline(argument).strip() for argument in member.findall("param")]
            found["declaration"] = found["name"] + (f"({', '.join(arguments)})" if arguments else "")
        elif kind == "enum":
            found["name"] = re.sub(r"^@\d+$", "", found["name"])  # constants without a type
            found["declaration"] = found["name"]
            for value in member.findall("enumvalue"):
                part = entry(value, "enumvalue", header)
                part["declaration"] = " ".join(f"{part['name']} {value.findtext('initializer') or ''}".split())
                found["parts"].append(part)
        elif kind == "typedef" and (found["name"] in structs or member.findtext("definition").startswith("typedef enum")):
            continue
        else:
            found["declaration"] = re.sub(r"^(typedef|static|inline) ", "", re.sub(r"^static inline ", "", declaration(member)))
            if kind == "typedef" and re.match(r"struct ", found["declaration"]):
                found["declaration"] = found["name"]
        yield found


def read(xml):
    """{header: {"head": blocks, "entries": [...]}} in the order of the declarations."""
    structs, headers = {}, {}
    for path in sorted(xml.glob("struct*.xml")):
        node = ElementTree.parse(path).find("compounddef")
        found = entry(node, "struct", pathlib.Path(node.find("location").get("file")).name)
        found["declaration"] = found["name"]
        found["line"] = int(node.find("location").get("line"))
        for member in node.iter("memberdef"):
            part = entry(member, "member", found["header"])
            part["declaration"] = declaration(member).replace(f"{found['name']}::", "")
            found["parts"].append(part)
        structs[found["name"]] = found
    seen = set(structs)
    for path in sorted(xml.glob("*_8h.xml")):
        node = ElementTree.parse(path).find("compounddef")
        header = node.findtext("compoundname")
        if "detaileddescription" not in [child.tag for child in node] or header in ("clang.h", "common.h", "host.h", "steal.h", "surface.h", "host_module.h"):
            continue
        entries = [found for found in structs.values() if found["header"] == header]
        for found in members(node, header, set(structs)):
            if not found["name"] or found["name"] not in seen:
                seen.add(found["name"])
                entries.append(found)
        headers[header] = {"head": description(node.find("briefdescription"), node.find("detaileddescription"))[0], "entries": entries}
    return headers


def examples(paths):
    """{function: the body of its example}."""
    found = {}
    for name, body in re.findall(r"(?ms)^(?:static )?[^\n;{}]*\bexample_(\w+)\([^\n]*\)\n\{\n(.*?)^\}", "\n".join(path.read_text() for path in paths)):
        found[name] = re.sub(r"(?m)^    ", "", body).rstrip()
    return found


# ---- pages for Sphinx

def rst_text(text, names):
    """A paragraph in reStructuredText, names of the library as links."""
    def code(match):
        return f"\\ ``{match[1]}``\\ "

    def link(match):
        name = match[0].removesuffix("()")
        return f"\\ :c:{ROLES[names[name]]}:`{name}`\\ " if name in names else match[0]

    parts = re.split(r"(`[^`]+`)", text)
    for number, part in enumerate(parts):
        if number % 2 and not NAME.fullmatch(part.strip("`")):
            parts[number] = code(re.match(r"`(.*)`", part))
        else:
            escaped = re.sub(r"([\\*|_`])", r"\\\1", part.strip("`") if number % 2 else part)
            parts[number] = NAME.sub(link, escaped.replace("\\_", "_"))
    return re.sub(r"(?<![\w`:/])(\w+)_(?=\W|$)", r"\1\\_", "".join(parts))


def rst_entry(found, names, shown, indent=""):
    directive = {"function": "function", "struct": "struct", "enum": "enum", "enumvalue": "enumerator", "typedef": "type", "define": "macro",
                 "member": "member"}[found["kind"]]
    lines = [f"{indent}.. c:{directive}:: {found['declaration']}", ""]
    inner = indent + "   "
    for kind, text in found["blocks"]:
        lines += [f"{inner}.. code-block:: text", ""] + [f"{inner}   {line}" for line in text.split("\n")] + [""] if kind == "code" else \
            [inner + rst_text(text, names), ""]
    if found["statuses"]:
        lines += [f"{inner}.. list-table:: returns", f"{inner}   :widths: auto", ""]
        for name, text in found["statuses"]:
            lines += [f"{inner}   * - {rst_text(name, names)}", f"{inner}     - {rst_text(text, names)}"]
        lines.append("")
    if found["name"] in shown and found["kind"] == "function":
        lines += [f"{inner}.. code-block:: c", f"{inner}   :caption: Example", ""]
        lines += [f"{inner}   {line}".rstrip() for line in shown[found["name"]].split("\n")] + [""]
    for part in found["parts"]:
        lines += rst_entry(part, names, shown, inner)
    return lines


def rst_page(header, page, names, shown):
    lines = [header, "=" * len(header), "", ".. code-block:: c", "", f"   #include <gantry/{header}>", ""]
    for kind, text in page["head"]:
        lines += [".. code-block:: text", ""] + [f"   {line}" for line in text.split("\n")] + [""] if kind == "code" else [rst_text(text, names), ""]
    for title, kinds in (("Functions", ("function",)), ("Types", ("struct", "enum", "typedef")), ("Macros", ("define",))):
        entries = [found for found in page["entries"] if found["kind"] in kinds]
        if entries:
            lines += [title, "-" * len(title), ""]
            for found in entries:
                if found["kind"] == "enum" and not found["name"]:  # constants without a type
                    lines += [line for part in found["parts"] for line in rst_entry({**part, "kind": "define", "declaration": part["name"]}, names, shown)]
                else:
                    lines += rst_entry(found, names, shown)
    return "\n".join(lines) + "\n"


# ---- manual pages

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fI\1\\fR", text)
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def man_blocks(blocks):
    lines = []
    for kind, text in blocks:
        lines += [".PP", ".nf", roff(text), ".fi"] if kind == "code" else [".PP", roff(text)]
    return lines


def man_page(found, names, shown, version):
    brief = found["blocks"][0][1] if found["blocks"] else ""
    first = re.match(r".*?(?:[.:](?= |$)|$)", brief)[0].rstrip(".:")
    lines = [f'.TH {found["name"].upper()} 3 "" "gantry {version}" "Library Functions Manual"', ".SH NAME",
             f'{found["name"]} \\- {roff(first).replace("(3)", "")}', ".SH SYNOPSIS", ".nf", f'#include <gantry/{found["header"]}>', ""]
    if found["kind"] == "function":
        lines += [roff(found["declaration"]) + ";", ".fi"]
    else:
        lines.append(f"{found['kind']} {found['name']} {{")
        lines += ["    " + roff(part["declaration"]).strip() + (";" if found["kind"] == "struct" else ",") for part in found["parts"]] + ["};", ".fi"]
    lines += [".SH DESCRIPTION"] + man_blocks(found["blocks"])
    for part in found["parts"]:
        text = " ".join(text for _, text in part["blocks"])
        lines += [".TP", f".B {part['name']}", roff(text)]
    if found["statuses"]:
        lines.append(".SH RETURN VALUE")
        for name, text in found["statuses"]:
            lines += [".TP", f".B {name}", roff(text) or "\\&"]
    if found["name"] in shown and found["kind"] == "function":
        lines += [".SH EXAMPLES", ".nf", roff(shown[found["name"]]), ".fi"]
    text = found.get("declaration", "") + " ".join(text for _, text in found["blocks"] + found["statuses"])
    others = sorted({name.removesuffix("()") for name in NAME.findall(text)} - {found["name"]})
    others = [name for name in others if names.get(name) in ("function", "struct", "enum")]
    return "\n".join(lines + [".SH SEE ALSO", ",\n".join(f".BR {name} (3)".replace(".BR ", "").replace(" (3)", "(3)") for name in others + ["gantry(1)"]).replace("gantry(1)(3)", "gantry(1)")]) + "\n"


def write(source, output):
    """Doxygen's complaints; without any, the pages are written."""
    complaints = run_doxygen(source / "include/gantry", output / "doxygen")
    if complaints:
        return complaints
    headers = read(output / "doxygen/xml")
    entries = [found for page in headers.values() for found in page["entries"]]
    names = {part["name"]: part["kind"] for found in entries for part in found["parts"] if part["kind"] == "enumvalue"}
    names.update({found["name"]: found["kind"] for found in entries if found["name"]})
    for found in entries:
        whole = [found] if found["name"] else []
        complaints += [f"gantry/{found['header']}: {part['name']} is not documented" for part in whole + found["parts"] if not part["blocks"]]
    shown = examples(sorted((source / "docs/reference").glob("examples*.c")))
    for name in shown:
        if names.get(name) != "function":
            complaints.append(f"docs/reference: example_{name}() is of no public function")
    version = ".".join(re.findall(r"#define GANTRY_VERSION_\w+ (\d+)", (source / "include/gantry/base.h").read_text()))
    for folder in ("reference", "man3"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    for header, page in headers.items():
        (output / "reference" / f"{header}.rst").write_text(rst_page(header, page, names, shown))
    if (source / "include/gantry" / cpp_reference.HEADER).exists():
        complaints += run_doxygen(source / "include/gantry", output / "doxygen-cpp", "*.hpp")
        lines, lacking = cpp_reference.page(output / "doxygen-cpp/xml", names, sys.modules[__name__])
        (output / "reference" / f"{cpp_reference.HEADER}.rst").write_text("\n".join(lines))
        complaints += lacking
    for found in entries:
        if found["name"] and found["kind"] in ("function", "struct", "enum"):
            (output / "man3" / f"{found['name']}.3").write_text(man_page(found, names, shown, version))
    return complaints


if __name__ == "__main__":
    problems = write(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
