#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Who works with whom: runs selftests/vm/interop.sh with the module of this project and the kernel's own on either side, and prints a
table of what it found. Fails if a cell does. Runs inside the build root.
"""

import re
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[2]
OUT = SRC / "build/interop"
SIDES = [("c", "c"), ("c", "rust"), ("rust", "c"), ("rust", "rust")]


def column(client, server):
    """Returns the result of each cell, in its order, and of the whole run."""
    vm = subprocess.run(["scripts/vm.py", "pair", "--client", client, "--server", server, "--limit", "1200", "--",
                         "TIMEOUT=1100 scripts/vm/kselftest interop.sh"], cwd=SRC, stdout=subprocess.PIPE, text=True)
    (OUT / f"{client}-{server}.log").write_text(vm.stdout)
    cells = {name: "FAILED" if failed else "ok"
             for failed, name in re.findall(r"^# (not )?ok \d+ (.*)$", vm.stdout, re.MULTILINE)}
    return cells | {"the run as a whole": "FAILED" if vm.returncode or not cells else "ok"}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    columns = {f"{client} - {server}": column(client, server) for client, server in SIDES}
    print(f"{'client - server':32}" + "".join(f"{name:>14}" for name in columns))
    # The columns are of the same cells, but a run that died may have fewer.
    cells = max(columns.values(), key=len)
    for cell in cells:
        print(f"{cell:32}" + "".join(f"{results.get(cell, 'FAILED'):>14}" for results in columns.values()))
    wrong = any(results.get(cell) != "ok" for results in columns.values() for cell in cells)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
