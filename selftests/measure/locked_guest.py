#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the operations of `make counts` in a pair of VMs whose QEMU counts locked instructions (executed.py): marks where each begins
and ends, on both machines, and prints a JSON object with the number of RPCs of each. The symbols of the kernels go to the directory of
the run. With a number it only marks that this phase begins, or with 0 that one has ended.
"""

import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from counts import MOUNT, OPERATIONS, make_file, rpcs
from executed import mark
from rig import SRC, fail, mount, on_server, run


def mark_both(phase):
    on_server(f"{SRC}/selftests/measure/locked_guest.py {phase}")
    mark(phase)


def symbols():
    """Writes the kernel's symbols to the directory of the run."""
    Path("/vm/symbols").write_text(Path("/proc/kallsyms").read_text())


def main():
    if sys.argv[1:] == ["symbols"]:
        return symbols()
    if sys.argv[1:]:
        return mark(int(sys.argv[1]))
    mount(MOUNT, os.environ["SERVER_ADDR"], "actimeo=0", "noac")
    make_file()
    done = {}
    for phase, (name, repeat, operation) in enumerate(OPERATIONS, 1):
        operation(3)
        before = rpcs()
        mark_both(phase)
        operation(repeat)
        mark_both(0)
        done[name] = rpcs() - before
        if done[name] < repeat:
            fail("the server delegated the file, so RPCs were not needed: run it again")
    symbols()
    on_server(f"{SRC}/selftests/measure/locked_guest.py symbols")
    run("umount", str(MOUNT))
    print(json.dumps(done))


if __name__ == "__main__":
    main()
