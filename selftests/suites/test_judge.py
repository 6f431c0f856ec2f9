# SPDX-License-Identifier: GPL-2.0
"""Tests of what judges the outcomes of suites."""

import tempfile
import unittest
from pathlib import Path

from judge import TABLE, complaint, missing, read, results, summary, table, unrun

ROWS = table("""
# A comment.
s\tfails\tfailed\tL3\tno such opcode
s\tskips\tskipped\tiwarp\tUD
s\tother.*\tskipped\tvendor\tonly for
s\thangs\tomitted\tprogram\tfor ever
""")


def judge(line):
    return complaint(ROWS, results(line)[0])


class Judge(unittest.TestCase):
    def test_a_test_without_a_row_has_to_pass(self):
        self.assertIsNone(judge("new\tpassed\t"))
        self.assertIn("no memory", judge("new\tfailed\tno memory"))
        self.assertIn("not here", judge("new\tskipped\tnot here"))

    def test_a_test_with_a_row_ends_as_that_says(self):
        self.assertIsNone(judge("fails\tfailed\tthere is no such opcode here"))
        self.assertIsNone(judge("skips\tskipped\tUD is not there"))
        self.assertIsNone(judge("other.x\tskipped\tit is only for them"))

    def test_a_test_with_a_row_does_not_pass(self):
        self.assertIn("passed", judge("fails\tpassed\t"))

    def test_a_test_does_not_fail_for_another_reason(self):
        self.assertIn("Oops", judge("fails\tfailed\tOops"))

    def test_a_skipped_test_is_not_one_that_failed(self):
        self.assertIn("failed", judge("skips\tfailed\tUD is not there"))

    def test_an_omitted_test_does_not_run(self):
        self.assertIn("omitted", judge("hangs\tpassed\t"))

    def test_each_row_is_of_a_test_that_ran(self):
        found = results("fails\tfailed\tno such opcode\nother.x\tskipped\tonly for them")
        self.assertEqual([row.test for row in missing(ROWS, found)], ["skips"])

    def test_a_row_behind_one_that_matches_as_well_is_of_no_test(self):
        rows = table("s\tother.*\tskipped\tvendor\tx\ns\tother.x\tskipped\tvendor\tx")
        self.assertEqual([row.test for row in missing(rows, results("other.x\tskipped\tx"))], ["other.x"])

    def test_some_test_of_a_suite_passes(self):
        self.assertEqual(unrun("s", []), ["s: it did not run"])
        self.assertEqual(unrun("s", results("skips\tskipped\tUD")), ["s: no test passed"])
        self.assertEqual(unrun("s", results("skips\tskipped\tUD\na\tpassed\t")), [])

    def test_only_a_newline_ends_a_result(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "s")
            file.write_bytes("a\tfailed\tone\r two\x0b three\x0c four\u2028 five\nb\tpassed\t\n".encode())
            self.assertEqual([(found.test, found.outcome) for found in read(file)], [("a", "failed"), ("b", "passed")])

    def test_tests_are_counted_by_what_came_of_them(self):
        found = results("a\tpassed\t\nb\tfailed\tOops\nfails\tfailed\tno such opcode\nother.x\tskipped\tonly for them")
        self.assertEqual(summary("s", ROWS, found), "s: 1 passed, 3 cannot (L3 1, program 1, vendor 1), 1 failed")

    def test_what_is_no_row_is_refused(self):
        for line in "s\tx\tfailed\tL3", "s\tx\tpassed\tL3\ty", "s\tx\tfailed\tL14\ty", "s\tx\tfailed\tbad luck\ty", "s\tx\tfailed\tL3\t":
            with self.assertRaises(ValueError):
                table(line)

    def test_what_is_no_result_is_refused(self):
        with self.assertRaises(ValueError):
            results("x\tperhaps\t")

    def test_the_table_can_be_read(self):
        self.assertTrue(table(TABLE.read_text()))


if __name__ == "__main__":
    unittest.main()
