# SPDX-License-Identifier: GPL-2.0

"""tshark, a third decoder, reads captures of what this codec encodes. Without tshark these tests fail."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import capture
import segment

FOLDER = Path(__file__).parent
NOBODY = 65534
# Fields of a segment, and what tshark calls them.
SEGMENT = {"opcode": "iwarp_rdma.opcode", "last": "iwarp_ddp.last_flag", "stag": "iwarp_ddp.stag", "to": "iwarp_ddp.tagged_offset",
           "queue": "iwarp_ddp.qn", "msn": "iwarp_ddp.msn", "mo": "iwarp_ddp.mo", "invalidate": "iwarp_rdma.inval_stag",
           "sinkstag": "iwarp_rdma.sinkstag", "sinkto": "iwarp_rdma.sinkto", "size": "iwarp_rdma.rdmardsz",
           "srcstag": "iwarp_rdma.srcstag", "srcto": "iwarp_rdma.srcto",
           "layer": "iwarp_rdma.term_layer", "m": "iwarp_rdma.term_hdrct_m", "d": "iwarp_rdma.hdrct_d", "r": "iwarp_rdma.hdrct_r"}
# The same for Atomic Requests, of which the operations have names of their own, and for Atomic Responses.
ATOMIC = {"operation": "iwarp_rdma.atomic.opcode", "identifier": "iwarp_rdma.atomic.request_identifier",
          "stag": "iwarp_rdma.atomic.remote_stag", "to": "iwarp_rdma.atomic.remote_tagged_offset"}
ADD = {**ATOMIC, "data": "iwarp_rdma.atomic.add_data", "mask": "iwarp_rdma.atomic.add_mask"}
SWAP = {**ATOMIC, "data": "iwarp_rdma.atomic.swap_data", "mask": "iwarp_rdma.atomic.swap_mask",
        "compare": "iwarp_rdma.atomic.compare_data", "comparemask": "iwarp_rdma.atomic.compare_mask"}
ORIGINAL = {"identifier": "iwarp_rdma.atomic.original_request_identifier", "original": "iwarp_rdma.atomic.original_remote_data_value"}
# The name of these depends on the layer.
TYPES = ("iwarp_rdma.term_etype_rdma", "iwarp_rdma.term_etype_ddp", "iwarp_rdma.term_etype_llp")
CODES = ("iwarp_rdma.term_errcode_rdma", "iwarp_rdma.term_errcode_ddp_tagged", "iwarp_rdma.term_errcode_ddp_untagged",
         "iwarp_rdma.term_errcode_llp")
RAW = ("iwarp_rdma.term_ddp_seg_len", "iwarp_rdma.term_ddp_h", "iwarp_rdma.term_rdma_h")
WRONG = ("_ws.malformed", "tcp.analysis.lost_segment")
SESSION = ("ddp_sctp.ssn", "ddp_sctp.function", "ddp_sctp.ird", "ddp_sctp.ord", "ddp_sctp.private_data", "sctp.data_payload_proto_id",
           "sctp.data_u_bit", "sctp.adaptation_layer_indication", "sctp.checksum.status")


def tshark(kind, *options):
    """What tshark prints of that capture. It runs no script for root, so it is not root."""
    with tempfile.TemporaryDirectory() as folder:
        capture.write_pcap(Path(folder, "pcap"), capture.example(kind))
        shutil.copy(FOLDER / "ddp-sctp.lua", folder)
        os.chmod(folder, 0o755)
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        command = ["tshark", "-n", "-o", "tcp.check_checksum:TRUE", "-o", "sctp.checksum:crc-32c", "-X", "lua_script:ddp-sctp.lua", "-r", "pcap"]
        run = subprocess.run([*command, *options], cwd=folder, env={**os.environ, "HOME": folder}, text=True, check=True,
                             capture_output=True, **who)
    return run.stdout


def packets(kind, fields):
    """The packets of that capture: of each, the fields that tshark found, as text."""
    chosen = [word for field in fields for word in ("-e", field)]
    lines = tshark(kind, "-T", "fields", *chosen).splitlines()
    return [{field: text for field, text in zip(fields, line.split("\t")) if text} for line in lines]


def _number(text):
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def names(fields):
    """The fields of a segment, and what tshark calls them."""
    if fields["opcode"] == segment.ATOMIC_REQUEST:
        return {**SEGMENT, **(ADD if fields["operation"] == segment.FETCH_ADD else SWAP)}
    return {**SEGMENT, **ORIGINAL} if fields["opcode"] == segment.ATOMIC_RESPONSE else SEGMENT


class Dissected(unittest.TestCase):
    """What tshark finds is what was encoded."""

    def expect_segments(self, found):
        self.assertEqual(len(found), len(capture.EXAMPLES))
        for packet, (_, fields) in zip(found, capture.EXAMPLES):
            called = names(fields)
            told = {key: value for key, value in fields.items() if key in called}
            if fields["opcode"] not in segment.TAGGED:
                told["queue"] = segment.QUEUES[fields["opcode"]]
            self.assertEqual({key: _number(packet[field]) for key, field in called.items() if field in packet}, told)
            if fields["opcode"] == segment.TERMINATE:
                self.assertEqual([_number(packet[field]) for field in TYPES if field in packet], [fields["type"]])
                self.assertEqual([_number(packet[field]) for field in CODES if field in packet], [fields["code"]])
                self.expect_raw(packet, fields)

    def expect_raw(self, packet, fields):
        raw = "".join(packet.get(field, "") for field in RAW).replace(":", "")
        told = fields["length"].to_bytes(2, "big") + fields["header"] + fields.get("read", b"")
        # tshark takes the DDP header in each protection error of RDMAP for a tagged one: it parts these octets at the wrong place, and
        # does not show the last four.
        if (fields["layer"], fields["type"]) == (0, 1):
            told = told[:2 + segment.TAGGED_LENGTH + segment.READ_LENGTH]
        self.assertEqual(raw, told.hex())

    def test_mpa(self):
        asked = [*SEGMENT.values(), *ADD.values(), *SWAP.values(), *ORIGINAL.values(), *TYPES, *CODES, *RAW, *WRONG, "tcp.checksum.status", "iwarp_mpa.rev", "iwarp_mpa.crc_flag",
                 "iwarp_mpa.marker_flag", "iwarp_mpa.privatedata"]
        for kind, markers in (("tcp", 0), ("markers", 1)):
            with self.subTest(kind):
                found = packets(kind, asked)
                for packet in found:
                    self.assertFalse(packet.keys() & set(WRONG), packet)
                    self.assertEqual(packet["tcp.checksum.status"], "1")
                # The first three are those of TCP.
                for packet, private in zip(found[3:5], (b"hello", b"welcome")):
                    self.assertEqual(_number(packet["iwarp_mpa.rev"]), 1)
                    self.assertEqual(_number(packet["iwarp_mpa.crc_flag"]), 1)
                    self.assertEqual(_number(packet["iwarp_mpa.marker_flag"]), markers)
                    self.assertEqual(packet["iwarp_mpa.privatedata"].replace(":", ""), private.hex())
                self.expect_segments(found[5:])

    def test_crc_of_each_fpdu(self):
        for kind in ("tcp", "markers"):
            told = tshark(kind, "-V")
            self.assertEqual(told.count("Good CRC32"), len(capture.EXAMPLES))
            self.assertNotIn("Bad CRC32", told)

    def test_sctp(self):
        found = packets("sctp", [*SEGMENT.values(), *ADD.values(), *SWAP.values(), *ORIGINAL.values(), *TYPES, *CODES, *RAW, "_ws.malformed", *SESSION])
        for packet in found:
            self.assertNotIn("_ws.malformed", packet)
            self.assertEqual(packet["sctp.checksum.status"], "1")
        for packet in found[:2]:
            self.assertEqual(_number(packet["sctp.adaptation_layer_indication"]), 1)
        for packet in found[2:]:
            self.assertEqual(_number(packet["sctp.data_u_bit"]), 1)
        control = [[packet.get(field) for field in SESSION[:6]] for packet in found[2:4] + found[-2:]]
        ssns = [sum(side == told for told, _ in capture.EXAMPLES) + 1 for side in (capture.PASSIVE, capture.ACTIVE)]
        self.assertEqual(control, [["0", "5", "4", "2", b"hello".hex(), "17"], ["0", "6", "2", "4", b"welcome".hex(), "17"],
                                   [str(ssns[0]), "4", None, None, None, "17"], [str(ssns[1]), "4", None, None, None, "17"]])
        segments = found[4:-2]
        for packet in segments:
            self.assertEqual(packet["sctp.data_payload_proto_id"], "16")
        self.expect_segments(segments)
