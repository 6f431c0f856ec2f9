#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Which requirement of the protocols is shown by which test.

selftests/conformance.tsv (RPC-over-RDMA) and selftests/iwarp-conformance.tsv (iWARP) have a row for each requirement: its id, its
section, which begins with the RFC's number, its strength, the kinds of test that can show it, and what it requires.
selftests/user-threats.tsv has one for each thing that a hostile process may try with user verbs.

    U unit test             P property or fuzz test     M model of two ends     (all run here)
    T test in the kernel    X crafted peer in a VM      W capture of the wire
    K whole mounts          I another implementation    A review

A row of kind `-` binds documents, devices, or the NFS code above: there is nothing in the module to look at. Kinds that end with ` open`,
as in `UX open`, say that the test is not written yet.

A comment directly above a test says which rows it shows. For a row of kind A, a source can have an argument, and a comment directly below
that; whether it is true is for people to judge. The ids come in the order of the tables:

    // Shows P3.1-2, P3.1-4.
    // Argues for P3.1-1.

Tests are the host tests of the crates proto, rdmap and uabi, which run here, cases of the crafted peer (peer::) and of the hostile process
(user::), tests in the kernel, checks of the kselftests, and cases of the peers of iWARP that these run. That all but the first pass is shown where the kselftests run.

A row of kind U, P or M must have a host test or a case of the crafted peer, or say `open`. If it is of kind T, X, W, K or I as well, it is
counted apart while only host tests show it. A row of other kinds without a test or an argument is open, too. Open rows are counted.

It is an error if a comment names a row that is not there, or stands at no test; if a host test did not run or failed; if the script of a
check is not one of those that selftests/Makefile runs; and if a test is called after a case (adv12_, gv03_) that has no row.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
TABLES = {"proto": "selftests/conformance.tsv", "rdmap": "selftests/iwarp-conformance.tsv", "uabi": "selftests/user-threats.tsv"}
# The programs whose cases run in a VM.
LISTED_BY = {"proto": "peer", "uabi": "user"}
HOST_KINDS, REAL_KINDS = set("UPM"), set("TXWKI")
NORMATIVE = ["MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT", "MAY"]

# A comment that names rows. It goes on in the next line if its line ends with a comma.
NAMES_ROWS = re.compile(r"^[ \t]*(//|#) (Shows|Argues for) ((?:.*,\n[ \t]*\1 )*.*)\n", re.MULTILINE)
# The tests that it may stand above: in Rust, with other comments and attributes between, a function, a test in the kernel, or the messages
# that the crafted peer sends as the case of a number; in shell a check; in Python a case of a peer of iWARP.
TESTS = {
    ".rs": re.compile(r'(?:\s*(?://|#\[).*\n)*\s*(?:(?:pub )?fn (?P<function>\w+)|\(\s*"(?P<claim>[^"]*)",|'
                      r"(?:cases\.\w+\(\s*)?(?P<number>\d+)(?:,| =>))"),
    ".sh": re.compile(r'[^#\n]*\bcheck "(?P<claim>[^"]*)" '),
    ".py": re.compile(r'@case\("(?P<claim>[^"]*)", '),
}
# The kselftests that run the cases of other files.
RUN_BY = {"iwpeer/hostile.py": "vm/iwarp-hostile.sh", "iwpeer/hostile_rfc7306.py": "vm/iwarp-rfc7306.sh",
          "iwpeer/hostile_sctp.py": "vm/iwarp-sctp.sh", "iwpeer/hostile_sctp_answers.py": "vm/iwarp-sctp.sh"}


class Row:
    """One requirement, the tests that show it, and the sources that argue for it."""

    def __init__(self, line):
        self.id, self.section, self.strength, kinds, self.requirement = line.split("\t")
        kinds, _, state = kinds.partition(" ")
        self.unwritten = state == "open"
        self.elsewhere = kinds == "-"
        self.kinds = set(kinds) - {"-"}
        self.tests, self.arguments = [], []

    def listed(self):
        """Returns those of its tests that run here or that the crafted peer lists."""
        return [test for test in self.tests if not is_claim(test)]

    def host_only(self):
        """What is due beside host tests, a machine or a peer that is real, shows it nowhere."""
        real = any(is_claim(test) or test.startswith(("peer::", "user::")) for test in self.tests)
        return self.tests and not real and self.kinds & REAL_KINDS and self.kinds & HOST_KINDS

    def open(self):
        return not (self.tests or self.arguments or self.elsewhere)

    def group(self):
        """Returns the heading that it is counted under: the RFC, or the word for a row that is of none."""
        source = self.section.split()[0]
        return f"RFC {source}" if source.isdigit() else source


def read_table(table):
    return [Row(line) for line in (TOP / table).read_text().splitlines() if not line.startswith("#")]


def is_claim(test):
    """Says whether a test is called by its file and what it claims there: a test in the kernel, a check or a case of a kselftest."""
    return ':"' in test


def runs(test):
    """Returns the kselftest that runs a test that is called by its claim."""
    file, _ = test.split(':"', 1)
    script = "vm/inkernel.sh" if file.startswith("rust/") else file.removeprefix("selftests/")
    return RUN_BY.get(script, script)


def test_at(file, text, position):
    """Returns the name of the test that begins at this position of a file, or nothing if none does."""
    found = TESTS[Path(file).suffix].match(text, position)
    if not found:
        return None
    kind, name = found.lastgroup, found[found.lastgroup]
    if kind == "claim":
        return f'{file}:"{name}"' if "selftest" in file else None
    if kind == "number":
        return f"peer::adv{name:0>2}"
    match file.removesuffix(".rs").split("/"):
        case ["selftests", "peer" | "user" as program, *_]:
            return f"{program}::{name}"
        case ["rust", _, "tests", *modules]:
            return "::".join([*modules, name])
        case ["rust", _, *modules]:
            return "::".join(["lib", *modules, *["tests"] * ("mod tests {" in text), name])


def assign_tests(tables):
    """Adds to each row its tests and arguments, as the sources say. Yields what is wrong with the comments that say so."""
    scripts = (TOP / "selftests/Makefile").read_text().split()
    by_id = {(package, row.id): row for package, rows in tables.items() for row in rows}
    order = list(by_id)
    for path in sorted(path for top in ("rust", "selftests") for path in (TOP / top).rglob("*") if path.suffix in TESTS):
        file, text = path.relative_to(TOP).as_posix(), path.read_text()
        # Both tables have a GV-01. A comment in one of the crates is about its own table.
        packages = [package for package in tables if file.startswith(f"rust/{package}/")] or list(tables)
        for comment in NAMES_ROWS.finditer(text):
            where = f"{file}:{text.count(chr(10), 0, comment.start()) + 1}"
            test = test_at(file, text, comment.end()) if comment[2] == "Shows" else None
            if comment[2] == "Shows" and not test:
                yield f"{where} stands at no test"
                continue
            if test and is_claim(test) and runs(test) not in scripts:
                yield f"{where} stands at a test that selftests/Makefile does not run"
            keys = []
            for name in re.split(r",\s+(?:(?://|#) )?", comment[3].removesuffix(".")):
                found = [(package, name) for package in packages if (package, name) in by_id]
                if len(found) != 1:
                    yield f"{where} names {name}, which {len(found) or 'no'} tables have"
                keys += found
            if keys != sorted(set(keys), key=order.index):
                yield f"{where} names rows in another order than the tables"
            for key in keys:
                if test:
                    by_id[key].tests.append(test)
                else:
                    by_id[key].arguments.append(file)


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


def cases_of(program):
    """Returns the cases of a program, the crafted peer or the hostile process, as if they had run and ended well."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "--package", program, "--", "list"]
    names = subprocess.run(command, cwd=TOP, text=True, check=True, stdout=subprocess.PIPE).stdout
    return {f"{program}::{name}": "ok" for name in names.split()}


def find_errors(rows, results):
    ids = Counter(row.id for row in rows)
    for row in rows:
        if row.kinds & HOST_KINDS and not (row.listed() or row.unwritten):
            yield f"{row.id} has no test: {row.requirement}"
        if (row.unwritten or row.elsewhere) and (row.tests or row.arguments):
            yield f"{row.id} has a test or an argument, although its kinds say that there is none"
        for test in row.listed():
            if test not in results:
                yield f"{test}, which shows {row.id}, did not run"
        if row.arguments and "A" not in row.kinds:
            yield f"{row.id} is not of kind A, but {row.arguments[0]} argues for it"
    for name, count in ids.items():
        if count > 1:
            yield f"{name} has {count} rows"
    for test, result in results.items():
        if result != "ok":
            yield f"{test} {result}"
        case = re.search(r"::(adv|gv)(\d+)_", test)
        if case and f"{case[1].upper()}-{int(case[2]):02}" not in ids:
            yield f"{test} is called after a case that has no row"


def print_coverage(rows):
    titles = f"{'rows':>6}{'host':>6}{'shown':>7}{'only':>6}{'more':>6}{'argued':>8}{'elsewhere':>11}{'open':>6}"
    print(f"{'':24}{titles}   open kinds")
    for title, key in (("by RFC", Row.group), ("by strength", lambda row: row.strength)):
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
    shown = [row for row in host if row.listed()]
    only = [row for row in rows if row.host_only()]
    more = [row for row in rows if row.tests and not row.kinds & HOST_KINDS]
    argued = [row for row in rows if row.arguments and not row.tests]
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
    tables = {package: read_table(table) for package, table in TABLES.items()}
    errors = list(assign_tests(tables))
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    failed = bool(errors)
    for package, rows in tables.items():
        results = run_tests(package, options.tests)
        if package in LISTED_BY:
            results |= cases_of(LISTED_BY[package])
        print(f"{package}: {TABLES[package]}")
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
