# SPDX-License-Identifier: GPL-2.0

"""Cases of peers that break the rules: each has a name and the outcomes that it may have, and is a function that says how it ended."""

import subprocess
import time

from wire import WireError


class Cases:
    def __init__(self):
        self.cases = []

    def case(self, name, *expected):
        """Adds the function below it. Outcomes may also stand in one string, with `or` between them."""
        def add(function):
            self.cases.append((name, [each for outcomes in expected for each in outcomes.split(" or ")], function))
            return function
        return add

    def run(self, peer, beside=None):
        """Runs all, each with what `peer` returns, and with the command beside it if there is one. Prints their number, as 1..N, then a
        line for each, `ok` or `not ok`, with what came instead. Returns the exit status."""
        print(f"1..{len(self.cases)}", flush=True)
        failed = 0
        for name, expected, attempt in self.cases:
            begin = time.monotonic()
            command = subprocess.Popen(beside, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if beside else None
            try:
                found = attempt(peer())
            except (OSError, WireError, AttributeError) as error:
                found = f"{type(error).__name__}: {error}"
            if command:
                command.kill()
                command.wait()
            passed = found in expected
            failed += not passed
            seconds = time.monotonic() - begin
            print(f"ok {name}" if passed else f"not ok {name}: {found} after {seconds:.1f} s, not {' or '.join(expected)}", flush=True)
        return 1 if failed else 0
