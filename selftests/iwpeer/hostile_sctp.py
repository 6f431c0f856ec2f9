#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""`hostile_sctp.py ADDRESS [PORT]`: does to a listener of iWARP over SCTP what RFC 5043 forbids, or what is rare, and says how each
attempt ended.

An NFS server listens there, on this machine or another. Each case names what it expects, in the order in which it comes: `accept N`
and `reject N`, control messages with that function; `reply`, an RPC reply; `terminate L/T/CC`, a Terminate Message with that layer, type
and code; `session terminate`; then how the association ended: `ended` in order, `aborted`, or `open` if it has not.
"""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import sctp
import segment
from association import ACCEPT, CALL, ENHANCED_INITIATE, FOREIGN, INITIATE, TERMINATE, TIMEOUT, Association
from cases import Cases
from undecided import Undecided

OPEN_SECONDS = 2  # Nothing more comes for so long.
# A device waits 3 seconds for the end of an association. The debug kernel takes longer to receive what is sent by thousands.
SLOWER = 10 if os.environ.get("KERNEL", "").endswith("debug") else 1
UNDECIDED_PORT = 20060

# An RDMA_NOMSG: the call itself is a Read chunk, of 1000 octets at the offset 0 of memory that is never looked at.
FAR_CALL = struct.pack(">4I", 0x4E554C4C, 1, 4, 1) + struct.pack(">4IQ", 1, 0, FOREIGN, 1000, 0) + bytes(12)

CASES = Cases()
case = CASES.case


def only(association, expected, count=1):
    """All that was heard of an association that is to say that so often, and then nothing more."""
    association.listen(expected, count=count)
    return association.outcome(OPEN_SECONDS)


# The association (RFC 5043, sections 8 and 11.1).

# Shows S11.1-1, S11.1-2.
@case("a peer that announces no adaptation layer is aborted", "aborted")
def _(address):
    return Association(address, adaptation=0).outcome()


# Shows S7.1-2.
@case("a peer that announces another adaptation layer is aborted", "aborted")
def _(address):
    return Association(address, adaptation=2).outcome()


# Shows S8-3.
@case("a peer that announces many streams gets one each way", "1 and 1, accept 6, open")
def _(address):
    association = Association(address, streams=4)
    association.control(ENHANCED_INITIATE)
    return "{} and {}, ".format(*association.streams()) + only(association, "accept 6")


@case("a peer that says nothing is not waited for", "ended")
def _(address):
    return Association(address).outcome()


# How a session begins (sections 5.2, 6.1 and 6.3).

# Shows E6581-4.
@case("a plain Initiate is answered plainly", "accept 2, open")
def _(address):
    association = Association(address)
    association.control(INITIATE)
    return only(association, "accept 2")


# Shows S6.4-1.
@case("an enhanced Initiate is answered so", "accept 6, open")
def _(address):
    association = Association(address)
    association.control(ENHANCED_INITIATE)
    return only(association, "accept 6")


# Shows E6581-1, E6581-2.
@case("more Reads than there may be are rejected so", "reject 7, ended")
def _(address):
    association = Association(address)
    association.control(ENHANCED_INITIATE, ord=0x3FFE)
    return association.outcome()


# Shows S6.3-1, S6.4-1.
@case("a consumer rejects", "reject 7, ended")
def _(address):
    association = Association(address)
    # A server that may read nothing takes no client.
    association.control(ENHANCED_INITIATE, ird=0)
    return association.outcome()


# Shows S5.2.3-4.
@case("300 octets of private data, more than the kernel's CM takes, are refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.control(INITIATE, private=bytes(300))
    return association.outcome()


# Shows S5.2.3-2.
@case("513 octets of private data are refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.control(INITIATE, private=bytes(513))
    return association.outcome()


# Shows S5.2.3-2.
@case("512 octets of private data, as many as there may be, are too many for the kernel's CM, too", "session terminate, ended")
def _(address):
    association = Association(address)
    # Together with IRD and ORD.
    association.control(ENHANCED_INITIATE, private=bytes(508))
    return association.outcome()


# Shows S4-1.
@case("a first chunk that is longer than any, so that SCTP cuts it, is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.chunk(sctp.CONTROL, struct.pack(">HH", 0, INITIATE) + bytes(70_000))
    return association.outcome()


@case("an ordered Initiate is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.control(INITIATE, ordered=True)
    return association.outcome()


@case("an Initiate with number 1 is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.control(INITIATE, ssn=1)
    return association.outcome()


# Shows S6.1-3.
@case("an Accept of nothing is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.control(ACCEPT)
    return association.outcome()


# Shows S6.1-3.
@case("a segment before the Initiate is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.send(CALL)
    return association.outcome()


@case("a function that there is not is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.control(9)
    return association.outcome()


# Shows S4-1.
@case("a payload protocol that there is not is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.chunk(18, bytes(8))
    return association.outcome()


@case("a chunk of one octet is refused", "session terminate, ended")
def _(address):
    association = Association(address)
    association.chunk(sctp.CONTROL, bytes(1))
    return association.outcome()


def beyond(address, most):
    """What is said to who asks a listener of this machine, whose consumer takes so many and decides on none, when these have asked."""
    address = (Association.towards(address), UNDECIDED_PORT)
    with Undecided(address, most) as consumer:
        first = [Association(address) for _ in range(most)]
        for association in first:
            association.control(ENHANCED_INITIATE)
        consumer.asked_until(most, TIMEOUT)
        last = Association(address)
        last.control(ENHANCED_INITIATE)
        found = last.outcome()
        asked = consumer.asked()
    rejected = [association.outcome() for association in first]
    return found if (asked, rejected) == (most, ["reject 7, ended"] * most) else f"{found}; {asked} asked, the others: {rejected}"


# Shows S5.2.3-5, S6.4-2.
@case("who asks when as many sessions are undecided as may be is told with a Terminate", "session terminate, ended")
def _(address):
    return beyond(address, 17)


# A consumer has memory for as many requests as it says, and rdma_cm loses those beyond them.
@case("that many are few if the consumer says so", "session terminate, ended")
def _(address):
    return beyond(address, 3)


# Segments (sections 5.2.1, 6.1 and 10).

# Shows S8-1.
@case("a message is delivered", "reply, open")
def _(address):
    association = Association(address).start()
    association.send(CALL)
    return only(association, "reply")


# RFC 8166, section 3.3.1, forbids that. The in-tree client does it when it gives up calls, so the server has Receives for them.
@case("four calls more than there are Receives for the first credits are taken", "reply, " * 7 + "open")
def _(address):
    association = Association(address).start()
    for turn in range(7):
        association.send(CALL, msn=1 + turn)
    return only(association, "reply", 7)


# Shows S5.2.1-1.
@case("segments that come in another order than they were sent are delivered", "reply, open")
def _(address):
    association = Association(address).start()
    half = len(CALL) // 2
    association.send(CALL[half:], ssn=2, mo=half)
    time.sleep(0.5)
    association.send(CALL[:half], ssn=1, last=0)
    return only(association, "reply")


# Shows S6-1.
@case("a message waits for what was sent before it", "open", "open, reply, open")
def _(address):
    association = Association(address).start()
    association.send(CALL, ssn=2)
    association.listen(seconds=OPEN_SECONDS)
    if association.heard:
        return association.outcome(0.1)
    association.write(ssn=1, empty=True)
    return "open, " + only(association, "reply")


def goes(port):
    """Whether no association of this machine has the port any more, at neither end."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        lines = Path("/proc/net/sctp/assocs").read_text().splitlines()
        if not any(str(port) in line.split()[11:13] for line in lines):
            return True
        time.sleep(0.2)
    return False


# Shows S6-1.
@case("a message waits for ever if nothing else is sent, and the association ends in order then", "open, ended")
def _(address):
    association = Association(address).start()
    association.send(CALL, ssn=2)
    association.listen(seconds=OPEN_SECONDS)
    found = [*association.heard, association.over or "open"]
    port = association.socket.getsockname()[1]
    association.socket.shutdown(socket.SHUT_WR)
    return ", ".join([*found, "ended" if goes(port) else "open"])


# Shows S10-1.
@case("an ordered segment ends the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.write(ordered=True)
    return association.outcome()


@case("a chunk longer than any segment ends the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.chunk(sctp.SEGMENT, struct.pack(">H", 1) + bytes(70_000))
    return association.outcome()


# Shows S5.2.1-1.
@case("a number that comes twice ends the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    half = len(CALL) // 2
    association.send(CALL[half:], ssn=2, mo=half)
    association.send(CALL[half:], ssn=2, mo=half)
    return association.outcome()


# Shows S10-4.
@case("a number farther ahead than there may be ends the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.send(CALL, ssn=40000)
    return association.outcome()


# Shows S6.1-3.
@case("a second Initiate ends the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.control(ENHANCED_INITIATE)
    return association.outcome()


# Shows S6.2-1, S11.3-3.
@case("a Write to memory that there is not", "terminate 1/1/00, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.write()
    return association.outcome()


# Shows S11.3-3.
@case("a Read although none was agreed on", "terminate 1/2/02, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.read()
    return association.outcome()


@case("a Read of no octets is one, too", "terminate 1/2/02, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.read(size=0)
    return association.outcome()


@case("many Reads by one who does not receive", "terminate 1/2/02, session terminate, ended", "session terminate, ended", "aborted")
def _(address):
    association = Association(address, receive_buffer=4096).start()
    try:
        for number in range(1, 5_000):
            association.read(msn=number, size=0)
    except (ConnectionError, TimeoutError):
        pass
    return association.outcome(30)


@case("a Terminate Message is answered by the end of the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.segment({"opcode": segment.TERMINATE, "last": 1, "msn": 1, "mo": 0, "layer": 0, "type": 0, "code": 0, "m": 0,
                         "d": 0, "r": 0})
    return association.outcome()


# Shows P5.4-4.
@case("many Terminate Messages are not answered either", "session terminate, ended")
def _(address):
    association = Association(address).start()
    try:
        for _ in range(1000 // SLOWER):
            association.segment({"opcode": segment.TERMINATE, "last": 1, "msn": 1, "mo": 0, "layer": 0, "type": 2, "code": 6, "m": 0,
                                 "d": 0, "r": 0})
    except ConnectionError:
        pass
    return association.outcome()


# DDP (RFC 5041, section 7).

@case("an untagged segment of another DDP version", "terminate 1/2/06, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.raw(b"\x42\x43" + bytes(16))
    return association.outcome()


@case("a tagged segment of another DDP version", "terminate 1/1/04, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.raw(b"\xc3\x40" + bytes(12))
    return association.outcome()


@case("a queue that there is not", "terminate 1/2/01, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.raw(b"\x41\x43" + struct.pack(">IIII", 0, 7, 1, 0))
    return association.outcome()


@case("a message number out of turn", "terminate 1/2/03, session terminate, ended", "terminate 1/2/02, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.send(b"abcd", msn=0x8000)
    return association.outcome()


@case("a message offset that leaves a gap", "terminate 1/2/04, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.send(b"abcd", mo=100)
    return association.outcome()


@case("a message longer than any Receive", "terminate 1/2/05, session terminate, ended")
def _(address):
    association = Association(address).start()
    try:
        for at in range(0, 128 * 1024, 1024):
            association.send(bytes(1024), mo=at, last=0)
    except ConnectionError:
        pass
    return association.outcome()


@case("a Write of no octets to memory that there is not", "open")
def _(address):
    association = Association(address).start()
    association.write(empty=True)
    return association.outcome(OPEN_SECONDS)


@case("Writes to many STags find none", "terminate 1/1/00, session terminate, ended")
def _(address):
    association = Association(address).start()
    try:
        for number in range(4096 // SLOWER):
            association.write(stag=number << 20)
    except ConnectionError:
        pass
    return association.outcome()


# RDMAP (RFC 5040, section 7).

@case("a segment of another RDMAP version", "terminate 0/2/05, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.raw(b"\x41\x83" + bytes(16))
    return association.outcome()


@case("an opcode that there is not", "terminate 0/2/06, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.raw(b"\x41\x4c" + struct.pack(">IIII", 0, 0, 1, 0))
    return association.outcome()


# Shows P5.3-12.
@case("a Send that is to invalidate what is not there", "terminate 0/2/09, session terminate, ended",
      "terminate 0/1/09, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.send(b"abcd", opcode=segment.SEND_INVALIDATE, invalidate=FOREIGN)
    return association.outcome()


@case("a Read Response that nobody asked for", "terminate 0/2/06, session terminate, ended")
def _(address):
    association = Association(address).start()
    association.segment({"opcode": segment.READ_RESPONSE, "last": 1, "stag": FOREIGN, "to": 0, "payload": bytes(8)})
    return association.outcome()


# A server reads what a client has in a Read chunk: it asks this peer, whose answer is wrong.

def asked(address):
    """A session in which the server wants to read."""
    association = Association(address).start()
    association.send(FAR_CALL)
    association.listen("read")
    if not association.asked:
        raise ConnectionError(f"nothing was asked for: {association.heard}")
    return association


# Shows P5.2.2-4.
@case("a Read Response that is too short", "read, terminate 1/1/01, session terminate, ended")
def _(address):
    association = asked(address)
    association.respond(payload=bytes(association.asked["size"] - 1))
    return association.outcome()


# Shows P5.2.2-4.
@case("a Read Response behind the memory that it is for", "read, terminate 1/1/01, session terminate, ended")
def _(address):
    association = asked(address)
    association.respond(to=association.asked["sinkto"] + association.asked["size"], payload=bytes(1), last=0)
    return association.outcome()


# Shows P5.2.2-4.
@case("a Read Response to other memory than was asked for", "read, terminate 1/1/00, session terminate, ended")
def _(address):
    association = asked(address)
    association.respond(stag=FOREIGN)
    return association.outcome()


# Shows P5.1-3.
@case("a Write that goes beyond the last offset there is", "read, terminate 1/1/03, session terminate, ended")
def _(address):
    association = asked(address)
    association.write(stag=association.asked["sinkstag"], to=2**64 - 4)
    return association.outcome()


# How a session ends (sections 6.2 and 6.6).

# Shows S6.2-1.
@case("a Terminate is answered by one", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.control(TERMINATE)
    return association.outcome()


@case("a Terminate waits for what was sent before it", "reply, session terminate, ended", "session terminate, reply, ended",
      "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.control(TERMINATE, ssn=2)
    association.listen(seconds=OPEN_SECONDS)
    if association.heard or association.over:
        return "too early: " + association.outcome(0.1)
    association.send(CALL, ssn=1)
    return association.outcome()


@case("a segment behind the Terminate ends the session", "session terminate, ended")
def _(address):
    association = Association(address).start()
    association.control(TERMINATE, ssn=1)
    association.send(CALL, ssn=2)
    return association.outcome()


@case("an association that is aborted", "aborted")
def _(address):
    association = Association(address).start()
    association.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    association.socket.close()
    return "aborted"


def restarted(address, association):
    """The association, whose peer has begun anew."""
    port = association.socket.getsockname()[1]
    # Nobody hears of its end.
    subprocess.run(["nft", "-f", "-"], check=True, text=True,
                   input=f"table inet restart {{ chain out {{ type filter hook output priority 0; sctp sport {port} drop; }}; }}")
    try:
        association.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        association.socket.close()
    finally:
        subprocess.run(["nft", "delete", "table", "inet", "restart"], check=True)
    return Association(address, port=port)


# Shows S11.3-2.
@case("an association that its peer restarts is lost", "aborted")
def _(address):
    return restarted(address, Association(address).start()).outcome()


@contextlib.contextmanager
def undecided(address):
    """An association with a listener of this machine, and the listener's address: its consumer has the Initiate and does not decide."""
    address = (Association.towards(address), UNDECIDED_PORT)
    with Undecided(address, 1) as consumer:
        association = Association(address)
        association.control(ENHANCED_INITIATE)
        if consumer.asked_until(1, TIMEOUT) != 1:
            raise ConnectionError("the consumer was not asked")
        yield association, address


@case("an association that its peer restarts while the consumer decides is lost", "aborted")
def _(address):
    with undecided(address) as (association, listener):
        return restarted(listener, association).outcome()


@case("a segment while the consumer decides", "session terminate, ended")
def _(address):
    with undecided(address) as (association, _):
        association.write(ssn=1, empty=True)
        return association.outcome()


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    address = (arguments[0], int(arguments[1]) if len(arguments) == 2 else 20049)
    return CASES.run(lambda: address)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
