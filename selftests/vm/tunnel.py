#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A tunnel without hardware addresses, as VPNs have it: `tunnel.py NAME OWN PEER`.

What is sent to the network device NAME, which it makes, goes to the address PEER in datagrams, and comes out there.
"""

import fcntl
import os
import select
import socket
import struct
import sys

PORT = 7777
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000


def main(name, own, peer):
    tunnel = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((own, PORT))
    datagrams.connect((peer, PORT))
    while True:
        for ready in select.select([tunnel, datagrams], [], [])[0]:
            # The other end may not be there yet, and the device may be down. A packet is lost then, as on any wire.
            try:
                if ready is tunnel:
                    datagrams.send(os.read(tunnel, 65536))
                else:
                    os.write(tunnel, datagrams.recv(65536))
            except OSError:
                pass


main(*sys.argv[1:])
