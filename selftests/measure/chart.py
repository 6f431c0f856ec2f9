#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draws bars of what `make bench` has counted: chart.py docs/measurements/counted.tsv >docs/measurements/counted.svg.

Each line of the file has a workload, a candidate, its operations per second of guest time, and in one without the steps of string
instructions, with tabs between; # begins a remark. A bar is what the candidate does of what NFS over TCP does, or of what the first one
does if that was not measured. The paler bar below it leaves the steps of string instructions away, for both.
"""

import sys
from html import escape

from candidates import TCP

COLUMN, LEFT, SCALE, BAR, ROOM = 660, 190, 250, 15, 46
# Of ours, of the in-tree module, of NFS over TCP.
COLOURS = {"ours": "#2a6f97", "in-tree": "#a9c1cf", TCP: "#c9a227"}


def save(path, results):
    """Writes figures by candidate and workload."""
    path.write_text("".join(f"{workload}\t{name}\t{rate:.1f}\t{bare:.1f}\n"
                            for name, rates in results.items() for workload, (rate, bare) in rates.items()))


def load(path):
    """Reads what was saved."""
    results = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                workload, name, *rates = line.rstrip("\n").split("\t")
                results.setdefault(name, {})[workload] = tuple(map(float, rates))
    return results


def panel(workload, results, x, y):
    """Yields the bars of a workload, whose corner is at `x` and `y`."""
    rates = {name: found[workload] for name, found in results.items() if workload in found}
    base = TCP if TCP in rates else next(iter(rates))
    yield f'<text x="{x + 10}" y="{y + 18}" font-weight="bold">{escape(workload)}</text>'
    for row, (name, found) in enumerate(rates.items()):
        top, rate = y + 28 + row * BAR, found[0]
        # Beyond what there is space for, the number says it.
        full, bare = (min(own / other, 1.5) * SCALE for own, other in zip(found, rates[base]))
        colour = next((colour for begin, colour in COLOURS.items() if name.startswith(begin)), "#777777")
        yield (f'<text x="{x + LEFT - 8}" y="{top + 11}" text-anchor="end">{escape(name)}</text>'
               f'<rect x="{x + LEFT}" y="{top}" width="{full:.0f}" height="8" fill="{colour}"/>'
               f'<rect x="{x + LEFT}" y="{top + 8}" width="{bare:.0f}" height="4" fill="{colour}" fill-opacity="0.5"/>'
               f'<text x="{x + COLUMN - 35}" y="{top + 11}" text-anchor="end">{rate:,.{1 if rate < 1000 else 0}f}</text>')
    bottom = y + 28 + len(rates) * BAR
    yield f'<line x1="{x + LEFT + SCALE}" x2="{x + LEFT + SCALE}" y1="{y + 24}" y2="{bottom}" stroke="black" stroke-dasharray="3 2"/>'


def draw(results):
    """Returns the SVG: two panels beside each other in each row."""
    workloads = list(dict.fromkeys(workload for rates in results.values() for workload in rates))
    height = ROOM + len(results) * BAR
    parts = []
    for at, workload in enumerate(workloads):
        parts += panel(workload, results, at % 2 * COLUMN, 30 + at // 2 * height)
    base = TCP if TCP in results else next(iter(results))
    size = f'width="{2 * COLUMN}" height="{30 + (len(workloads) + 1) // 2 * height}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">Operations per second in which an instruction is a nanosecond; the line is {escape(base)}; '
        'pale: without the steps of string instructions, which copy</text>',
        *parts,
        "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(draw(load(sys.argv[1])))
