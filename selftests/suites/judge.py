#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares what came of the tests of a suite with outcomes.tsv beside this file, which has those that do not pass, and why.

    judge.py SUITE [RESULT...]      what came of single tests, which need not be all
    judge.py --all SUITE...         each suite has run, and its results are in DIRECTORY/SUITE

A result is a line: the test, `passed`, `skipped` or `failed`, and what it said, separated by tabs. A test that is not in the table has
to pass. One that is has to end as its row says, and to say what the row's last field, a regular expression, finds. Prints what is
otherwise, and with --all a line for each suite that counts its tests. The exit status is 0 if nothing is otherwise. With --all, some
test of each suite has to pass.
"""

import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

TABLE = Path(__file__).with_name("outcomes.tsv")
DIRECTORY = Path(os.environ.get("RESULTS", "/vm/suites"))
OUTCOMES = ("passed", "skipped", "failed", "omitted")
# Reasons are explained at the head of the table.
REASON = re.compile(r"iwarp|vendor|verb|rnr|program|libfabric|(L([1-9]|1[0-3]))")


@dataclass
class Row:
    suite: str
    test: str
    outcome: str
    reason: str
    says: str

    def matches(self, test):
        return test == self.test or fnmatchcase(test, self.test)


@dataclass
class Result:
    test: str
    outcome: str
    said: str


def table(text):
    """Returns the rows of the table; what is no row is an error."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 5:
            raise ValueError(f"line {number} has {len(fields)} fields, not 5")
        row = Row(*fields)
        if row.outcome not in OUTCOMES[1:]:
            raise ValueError(f"line {number}: there is no outcome {row.outcome}")
        if not REASON.fullmatch(row.reason):
            raise ValueError(f"line {number}: there is no reason {row.reason}")
        if not row.says:
            raise ValueError(f"line {number}: everything says nothing")
        re.compile(row.says)
        rows.append(row)
    return rows


def results(text):
    found = []
    # Not splitlines(), as what a test says may have other characters that end a line.
    for line in text.split("\n"):
        if not line:
            continue
        test, outcome, said = line.split("\t", 2)
        if outcome not in OUTCOMES[:3]:
            raise ValueError(f"{test}: there is no outcome {outcome}")
        found.append(Result(test, outcome, said))
    return found


def row_of(rows, test):
    """Returns the row that counts for a test, the first that matches."""
    return next((row for row in rows if row.matches(test)), None)


def complaint(rows, result):
    """Says what is wrong with a result, if something is."""
    row = row_of(rows, result.test)
    if row is None:
        return None if result.outcome == "passed" else f"{result.test}: {result.outcome}: {result.said}"
    if row.outcome == "omitted":
        return f"{result.test}: it ran, and the table says that it is omitted"
    if result.outcome != row.outcome:
        return f"{result.test}: {result.outcome}, and the table says that it is {row.outcome}: {result.said}"
    if not re.search(row.says, result.said):
        return f"{result.test}: {result.outcome}, and does not say '{row.says}': {result.said}"
    return None


def complaints(rows, found):
    return [text for text in (complaint(rows, result) for result in found) if text]


def missing(rows, found):
    """Returns the rows of tests that did not run, but for those that are omitted."""
    ran = [row_of(rows, result.test) for result in found]
    return [row for row in rows if row.outcome != "omitted" and not any(row is other for other in ran)]


def unrun(suite, found):
    """Says that a suite did not run, or that nothing of it passed, which is no better."""
    if not found:
        return [f"{suite}: it did not run"]
    return [] if any(result.outcome == "passed" for result in found) else [f"{suite}: no test passed"]


def read(file):
    with file.open(encoding="utf-8", errors="replace", newline="\n") as opened:
        return results(opened.read())


def summary(suite, rows, found):
    """Counts the tests of a suite: those that pass, those that cannot, by their reasons, and those that fail."""
    wrong = {result.test for result in found if complaint(rows, result)}
    cannot = Counter(row.reason for row in rows if row.outcome == "omitted")
    passed = 0
    for result in found:
        if result.test in wrong:
            continue
        if result.outcome == "passed":
            passed += 1
        else:
            cannot[row_of(rows, result.test).reason] += 1
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(cannot.items()))
    return f"{suite}: {passed} passed, {sum(cannot.values())} cannot{f' ({reasons})' if reasons else ''}, {len(wrong)} failed"


def main(arguments):
    every = table(TABLE.read_text())
    if arguments[0] != "--all":
        rows = [row for row in every if row.suite == arguments[0]]
        wrong = complaints(rows, results("\n".join(arguments[1:])))
    else:
        wrong = []
        for suite in arguments[1:]:
            rows = [row for row in every if row.suite == suite]
            file = DIRECTORY / suite
            found = read(file) if file.exists() else []
            wrong += unrun(suite, found)
            wrong += complaints(rows, found)
            wrong += [f"{row.test}: it did not run, and is in the table" for row in missing(rows, found)]
            print(summary(suite, rows, found))
    for text in wrong:
        print(text)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
