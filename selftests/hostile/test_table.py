# SPDX-License-Identifier: GPL-2.0
"""What the table of several runs says of their medians."""

import unittest

import table

OVERRUN = "more calls than credits, 8"
STORM = "connects, 4 threads"
BUSY = "all of the first five, 200"


def measured(p99):
    return {kind: {"count": 9, "median": p99 // 4, "p99": p99, "most": p99} for kind in table.KINDS}


def found(before, after, load=1.0, **attacks):
    """What was found of a server: without an attack, and beside some."""
    names = {"overrun": OVERRUN, "storm": STORM, "busy": BUSY}
    rows = {names[name]: {"beside": measured(p99), "calls": {"mount": 1, "attackers": 3}} for name, p99 in attacks.items()}
    return {"alone": {"before": measured(before), "after": measured(after)}, "attacks": rows, "load": [load]}


class Medians(unittest.TestCase):
    def test_an_attack_is_held_against_the_larger_quiet_value(self):
        self.assertEqual(table.within([{"ours": found(100, 200, storm=400)}], STORM, "READ"), (2.0, True))
        self.assertEqual(table.within([{"ours": found(100, 200, storm=410)}], STORM, "READ"), (2.05, False))

    def test_more_calls_than_credits_are_held_against_the_in_tree_server(self):
        run = {"ours": found(1, 1, overrun=300), "in-tree": found(1, 1, overrun=200)}
        self.assertEqual(table.within([run], OVERRUN, "GETATTR"), (1.5, True))
        run["ours"] = found(1, 1, overrun=310)
        self.assertEqual(table.within([run], OVERRUN, "GETATTR"), (1.55, False))

    def test_without_the_in_tree_server_there_is_no_verdict_on_that(self):
        run = {"ours": found(1, 1, overrun=300), "in-tree": found(1, 1)}
        self.assertEqual(table.within([run], OVERRUN, "GETATTR"), (None, None))

    def test_the_median_of_the_runs_counts(self):
        runs = [{"ours": found(100, 100, storm=p99)} for p99 in (900, 150, 120)]
        self.assertEqual(table.within(runs, STORM, "READ"), (1.5, True))

    def test_some_attacks_have_no_bound(self):
        self.assertEqual(table.within([{"ours": found(1, 1, busy=50)}], BUSY, "READ"), (50, None))

    def test_a_run_without_an_end_has_one_quiet_value(self):
        one = found(100, 500, storm=150)
        del one["alone"]["after"]
        self.assertEqual(table.within([{"ours": one}], STORM, "READ"), (1.5, True))

    def test_the_table_has_a_row_for_each_attack_and_says_which_miss(self):
        runs = [{"ours": found(100, 100, load=0.5, storm=300, busy=900), "in-tree": found(100, 100, load=2.5, storm=200)}] * 3
        lines = list(table.medians(runs))
        self.assertIn("load of this machine 0.5 to 2.5", lines[0])
        storm, busy = (next(line for line in lines if line.startswith(name)) for name in (STORM, BUSY))
        self.assertIn("75 / 300", storm)
        self.assertIn("50 / 200", storm)
        self.assertIn("3.0 MORE", storm)
        self.assertIn("25 %", storm)
        self.assertIn("225 / 900", busy)
        self.assertNotIn("MORE", busy)
        self.assertIn("none", busy)


if __name__ == "__main__":
    unittest.main()
