#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""`hostile_sctp_answers.py ADDRESS PORT COMMAND...`: answers who connects over iWARP over SCTP as RFC 5043 forbids, or as is rare, and
says how each attempt ended. It listens at that port, and runs the command for each case, which has an NFS client connect there.

Outcomes are those of hostile_sctp.py; `initiate N` is an Initiate with that function, and `message` what a client sends first.
"""

import sys
import time
from pathlib import Path

from association import ACCEPT, ENHANCED_ACCEPT, ENHANCED_INITIATE, ENHANCED_REJECT, TERMINATE, Association
from cases import Cases

CASES = Cases()
case = CASES.case


# Answers to an Initiate (sections 6.1, 6.3 and 6.6).

def answered(address, *functions, **fields):
    """Who connects says Initiate, and hears these functions; then what it says."""
    association = Association.accepted(address)
    association.listen("initiate 5")
    if association.heard != ["initiate 5"]:
        return "no Initiate: " + association.outcome(0.1)
    association.heard = []
    for function in functions:
        association.control(function, **fields)
    return association


@case("who is accepted sends its first message", "message, open")
def _(address):
    association = answered(address, ENHANCED_ACCEPT, ord=16)
    association.listen("message")
    return association.outcome(0.1)


# Shows P5.2.1-4.
@case("a Read of memory that there is not", "message, terminate 0/1/00, session terminate, ended")
def _(address):
    association = answered(address, ENHANCED_ACCEPT, ord=16)
    association.listen("message")
    association.read()
    return association.outcome()


@case("an Accept may be overtaken by segments", "message, open")
def _(address):
    association = answered(address)
    association.write(ssn=1, empty=True)
    time.sleep(0.5)
    association.control(ENHANCED_ACCEPT, ord=16)
    association.listen("message")
    return association.outcome(0.1)


@case("a Terminate behind the Accept may overtake it", "session terminate, ended", "message, session terminate, ended")
def _(address):
    association = answered(address)
    association.control(TERMINATE, ssn=1)
    time.sleep(0.5)
    association.control(ENHANCED_ACCEPT, ord=16)
    return association.outcome()


@case("who is rejected ends the association", "ended", "aborted")
def _(address):
    return answered(address, ENHANCED_REJECT).outcome()


@case("who is answered with a Terminate ends the association", "ended", "aborted")
def _(address):
    return answered(address, TERMINATE).outcome()


@case("an Initiate is no answer", "session terminate, ended")
def _(address):
    return answered(address, ENHANCED_INITIATE).outcome()


@case("a plain Accept is no answer to an enhanced Initiate", "session terminate, ended")
def _(address):
    return answered(address, ACCEPT).outcome()


@case("a segment is no answer", "session terminate, ended")
def _(address):
    association = answered(address)
    association.write(ssn=0, empty=True)
    return association.outcome()


@case("an Accept that wants more Reads than there may be ends the session", "session terminate, ended")
def _(address):
    return answered(address, ENHANCED_ACCEPT, ord=0x3FFE).outcome()


@case("300 octets of private data in an Accept end the session", "session terminate, ended")
def _(address):
    return answered(address, ENHANCED_ACCEPT, ord=16, private=bytes(300)).outcome()


@case("who hears no answer gives up", "aborted")
def _(address):
    return answered(address).outcome()


def aborts():
    """How many associations of this network namespace were aborted."""
    counters = dict(line.split() for line in Path("/proc/net/sctp/snmp").read_text().splitlines())
    return int(counters["SctpAborteds"])


@case("who finds no adaptation layer aborts", "aborted")
def _(address):
    before = aborts()
    outcome = Association.accepted(address, adaptation=0).outcome()
    # To a socket that accepts it just then, an association that is aborted has ended.
    return "aborted" if outcome == "ended" and aborts() > before else outcome


def main(arguments):
    if len(arguments) < 3 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    address = (arguments[0], int(arguments[1]))
    return CASES.run(lambda: address, arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
