#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Stands in for gssproxy(8), which the kernel's server asks what to make of a token that begins an RPCSEC_GSS context.

gssproxy.py FILE: makes the kernel use it, in this network namespace and for as long as that lives, and goes to the background.
It refuses all. For each token it adds a line to FILE: `whole`, if it is what the crafted peer sends
(../peer/src/server_cases/gss.rs), or
`altered`.
"""

import os
import socket
import struct
import sys

SOCKET = "/var/run/gssproxy.sock"
SWITCH = "/proc/net/rpc/use-gss-proxy"
ACCEPT_SEC_CONTEXT = 9
PROC_UNAVAIL = 3
TOKEN = b"".join(number.to_bytes(2, "big") for number in range(4000))


def read(stream, length):
    """Reads so many bytes. The kernel may be gone."""
    data = stream.read(length)
    if len(data) < length:
        sys.exit()
    return data


def message(stream):
    """Reads a message without its record marks."""
    data, last = b"", 0
    while not last:
        (mark,) = struct.unpack(">I", read(stream, 4))
        last, length = mark >> 31, mark & 0x7FFFFFFF
        data += read(stream, length)
    return data


def serve(connection, out):
    stream = connection.makefile("rb")
    while True:
        call = message(stream)
        xid, _, _, _, _, procedure = struct.unpack_from(">6I", call)
        # When the kernel connects it makes a NULL call that wants no answer.
        if procedure == ACCEPT_SEC_CONTEXT:
            print("whole" if TOKEN in call else "altered", file=out, flush=True)
            reply = struct.pack(">6I", xid, 1, 0, 0, 0, PROC_UNAVAIL)
            connection.sendall(struct.pack(">I", 1 << 31 | len(reply)) + reply)


def main(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(SOCKET)
    listener.listen()
    with open(path, "w", encoding="ascii") as out:
        # It connects at once, and never again: not even a thread of nfsd would find the socket.
        with open(SWITCH, "w", encoding="ascii") as switch:
            switch.write("1\n")
        connection, _ = listener.accept()
        if os.fork() == 0:
            serve(connection, out)


main(sys.argv[1])
