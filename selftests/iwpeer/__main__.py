#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""`python3 iwpeer vectors` writes vectors; `python3 iwpeer check FILE` reads those of somebody else."""

import sys

import lines
import vectors


def check(path):
    with open(path, encoding="ascii") as file:
        told = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    found = [complaint for complaint in map(lines.complaint, told) if complaint]
    print("\n".join(found + [f"{len(told)} vectors, {len(found)} differ"]))
    # A file without vectors checks nothing, and so fails.
    return 1 if found or not told else 0


def main(arguments):
    if arguments == ["vectors"]:
        print("\n".join(vectors.all_lines()))
        return 0
    if len(arguments) == 2 and arguments[0] == "check":
        return check(arguments[1])
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main(sys.argv[1:]))
