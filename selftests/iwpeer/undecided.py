# SPDX-License-Identifier: GPL-2.0

"""A consumer of rdma_cm that listens, and decides on nothing by itself: what linux/rdma_user_cm.h calls an id, which needs no queue pair
for that."""

import ctypes
import os
import socket
import struct
import time

DEVICE = "/dev/infiniband/rdma_cm"
CREATE_ID, DESTROY_ID, BIND_IP, LISTEN, GET_EVENT = 0, 1, 2, 7, 12
CONNECT_REQUEST = 4
PORT_SPACE_TCP, RELIABLE_CONNECTED = 0x0106, 2


class Undecided:
    """It listens at an address while the context lasts. Then all are rejected who have asked."""

    def __init__(self, address, backlog):
        self.address, self.backlog = address, backlog

    def __enter__(self):
        self.file = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
        self.requests = []
        answer = ctypes.c_uint32()
        self.command(CREATE_ID, struct.pack("QQHB5x", 0, ctypes.addressof(answer), PORT_SPACE_TCP, RELIABLE_CONNECTED), ctypes.sizeof(answer))
        host, port = self.address
        # In the place of a sockaddr_in6.
        address = struct.pack("=HH4s20x", socket.AF_INET, socket.htons(port), socket.inet_aton(host))
        self.command(BIND_IP, struct.pack("Q28sI", 0, address, answer.value))
        self.command(LISTEN, struct.pack("II", answer.value, self.backlog))
        return self

    def command(self, number, fields, answer_len=0):
        os.write(self.file, struct.pack("IHH", number, len(fields), answer_len) + fields)

    def asked(self):
        """How often it was asked to decide, up to now."""
        answer = ctypes.create_string_buffer(512)
        while True:
            try:
                self.command(GET_EVENT, struct.pack("Q", ctypes.addressof(answer)), len(answer))
            except BlockingIOError:
                return len(self.requests)
            number, event = struct.unpack_from("8xII", answer)
            if event == CONNECT_REQUEST:
                self.requests.append(number)

    def asked_until(self, count, seconds):
        """Waits until it was asked so often, for so many seconds at most. Returns how often it was."""
        end = time.monotonic() + seconds
        while self.asked() < count and time.monotonic() < end:
            time.sleep(0.1)
        return self.asked()

    def rejects(self):
        """Rejects the first who asked."""
        answer = ctypes.c_uint32()
        self.command(DESTROY_ID, struct.pack("QII", ctypes.addressof(answer), self.requests[0], 0), ctypes.sizeof(answer))

    def __exit__(self, *_):
        os.close(self.file)
