#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Fails if the table of docs/troubleshooting.md about connections that end lacks a reason that the code can log, or has one that it cannot."""

import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
# What ends a connection is given one of these as its last argument.
REASON = re.compile(
    r"(?:\b(?:lost|lost_in_interrupt|stalled|end_on|connect_failed|post_failed|conditional_disconnect|Violation|Unusable)\(\s*"
    r"(?:(?:conn::)?(?:Event|ConnectError)::\w+,\s*|connect_error,\s*|self,\s*self,\s*(?:cookie,\s*)?)*|\bconst LOST_\w+: &CStr =\s*)c\"([^\"]+)\"")
# These come from the kernel, which has more of them: its words for the status of a completion.
OF_THE_DEVICE = {"transport retry counter exceeded", "RNR retry counter exceeded", "remote access error", "WR flushed", "local length error"}


def logged():
    for side in "client", "server", "sunrpc":
        for path in (TOP / "rust" / side).rglob("*.rs"):
            if "selftest" in path.parts:
                continue
            yield from REASON.findall(path.read_text())


def explained():
    section = (TOP / "docs/troubleshooting.md").read_text().split("## Connections that end\n")[1].split("\n## ")[0]
    for row in section.splitlines():
        if row.startswith("| `"):
            yield from re.findall(r"`([^`]+)`", row.split(" | ")[0])


def main():
    code, document = set(logged()), set(explained()) - OF_THE_DEVICE
    for reason in sorted(code - document):
        print(f"docs/troubleshooting.md does not explain: {reason}")
    for reason in sorted(document - code):
        print(f"docs/troubleshooting.md explains what is never logged: {reason}")
    print(f"{len(code)} reasons")
    sys.exit(code != document)


if __name__ == "__main__":
    main()
