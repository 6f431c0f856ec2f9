# SPDX-License-Identifier: GPL-2.0

"""An association with a device of iWARP over SCTP, on a plain socket, and the session of its stream 0. It sends what it is told to, against
the rules as well, and writes down what it hears (hostile_sctp.py has the words)."""

import socket
import struct
import time

import sctp
import segment

TIMEOUT = 15  # Seconds that the other end has for anything.
FOREIGN = 0x12345678  # No region has this STag, but by a chance of one in millions.

# Of linux/sctp.h, which Python does not know.
IPPROTO_SCTP = 132
SCTP_INITMSG, SCTP_NODELAY, SCTP_ADAPTATION_LAYER, SCTP_RECVRCVINFO = 2, 3, 7, 32
SCTP_STATUS, SCTP_STATUS_LEN = 14, 256
SCTP_SNDINFO, SCTP_RCVINFO = 2, 3
SCTP_UNORDERED = 1
STREAMS = 8
INITIATE, ACCEPT, REJECT, TERMINATE, ENHANCED_INITIATE, ENHANCED_ACCEPT, ENHANCED_REJECT = range(1, 8)

# RPC-over-RDMA version 1 (RFC 8166): an RDMA_MSG without chunks, which carries a call of procedure 0 of NFSv3.
CALL = (struct.pack(">7I", 0x4E554C4C, 1, 4, 0, 0, 0, 0)
        + struct.pack(">10I", 0x4E554C4C, 0, 2, 100003, 3, 0, 0, 0, 0, 0))


class Association:
    """An association with the listener, and the session of its stream 0."""

    def __init__(self, address, adaptation=1, streams=STREAMS, port=0, receive_buffer=0):
        self.begin(self.prepared(adaptation, streams))
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        # The one address that it has anyway; more would be offered else.
        self.socket.bind((self.towards(address), port))
        try:
            self.socket.connect(address)
        except ConnectionError:
            self.over = "aborted"

    @staticmethod
    def towards(address):
        """The address of this machine that packets to the other one come from."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
            found.connect(address)
            return found.getsockname()[0]

    @staticmethod
    def prepared(adaptation=1, streams=STREAMS):
        """A socket that has no association yet."""
        prepared = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SCTP)
        prepared.setsockopt(IPPROTO_SCTP, SCTP_INITMSG, struct.pack("HHHH", streams, STREAMS, 0, 0))
        prepared.setsockopt(IPPROTO_SCTP, SCTP_NODELAY, 1)
        prepared.setsockopt(IPPROTO_SCTP, SCTP_RECVRCVINFO, 1)
        if adaptation:
            prepared.setsockopt(IPPROTO_SCTP, SCTP_ADAPTATION_LAYER, adaptation)
        prepared.settimeout(TIMEOUT)
        return prepared

    def begin(self, prepared):
        self.socket = prepared
        self.ssn = 0
        self.next, self.early = 0, {}
        self.heard = []
        self.asked = None
        self.over = ""

    @classmethod
    def accepted(cls, address, **options):
        """What the first one who connects to the address sets up."""
        listener = cls.prepared(**options)
        with listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1)
            found = cls.__new__(cls)
            found.begin(listener.accept()[0])
        found.socket.settimeout(TIMEOUT)
        return found

    def streams(self):
        """How many streams the association has, to this end and from it."""
        status = self.socket.getsockopt(IPPROTO_SCTP, SCTP_STATUS, SCTP_STATUS_LEN)
        return struct.unpack_from("HH", status, 16)

    def chunk(self, ppid, octets, ordered=False):
        """Sends user data as they are."""
        info = struct.pack("HHIIi", 0, 0 if ordered else SCTP_UNORDERED, socket.htonl(ppid), 0, 0)
        self.socket.sendmsg([octets], [(IPPROTO_SCTP, SCTP_SNDINFO, info)])

    def numbered(self, ssn):
        """The number of a chunk: this one, or the next."""
        if ssn is None:
            ssn = self.ssn
            self.ssn += 1
        return ssn

    def control(self, function, ssn=None, ordered=False, **fields):
        # An NFS server wants to read.
        fields = {"a": 0, "b": 0, "c": 0, "d": 0, "ird": 16, "ord": 0, **fields}
        octets = sctp.encode({"ppid": sctp.CONTROL, "ssn": self.numbered(ssn), "function": function, **fields})
        self.chunk(sctp.CONTROL, octets, ordered)

    def raw(self, octets, ssn=None, ordered=False):
        """Sends a segment as it is."""
        self.chunk(sctp.SEGMENT, sctp.encode({"ppid": sctp.SEGMENT, "ssn": self.numbered(ssn), "segment": octets}), ordered)

    def segment(self, fields, ssn=None, ordered=False):
        self.raw(segment.encode(fields), ssn, ordered)

    def send(self, payload, ssn=None, **fields):
        """Sends a segment of a Send, of the first message if nothing else is said."""
        self.segment({"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": payload, **fields}, ssn)

    def read(self, **fields):
        """Asks for octets, with the first Read Request if nothing else is said."""
        self.segment({"opcode": segment.READ_REQUEST, "last": 1, "msn": 1, "mo": 0, "sinkstag": 1, "sinkto": 0, "size": 16,
                      "srcstag": FOREIGN, "srcto": 0, **fields})

    def respond(self, **fields):
        """Answers what it was asked for, with as many octets if nothing else is said."""
        asked = self.asked
        self.segment({"opcode": segment.READ_RESPONSE, "last": 1, "stag": asked["sinkstag"], "to": asked["sinkto"],
                      "payload": bytes(asked["size"]), **fields})

    def write(self, empty=False, ssn=None, ordered=False, **fields):
        payload = b"" if empty else b"x" * 8
        self.segment({"opcode": segment.WRITE, "last": 1, "stag": FOREIGN, "to": 0, "payload": payload, **fields}, ssn, ordered)

    def listen(self, until=None, seconds=TIMEOUT, count=1):
        """Listens until that was heard so often, or to the end."""
        end = time.monotonic() + seconds
        while not self.over and (until is None or self.heard.count(until) < count):
            self.socket.settimeout(max(end - time.monotonic(), 0.01))
            try:
                octets, ancillary, _, _ = self.socket.recvmsg(65536, 256)
            except TimeoutError:
                break
            except ConnectionError:
                self.over = "aborted"
                break
            if not octets:
                self.over = "ended"
                break
            self.arrived(octets, self.name(octets, ancillary))

    def arrived(self, octets, name):
        """Puts what was heard in the order in which it was sent: unordered chunks overtake those that were lost."""
        ssn = struct.unpack_from(">H", octets)[0]
        if ssn in self.early or (ssn - self.next) % 65536 >= 32768:
            name = f"number {ssn} again"
        self.early[ssn] = name
        while self.next in self.early:
            name = self.early.pop(self.next)
            self.next = (self.next + 1) % 65536
            if name:
                self.heard.append(name)

    def name(self, octets, ancillary):
        """What a chunk says, or None if that is nothing."""
        infos = [data for level, kind, data in ancillary if (level, kind) == (IPPROTO_SCTP, SCTP_RCVINFO)]
        stream, _, flags, ppid = struct.unpack_from("HHHxxI", infos[0])
        if stream != 0 or not flags & SCTP_UNORDERED:
            return "ordered"
        fields = sctp.decode(octets, socket.ntohl(ppid))
        if fields["ppid"] == sctp.CONTROL:
            function = fields["function"]
            return {INITIATE: "initiate 1", ENHANCED_INITIATE: "initiate 5", ACCEPT: "accept 2", ENHANCED_ACCEPT: "accept 6", REJECT: "reject 3",
                    ENHANCED_REJECT: "reject 7", TERMINATE: "session terminate"}[function]
        found = segment.decode(fields["segment"])
        if found["opcode"] == segment.TERMINATE:
            return f"terminate {found['layer']}/{found['type']}/{found['code']:02x}"
        # A server that wants to know what became of its Sends posts an RDMA Write of no octets behind them.
        if found["opcode"] == segment.WRITE and not found["payload"]:
            return None
        if found["opcode"] == segment.READ_REQUEST:
            self.asked = found
            return "read"
        if found["opcode"] != segment.SEND:
            return "segment"
        return "reply" if found["payload"][:4] == CALL[:4] else "message"

    def start(self):
        """An open session."""
        self.control(ENHANCED_INITIATE)
        self.listen("accept 6")
        if self.heard != ["accept 6"]:
            raise ConnectionError(f"no Accept: {self.heard}")
        self.heard = []
        return self

    def outcome(self, seconds=TIMEOUT):
        """All that was heard."""
        self.listen(None, seconds)
        self.socket.close()
        # What is behind a gap that nothing filled.
        early = [f"{name} out of turn" for _, name in sorted(self.early.items()) if name]
        return ", ".join([*self.heard, *early, self.over or "open"])
