#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Which requirement of the protocols is shown by which test.

Runs the host tests of the crates proto and rdmap and compares what ran with selftests/conformance.tsv (RPC-over-RDMA) and
selftests/iwarp-conformance.tsv (iWARP): one row per requirement, with its section, its strength, the kinds of test that
can show it, and the tests that do.

    U unit test             P property or fuzz test     M model of two ends     (all run here)
    T test in the kernel    X crafted peer in a VM      W capture of the wire
    K whole mounts          I another implementation    A review

Tests called peer:: are cases of the crafted peer: here they must exist, in the kselftests peer.sh and peer-server.sh they
run.

A row of kind U, P or M must have a test, or say `open` until it is written. A row of other kinds that names nothing is
open, too. Open rows are counted as such. A row of kind U, P or M that is of kind T, X, W, K or I as well is counted apart while only host
tests show it. It is an
error if a test is named that does not exist, did not run or failed, and if a test is called after a case (adv12_, gv03_)
that has no row.

Beside host tests a row can name what a kselftest checks: vm/mount.sh:"NFSv$version mounts" is the line of
selftests/vm/mount.sh that says so. It must be there, and the script be one of those that selftests/Makefile runs; that
it passes is shown where the kselftests run.

iwpeer/hostile.py:"a peer that says nothing is not waited for" is what a case of that file is called; vm/iwarp-hostile.sh runs them all, and vm/iwarp-sctp.sh those of iwpeer/hostile_sctp.py.

rust/rdma/selftest.rs:"what it claims" is a test in the kernel. It must be there; vm/inkernel.sh runs them all.

A row of kind A can name where a source argues for it: rust/proto/plan.rs:"life of a connection" must be there; whether it
is true is for people to judge. A row that has `-` binds documents, devices, or the NFS code above: there is nothing in the
module to look at.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
TABLES = [("proto", TOP / "selftests/conformance.tsv"), ("rdmap", TOP / "selftests/iwarp-conformance.tsv")]
HOST_KINDS, REAL_KINDS = set("UPM"), set("TXWKI")
NORMATIVE = ["MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT", "MAY"]
SELFTESTS = TOP / "selftests"
KSELFTEST = re.compile(r'(vm/[\w-]+\.sh|iwpeer/hostile(?:_sctp)?\.py):"([^"]*)"')
KERNEL_TEST = re.compile(r'(rust/(?:\w+/)+selftest(?:/\w+)?\.rs):"([^"]*)"')
ARGUMENT = re.compile(r'(rust/[\w/]+\.rs):"([^"]*)"')


class Row:
    """One requirement."""

    def __init__(self, line):
        self.id, self.section, self.strength, kinds, self.requirement, tests = line.rstrip("\n").split("\t")
        self.kinds = set(kinds)
        self.checks = KSELFTEST.findall(tests)
        self.kernel_tests = KERNEL_TEST.findall(tests)
        tests = KERNEL_TEST.sub("", tests)
        self.arguments = ARGUMENT.findall(tests)
        self.elsewhere = tests == "-"
        self.unwritten = tests == "open"
        if self.unwritten:
            tests = ""
        self.tests = ARGUMENT.sub("", KSELFTEST.sub("", tests)).split() if not self.elsewhere else []

    def shown(self):
        return self.tests or self.checks or self.kernel_tests

    def host_only(self):
        """What is due beside host tests, a machine or a peer that is real, shows it nowhere."""
        real = self.checks or self.kernel_tests or any(test.startswith("peer::") for test in self.tests)
        return self.tests and not real and self.kinds & REAL_KINDS and self.kinds & HOST_KINDS

    def open(self):
        return not (self.shown() or self.arguments or self.elsewhere)

    def group(self):
        """The heading it is counted under: the first number of the section, which is the RFC's in the table of iWARP, else
        by source."""
        number = re.match(r"(\d+)", self.section)
        return f"section {number[1]}" if number else self.section


def read_table(table):
    lines = table.read_text().splitlines(keepends=True)
    return [Row(line) for line in lines if not line.startswith("#")]


def has_check(script, description):
    """Says whether a kselftest that is run, or the hostile peer that one runs, has a check with this description."""
    path = SELFTESTS / script
    runs = {"iwpeer/hostile.py": "vm/iwarp-hostile.sh", "iwpeer/hostile_sctp.py": "vm/iwarp-sctp.sh"}
    line = f'@case("{description}", ' if script in runs else f'check "{description}" '
    run = runs.get(script, script)
    return run in (SELFTESTS / "Makefile").read_text().split() and path.exists() and line in path.read_text()


def run_tests(package, show):
    """Runs the tests of a package, and prints what they print if `show` says so. Returns how each of them ended, by its full name."""
    command = ["cargo", "test", "--locked", "--no-fail-fast", "--color=never", "--package", package]
    run = subprocess.run(command, cwd=TOP, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if show:
        print(run.stdout)
    results, prefix = {}, ""
    for line in run.stdout.splitlines():
        if start := re.match(r"\s+Running (unittests )?", line):
            prefix = "lib::" if start[1] else ""
        elif end := re.match(r"test (\S+) \.\.\. (\w+)", line):
            results[prefix + end[1]] = end[2]
    if run.returncode and all(result == "ok" for result in results.values()):
        sys.exit(run.stdout)
    return results


def peer_cases():
    """Returns the crafted peer's cases as if they had run and ended well."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "--package", "peer", "--", "list"]
    names = subprocess.run(command, cwd=TOP, text=True, check=True, stdout=subprocess.PIPE).stdout
    return {f"peer::{name}": "ok" for name in names.split()}


def without_line_breaks(source):
    """Returns the source with the lines of each comment joined, so that an argument may go over several."""
    return re.sub(r"\n\s*//[/!]?(?= \S)", "", source)


def find_errors(rows, results):
    ids = defaultdict(int)
    for row in rows:
        ids[row.id] += 1
        if row.kinds & HOST_KINDS and not (row.tests or row.unwritten):
            yield f"{row.id} has no test: {row.requirement}"
        for test in row.tests:
            if results.get(test) != "ok":
                yield f"{row.id} names {test}, which {results.get(test, 'did not run')}"
        for script, description in row.checks:
            if not has_check(script, description):
                yield f'{row.id} names {script}:"{description}", which is not there'
        for source, name in row.kernel_tests:
            if f'"{name}",' not in (TOP / source).read_text():
                yield f'{row.id} names {source}:"{name}", which is not there'
        for source, text in row.arguments:
            if "A" not in row.kinds or text not in without_line_breaks((TOP / source).read_text()):
                yield f'{row.id} may not name {source}:"{text}", or it is not there'
    for row, count in ids.items():
        if count > 1:
            yield f"{row} has {count} rows"
    for test, result in results.items():
        if result != "ok":
            yield f"{test} {result}"
        case = re.search(r"::(adv|gv)(\d+)_", test)
        if case and f"{case[1].upper()}-{int(case[2]):02}" not in ids:
            yield f"{test} is called after a case that has no row"


def print_coverage(rows):
    titles = f"{'rows':>6}{'host':>6}{'shown':>7}{'only':>6}{'more':>6}{'argued':>8}{'elsewhere':>11}{'open':>6}"
    print(f"{'':24}{titles}   open kinds")
    for title, key in (("by section", Row.group), ("by strength", lambda row: row.strength)):
        print(title)
        groups = defaultdict(list)
        for row in rows:
            groups[key(row)].append(row)
        order = sorted(groups, key=lambda name: (NORMATIVE.index(name) if name in NORMATIVE else 99, name))
        for name in order:
            print_line("  " + name, groups[name])
    print_line("all", rows)
    print("\nhost: a unit or property test can show it; shown: one does. "
          "only: nothing else does, although a machine or a peer should. "
          "more: shown here although another kind is due as well or instead. "
          "argued: a source says why. elsewhere: nothing of the module.")


def print_line(name, rows):
    host = [row for row in rows if row.kinds & HOST_KINDS]
    shown = [row for row in host if row.tests]
    only = [row for row in rows if row.host_only()]
    more = [row for row in rows if row.shown() and not row.kinds & HOST_KINDS]
    argued = [row for row in rows if row.arguments and not row.shown()]
    elsewhere = [row for row in rows if row.elsewhere]
    still_open = [row for row in rows if row.open()]
    kinds = sorted({kind for row in still_open for kind in row.kinds})
    print(f"{name:24}{len(rows):6}{len(host):6}{len(shown):7}{len(only):6}{len(more):6}{len(argued):8}{len(elsewhere):11}"
          f"{len(still_open):6}   {''.join(kinds)}")


def main():
    parser = argparse.ArgumentParser(description="coverage of the protocol's requirements by tests")
    parser.add_argument("--open", action="store_true", help="list the rows that no test shows, and those that only host tests do")
    parser.add_argument("--tests", action="store_true", help="print what the tests print, too")
    options = parser.parse_args()
    failed = False
    for package, table in TABLES:
        rows = read_table(table)
        results = run_tests(package, options.tests)
        if package == "proto":
            results |= peer_cases()
        print(f"{package}: {table.relative_to(TOP)}")
        print_coverage(rows)
        if options.open:
            for row in rows:
                if row.open() or row.host_only():
                    print(f"{row.id}\t{'open' if row.open() else 'host'}\t{''.join(sorted(row.kinds))}\t{row.requirement}")
        errors = list(find_errors(rows, results))
        for error in errors:
            print(f"error: {error}", file=sys.stderr)
        print(f"\n{len(results)} tests, {len(rows)} rows, {len(errors)} errors\n")
        failed |= bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
