#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The list of what is in the build is SPDX 2.3, and says what the library and the command are really linked with.

Usage: test_sbom.py BUILD_DIR VERSION

Takes less than a second.
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

BUILD, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]
SBOM = json.loads((BUILD / "install/gantry.spdx.json").read_text())
# Of the compiler and the system, which the list leaves out, and a part of libgantry; the rest of what a file needs is in it under these names.
RUNTIMES = {"libc", "libm", "libdl", "libpthread", "libgcc_s", "libgomp", "libstdc++", "ld-linux-x86-64", "libasan", "libubsan", "libtsan",
            "libgantry-thread"}
SONAMES = {"libgantry": "libgantry", "libhwloc": "hwloc", "libcjson": "cjson", "libz": "zlib", "libpng16": "libpng", "libjemalloc": "jemalloc"}


def linked(how, of):
    return {relation["relatedSpdxElement"][len("SPDXRef-"):] for relation in SBOM["relationships"]
            if (relation["spdxElementId"], relation["relationshipType"]) == (f"SPDXRef-{of}", how)}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Sbom(unittest.TestCase):
    def test_it_has_what_spdx_wants(self):
        self.assertEqual((SBOM["spdxVersion"], SBOM["dataLicense"], SBOM["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(SBOM["documentNamespace"], r"^https://[^#]+$")
        self.assertRegex(SBOM["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(SBOM["creationInfo"]["creators"][0], r"^Tool: \S+$")
        self.assertEqual(SBOM["name"], f"gantry-{VERSION}")
        for package in SBOM["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[a-zA-Z0-9.-]+$")
            self.assertRegex(package["versionInfo"], r"^\d+(\.\d+)+$", package["name"])
            self.assertRegex(package["downloadLocation"], r"^(NOASSERTION|https?://\S+)$")
            self.assertIs(package["filesAnalyzed"], False)
            for key in ("licenseConcluded", "licenseDeclared", "copyrightText"):
                self.assertTrue(package[key], key)
            self.assertEqual(package["externalRefs"][0]["referenceLocator"], f"pkg:generic/{package['name']}@{package['versionInfo']}")

    def test_its_names_are_used_once_and_lead_somewhere(self):
        names = [package["SPDXID"] for package in SBOM["packages"]]
        self.assertEqual(len(names), len(set(names)))
        used = set()
        for relation in SBOM["relationships"]:
            self.assertIn(relation["relationshipType"], ("DESCRIBES", "STATIC_LINK", "DYNAMIC_LINK"))
            used |= {relation["spdxElementId"], relation["relatedSpdxElement"]}
        self.assertEqual(used, {"SPDXRef-DOCUMENT", *names})

    def test_it_says_what_the_files_need(self):
        for artifact, file in (("libgantry", "libgantry.so"), ("gantry", "gantry")):
            if artifact == "gantry" and not (BUILD / file).exists():
                continue
            needed = set(re.findall(r"NEEDED.*\[(.*?)\.so", output("readelf", "-d", BUILD / file))) - RUNTIMES
            self.assertEqual({SONAMES[name] for name in needed}, linked("DYNAMIC_LINK", artifact), artifact)

    def test_it_says_what_is_linked_in(self):
        library = (BUILD / "libgantry.so").read_bytes()
        found = {"jemalloc"} if b"<jemalloc>: " in library else set()
        self.assertEqual(found - linked("DYNAMIC_LINK", "libgantry"), linked("STATIC_LINK", "libgantry"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
