#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Finds functions of both modules whose stack frame is larger than the kernel allows one of C (CONFIG_FRAME_WARN), which rustc does not
look at. A stack has 16 KiB, and on PREEMPT_RT packets that arrive are received on that of the task that sends. Prints those that are too
large, and fails if one of them is not in the list below. Runs inside the build root, after a build for x86-64.
"""

import re
import subprocess
import sys

LIMIT = 2048
# Octets, and what the name of the function has, in all of its instances. They begin or end a connection: much is moved there, once, and
# nothing is sent below them but the first or the last frames of that connection.
LARGER = {
    5504: "2qp.*17finish_connecting",
    3328: "2qp3end.*3end",
    3072: "2qp.*6accept",
    2688: "8listener.*7Request.*6remove",
    2624: "2cm.*10Operations.*6accept",
    2304: "2cm.*10Operations.*7connect",
    2176: "(6stream.*6Stream.*3new|8listener.*11SvcListener6accept|6client7connect7connect)",
}


def frames(module):
    """Yields each function with the octets by which it moves the stack pointer."""
    function = None
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", module], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in code.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            function = head[1]
        elif moved := re.search(r"\bsub +\$0x([0-9a-f]+),%rsp", line):
            yield function, int(moved[1], 16)


def main():
    found = [(octets, function) for module in ("rpcrdma.ko", "iwarp.ko") for function, octets in frames(module)]
    if not found:
        sys.exit("frames: no function has a frame, which cannot be")
    refused = 0
    for octets, function in sorted(found, reverse=True):
        if octets <= LIMIT:
            break
        allowed = any(octets <= limit and re.search(name, function) for limit, name in LARGER.items())
        refused += not allowed
        print(f"{octets} octets: {function}{'' if allowed else ': too large'}")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
