# SPDX-License-Identifier: GPL-2.0

"""Known octets: examples that the RFCs print, and frames that other implementations sent."""

import unittest

import mpa
import segment
import sctp
from wire import WireError
from wire import crc32c


class Golden(unittest.TestCase):
    def test_crc_of_the_usual_digits(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_first_fpdu_of_rfc_5044_figure_5(self):
        ulpdu = segment.encode({"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": bytes(24)})
        sent = mpa.encode_fpdu(ulpdu, position=0, markers=1, crc=1)
        self.assertEqual(sent[:8].hex(), "00000000002a4143")
        self.assertEqual(sent[-4:].hex(), "52239983")
        self.assertEqual(mpa.decode_fpdu(sent, position=0, markers=1, crc=1), (ulpdu, len(sent)))

    def test_fpdu_with_a_marker_inside_of_rfc_5044_figure_6(self):
        ulpdu = segment.encode({"opcode": segment.SEND, "last": 1, "msn": 2, "mo": 0, "payload": bytes(24)})
        sent = mpa.encode_fpdu(ulpdu, position=492, markers=1, crc=1)
        self.assertEqual(sent[20:24].hex(), "00000014")
        self.assertEqual(sent[-4:].hex(), "84925898")
        self.assertEqual(mpa.decode_fpdu(sent, position=492, markers=1, crc=1), (ulpdu, len(sent)))

    def test_request_of_the_in_tree_siw(self):
        sent = b"MPA ID Req Frame" + bytes.fromhex("1002000900040002") + b"HELLO"
        found = mpa.decode_startup(sent, "request")
        told = {"frame": "request", "revision": 2, "markers": 0, "crc": 0, "reject": 0, "enhanced": 1,
                "a": 0, "b": 0, "ird": 4, "c": 0, "d": 0, "ord": 2, "private": b"HELLO"}
        self.assertEqual(found, told)
        self.assertEqual(mpa.encode_startup(told), sent)

    def test_send_of_34_octets(self):
        sent = segment.encode({"opcode": segment.SEND, "last": 1, "msn": 1, "mo": 0, "payload": bytes(16)})
        self.assertEqual(len(sent), 34)
        self.assertEqual(sent[:18].hex(), "4143" + "00000000" * 2 + "00000001" + "00000000")

    def test_read_request_is_46_octets(self):
        fields = {"opcode": segment.READ_REQUEST, "last": 1, "msn": 1, "mo": 0, "sinkstag": 0xA59D8500, "sinkto": 0x1000, "size": 1500,
                  "srcstag": 0x77, "srcto": 0x2000}
        sent = segment.encode(fields)
        self.assertEqual(sent.hex(), "4141" "00000000" "00000001" "00000001" "00000000"
                                     "a59d8500" "0000000000001000" "000005dc" "00000077" "0000000000002000")
        self.assertEqual(segment.decode(sent), fields)

    def test_read_response_starts_with_c142(self):
        sent = segment.encode({"opcode": segment.READ_RESPONSE, "last": 1, "stag": 0xA59D8500, "to": 0x1594, "payload": b"x" * 72})
        self.assertEqual(sent[:14].hex(), "c142" "a59d8500" "0000000000001594")

    def test_immediate_data_is_26_octets(self):
        for opcode, control in ((segment.IMMEDIATE, "4148"), (segment.IMMEDIATE_SE, "4149")):
            fields = {"opcode": opcode, "last": 1, "msn": 3, "mo": 0, "payload": bytes(range(1, 9))}
            sent = segment.encode(fields)
            self.assertEqual(sent.hex(), control + "00000000" "00000000" "00000003" "00000000" "0102030405060708")
            self.assertEqual(segment.decode(sent), fields)

    def test_atomic_request_is_70_octets(self):
        fields = {"opcode": segment.ATOMIC_REQUEST, "last": 1, "msn": 2, "mo": 0, "operation": segment.CMP_SWAP, "identifier": 0x11223344,
                  "stag": 0xA59D8500, "to": 0x1000, "data": 5, "mask": 0xFF, "compare": 6, "comparemask": 0xF0F0}
        sent = segment.encode(fields)
        self.assertEqual(sent.hex(), "414a" "00000000" "00000001" "00000002" "00000000" "00000002" "11223344" "a59d8500" "0000000000001000"
                                     "0000000000000005" "00000000000000ff" "0000000000000006" "000000000000f0f0")
        self.assertEqual(segment.decode(sent), fields)

    def test_fetch_add_compares_nothing(self):
        fields = {"opcode": segment.ATOMIC_REQUEST, "last": 1, "msn": 2, "mo": 0, "operation": segment.FETCH_ADD, "identifier": 1, "stag": 2,
                  "to": 8, "data": 1, "mask": 0}
        sent = segment.encode(fields)
        self.assertEqual(sent[54:].hex(), "0000000000000000" "ffffffffffffffff")
        self.assertEqual(segment.decode(sent), fields)

    def test_atomic_response_is_30_octets(self):
        fields = {"opcode": segment.ATOMIC_RESPONSE, "last": 1, "msn": 1, "mo": 0, "identifier": 0x11223344, "original": 0x0102030405060708}
        sent = segment.encode(fields)
        self.assertEqual(sent.hex(), "414b" "00000000" "00000003" "00000001" "00000000" "11223344" "0102030405060708")
        self.assertEqual(segment.decode(sent), fields)

    def test_sums_and_swaps(self):
        self.assertEqual(segment.fetch_add(segment.ALL_ONES, 1, 0), 0)
        # Two counters of 32 bits.
        self.assertEqual(segment.fetch_add(0x00000005FFFFFFFF, 1, 1 << 31), 0x0000000500000000)
        self.assertEqual(segment.fetch_add(0x0F, 0xFF, segment.ALL_ONES), 0xF0)
        self.assertEqual(segment.cmp_swap(0x1234, 0xAAAA, 0xFF00, 0x34, 0xFF), 0xAA34)
        self.assertEqual(segment.cmp_swap(0x1234, 0xAAAA, 0xFF00, 0x35, 0xFF), 0x1234)

    def test_longest_terminate_is_70_octets(self):
        request = segment.encode({"opcode": segment.READ_REQUEST, "last": 1, "msn": 1, "mo": 0, "sinkstag": 1, "sinkto": 2, "size": 3,
                                  "srcstag": 4, "srcto": 5})
        fields = {"opcode": segment.TERMINATE, "last": 1, "msn": 1, "mo": 0, "layer": 0, "type": 1, "code": 0, "m": 1, "d": 1, "r": 1,
                  "length": 46, "header": request[:18], "read": request[18:]}
        sent = segment.encode(fields)
        self.assertEqual(len(sent), 70)
        self.assertEqual(sent[18:24].hex(), "0100e000002e")
        self.assertEqual(segment.decode(sent), fields)

    def test_session_control_of_rfc_5043(self):
        self.assertEqual(sctp.encode({"ppid": 17, "ssn": 0, "function": 1, "private": b"hello"}).hex(), "00000001" + b"hello".hex())
        self.assertEqual(sctp.encode({"ppid": 17, "ssn": 5, "function": 4}).hex(), "00050004")
        enhanced = {"ppid": 17, "ssn": 0, "function": 5, "a": 1, "b": 0, "ird": 0x3FFF, "c": 0, "d": 1, "ord": 16, "private": b"p"}
        self.assertEqual(sctp.encode(enhanced).hex(), "00000005" "bfff" "4010" "70")
        self.assertEqual(sctp.decode(sctp.encode(enhanced), 17), enhanced)


class Refused(unittest.TestCase):
    def test_a_changed_octet_is_found_by_the_crc(self):
        sent = bytearray(mpa.encode_fpdu(bytes(42), position=0, markers=0, crc=1))
        for place in range(2, len(sent)):
            sent[place] ^= 0x10
            with self.assertRaisesRegex(WireError, "crc"):
                mpa.decode_fpdu(bytes(sent), position=0, markers=0, crc=1)
            sent[place] ^= 0x10

    def test_every_prefix_is_short(self):
        sent = mpa.encode_fpdu(bytes(600), position=492, markers=1, crc=1)
        for length in range(len(sent)):
            with self.assertRaisesRegex(WireError, "short"):
                mpa.decode_fpdu(sent[:length], position=492, markers=1, crc=1)
