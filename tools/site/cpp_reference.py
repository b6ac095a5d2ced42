# SPDX-License-Identifier: MIT
"""The page of gantry.hpp in the reference: its classes with their public members, and its functions, as Doxygen reads them."""
import re
import xml.etree.ElementTree as ElementTree

HEADER = "gantry.hpp"


def tidy(text):
    return re.sub(r" ?\bnoexcept\b| ?=default\b|\bGANTRY_\w+\(\) ", "", re.sub(r"\s+", " ", text)).replace("< ", "<").replace(" >", ">").strip()


def declaration(member, inline):
    """A function or an alias of a type, without the scope that it is listed in."""
    found = member.find("templateparamlist")
    template = ""
    if found is not None:
        names = [" ".join(filter(None, (inline(parameter.find("type")), parameter.findtext("declname")))) for parameter in found]
        template = f"template <{', '.join(names)}> "
    if member.get("kind") == "typedef":
        return tidy(f"{template}using {member.findtext('name')} = {inline(member.find('type'))}")
    kind = inline(member.find("type")) if member.find("type") is not None else ""
    explicit = "explicit " if member.get("explicit") == "yes" else ""
    return tidy(f"{template}{explicit}{kind} {member.findtext('name')}{member.findtext('argsstring')}")


def listed(node, reference):
    """(declaration, blocks) of what is public in a class or a namespace, copies and moves aside."""
    own = node.findtext("compoundname").rpartition("::")[2]
    for member in node.iter("memberdef"):
        name, arguments = member.findtext("name"), member.findtext("argsstring") or ""
        if member.get("prot") != "public" or member.get("kind") not in ("function", "typedef") or name in (f"~{own}", "operator="):
            continue
        if name == own and re.match(rf"\((?:const )?{own} &", arguments):
            continue
        yield declaration(member, reference.inline), reference.description(member.find("briefdescription"), member.find("detaileddescription"))[0]


def described(found, names, reference, indent):
    for text, blocks in found:
        yield from (f"{indent}.. describe:: {text}", "")
        for _, block in blocks:
            yield from (f"{indent}   {reference.rst_text(block, names)}", "")


def page(xml, names, reference):
    """(the lines of the page, complaints)."""
    lines = [HEADER, "=" * len(HEADER), "", ".. code-block:: cpp", "", f"   #include <gantry/{HEADER}>", ""]
    head = ElementTree.parse(xml / "gantry_8hpp.xml").find("compounddef")
    for _, block in reference.description(head.find("briefdescription"), head.find("detaileddescription"))[0]:
        lines += [reference.rst_text(block, names), ""]
    lines += ["Functions and names of types", "-" * 28, ""]
    lines += described(listed(ElementTree.parse(xml / "namespacegantry.xml").find("compounddef"), reference), names, reference, "")
    lines += ["Classes", "-" * 7, ""]
    complaints = []
    classes = [ElementTree.parse(path).find("compounddef") for path in sorted(xml.glob("classgantry_1_1*.xml")) + sorted(xml.glob("structgantry_1_1*.xml"))]
    for node in classes:
        name = node.findtext("compoundname")
        if not re.fullmatch(r"gantry::\w+", name):  # parts of others, and what is not for programs
            continue
        blocks, _ = reference.description(node.find("briefdescription"), node.find("detaileddescription"))
        if not blocks:
            complaints.append(f"gantry/{HEADER}: {name} is not documented")
        lines += [f".. cpp:class:: {name}", ""]
        for _, block in blocks:
            lines += [f"   {reference.rst_text(block, names)}", ""]
        bases = [tidy(base.text) for base in node.findall("basecompoundref") if base.get("prot") == "public"]
        if bases:
            lines += [f"   It has what {' and '.join(f'``{base}``' for base in bases)} has, too.", ""]
        lines += described(listed(node, reference), names, reference, "   ")
    return lines, complaints
