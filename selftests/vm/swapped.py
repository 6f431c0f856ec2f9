#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Fills memory and reads it back, again and again, until the file PATH is there: `swapped.py MEBIBYTES PATH`.

Each page has its own content, so that none is swapped out as a page of zeroes, and one that comes back as another is seen.
"""

import mmap
import os
import random
import sys

PAGE = 4096


def content(page, turn):
    return (page << 32 | turn).to_bytes(8, "little") * (PAGE // 8)


def main(mebibytes, path):
    count = mebibytes * 256
    memory = mmap.mmap(-1, count * PAGE)
    turns = [0] * count
    for page in range(count):
        memory[page * PAGE:(page + 1) * PAGE] = content(page, 0)
    print("filled", flush=True)
    rng = random.Random(7)
    done = False
    while not done:
        # The last round begins after the file is there, and sees every page.
        done = os.path.exists(path)
        for page in rng.sample(range(count), count):
            found = memory[page * PAGE:(page + 1) * PAGE]
            if found != content(page, turns[page]):
                sys.exit(f"page {page} is another")
            turns[page] += 1
            memory[page * PAGE:(page + 1) * PAGE] = content(page, turns[page])
            if not done and page % 64 == 0 and os.path.exists(path):
                break
    print("intact")


main(int(sys.argv[1]), sys.argv[2])
