#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Fails unless a trace point of the modules costs one NOP where it is off, and unless each is recorded somewhere.

    scripts/tracepoints.py rpcrdma.ko iwarp.ko

The compiler notes in __jump_table each place that a static key patches: where the place is, where it jumps to when the key is on, and
the key. In the module as it is on disk, the key is off.
"""

import re
import subprocess
import sys

NOPS = {bytes.fromhex("6690"), bytes.fromhex("0f1f440000")}
SECTION = re.compile(r"^ *\[ *\d+\] (\S+) +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) ")
RELOCATION = re.compile(r"^([0-9a-f]+) +[0-9a-f]+ R_X86_64_\S+ +[0-9a-f]+ (\S+) \+ ([0-9a-f]+)$")
SYMBOL = re.compile(r"^[0-9a-f]+ \w __tracepoint_(\w+)$")


def lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def jump_table(module):
    """Yields, for each entry, where the place is (section and offset) and which symbol has the key."""
    inside, entry = False, {}
    for line in lines("readelf", "--relocs", "--wide", module):
        if line.startswith("Relocation section"):
            inside = "'.rela__jump_table'" in line
        elif inside and (match := RELOCATION.match(line)):
            place, name, addend = int(match[1], 16), match[2], int(match[3], 16)
            entry[place % 16] = (name, addend)
            if len(entry) == 3:
                yield entry[0], entry[8][0]
                entry = {}


def judge(module):
    content = open(module, "rb").read()
    offsets = {}
    for line in lines("readelf", "--section-headers", "--wide", module):
        if match := SECTION.match(line):
            offsets[match[1]] = int(match[2], 16)
    found = {match[1]: 0 for line in lines("nm", module) if (match := SYMBOL.match(line))}
    wrong = []
    for (section, offset), key in jump_table(module):
        if not key.startswith("__tracepoint_"):
            continue
        name = key.removeprefix("__tracepoint_")
        found[name] = found.get(name, 0) + 1
        place = offsets[section] + offset
        if not any(content.startswith(nop, place) for nop in NOPS):
            wrong.append(f"{name}: {section}+{offset:#x} is {content[place:place + 5].hex(' ')}, which is no NOP")
    wrong += [f"{name}: nothing records it" for name, places in sorted(found.items()) if not places]
    if wrong or not found:
        sys.exit("\n".join(wrong) or f"{module} has no trace points")
    print(f"{module}: {len(found)} trace points, recorded in {sum(found.values())} places, each of which is a NOP")


for module in sys.argv[1:]:
    judge(module)
