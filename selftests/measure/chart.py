#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draws bars of what `make bench` has counted: chart.py docs/measurements/counted.tsv >docs/measurements/counted.svg.

Each line of the file has a workload, a candidate and its operations per second of guest time, with tabs between; # begins a remark. A
bar is what the candidate does of what NFS over TCP does, or of what the first one does if that was not measured.
"""

import sys
from html import escape

from candidates import TCP

COLUMN, LEFT, SCALE, BAR, ROOM = 660, 190, 250, 15, 46
# Of ours, of the in-tree module, of NFS over TCP.
COLOURS = {"ours": "#2a6f97", "in-tree": "#a9c1cf", TCP: "#c9a227"}


def save(path, results):
    """Writes figures by candidate and workload."""
    path.write_text("".join(f"{workload}\t{name}\t{rate:.1f}\n" for name, rates in results.items() for workload, rate in rates.items()))


def load(path):
    """Reads what was saved."""
    results = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                workload, name, rate = line.rstrip("\n").split("\t")
                results.setdefault(name, {})[workload] = float(rate)
    return results


def panel(workload, results, x, y):
    """Yields the bars of a workload, whose corner is at `x` and `y`."""
    rates = {name: found[workload] for name, found in results.items() if workload in found}
    base = TCP if TCP in rates else next(iter(rates))
    yield f'<text x="{x + 10}" y="{y + 18}" font-weight="bold">{escape(workload)}</text>'
    for row, (name, rate) in enumerate(rates.items()):
        top, ratio = y + 28 + row * BAR, rate / rates[base]
        # Beyond what there is space for, the number says it.
        width = min(ratio, 1.5) * SCALE
        colour = next((colour for begin, colour in COLOURS.items() if name.startswith(begin)), "#777777")
        yield (f'<text x="{x + LEFT - 8}" y="{top + 11}" text-anchor="end">{escape(name)}</text>'
               f'<rect x="{x + LEFT}" y="{top}" width="{width:.0f}" height="{BAR - 3}" fill="{colour}"/>'
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
        f'<text x="10" y="20" font-size="14">Operations per second in which an instruction is a nanosecond; the line is {escape(base)}</text>',
        *parts,
        "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(draw(load(sys.argv[1])))
