# SPDX-License-Identifier: GPL-2.0

"""The vectors and the check of them: the check must take every line, and find every change."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import lines
import vectors

FOLDER = Path(__file__).parent


def run(*arguments):
    return subprocess.run([sys.executable, FOLDER, *arguments], text=True, check=False, capture_output=True)


class Vectors(unittest.TestCase):
    def test_all_agree_with_their_codec(self):
        for line in vectors.all_lines():
            self.assertIsNone(lines.complaint(line))

    def test_the_same_in_each_run(self):
        self.assertEqual(run("vectors").stdout, run("vectors").stdout)

    def test_names_are_unique(self):
        names = [line.split()[1] for line in vectors.all_lines()]
        self.assertEqual(len(names), len(set(names)))

    def test_a_changed_field_is_found(self):
        for line in vectors.all_lines():
            kind, name, fields, octets = lines.read(line)
            for key, value in fields.items():
                if key in lines.CONTEXT[kind] or key == lines.RECEIVE:
                    continue
                changed = value + "x" if isinstance(value, str) else value + b"x" if isinstance(value, bytes) else value ^ 1
                self.assertIsNotNone(lines.complaint(lines.write(kind, name, {**fields, key: changed}, octets)), (line, key))

    def test_a_missing_field_is_found(self):
        self.assertIsNone(lines.complaint("sctp x ppid=17 ssn=5 function=4 | 00050004"))
        self.assertIsNotNone(lines.complaint("sctp x ppid=17 ssn=5 | 00050004"))


class Check(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            return run("check", file.name).returncode

    def test_status(self):
        self.assertEqual(self.check("# A comment.\nsctp x ppid=17 ssn=5 function=4 | 00050004\n"), 0)
        self.assertEqual(self.check("sctp x ppid=17 ssn=6 function=4 | 00050004\n"), 1)

    def test_no_vectors_and_no_lines_of_the_format_fail(self):
        self.assertNotEqual(self.check(""), 0)
        self.assertNotEqual(self.check("something else\n"), 0)
