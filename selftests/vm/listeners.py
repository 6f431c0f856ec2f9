#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""listeners.py TRANSPORT:ADDRESS:PORT...: makes these the listeners of the NFS server, which has no threads then, as `nfsdctl listener`
does. That of nfs-utils 3.1.1 says more in its request than kernels up to 7.3 take, and they refuse it.
"""

import socket
import struct
import sys

NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 16, 3, 1, 2
NFSD_CMD_LISTENER_SET, NFSD_A_SERVER_SOCK_ADDR, NFSD_A_SOCK_ADDR, NFSD_A_SOCK_TRANSPORT_NAME = 6, 1, 1, 2
NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR, NLA_F_NESTED = 1, 4, 2, 0x8000


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def ask(kind, command, attributes):
    """Returns what answers the request, without its headers."""
    body = struct.pack("=BBH", command, 1, 0) + attributes
    link.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body)
    answer = link.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] == NLMSG_ERROR:
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, "the kernel refuses the request")
    return answer[20:]


def family(name):
    answer = ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attribute(CTRL_ATTR_FAMILY_NAME, name + b"\0"))
    link.recv(65536)  # the acknowledgement
    while answer:
        length, kind = struct.unpack_from("=HH", answer)
        if kind == CTRL_ATTR_FAMILY_ID:
            return struct.unpack_from("=H", answer, 4)[0]
        answer = answer[length + 3 & ~3:]
    raise LookupError(name)


def listener(text):
    transport, address, port = text.split(":")
    sockaddr = struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(address) + bytes(8)
    return attribute(NFSD_A_SERVER_SOCK_ADDR | NLA_F_NESTED, attribute(NFSD_A_SOCK_ADDR, sockaddr) +
                     attribute(NFSD_A_SOCK_TRANSPORT_NAME, transport.encode() + b"\0"))


link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
link.bind((0, 0))
ask(family(b"nfsd"), NFSD_CMD_LISTENER_SET, b"".join(map(listener, sys.argv[1:])))
