// SPDX-License-Identifier: GPL-2.0

//! Requests to connect without a client: RoCE packets with a CM REQ, each from another queue pair that does not exist. Nobody takes
//! the server's reply.
//!
//! InfiniBand Architecture Specification, volume 1: sections 9 (headers), 12.7 (REQ) and annex A17 (RoCEv2, and its ICRC).

use super::tally::ready;
use super::tally::Tally;
use crate::verbs::own_address;
use crate::verbs::without_identification;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddrV4;
use std::net::UdpSocket;
use std::time::Duration;
use std::time::Instant;

/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;

const BTH_LEN: usize = 12;
const DETH_LEN: usize = 8;
const MAD_LEN: usize = 256;
const ICRC_LEN: usize = 4;

/// The key of queue pair 1, and its number.
const QKEY: u32 = 0x8001_0000;
const GSI: u32 = 1;

/// The largest response timeout of the CM, and number of times that it tries again: the server should keep its end for hours.
const RESPONSE_TIMEOUT: u8 = 31;
const RETRIES: u8 = 15;

/// CRC-32 as Ethernet has it.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// The bytes of an IPv4 and a UDP header that the ICRC covers, those that may change on the way as ones.
fn masked_headers(from: SocketAddrV4, to: SocketAddrV4, payload: usize) -> Vec<u8> {
    let udp = (8 + payload) as u16;
    let mut header = vec![0x45, 0xff];
    header.extend((20 + udp).to_be_bytes());
    // No identification, and not to be fragmented.
    header.extend([0, 0, 0x40, 0]);
    header.extend([0xff, 17, 0xff, 0xff]);
    header.extend(from.ip().octets());
    header.extend(to.ip().octets());
    header.extend(from.port().to_be_bytes());
    header.extend(to.port().to_be_bytes());
    header.extend(udp.to_be_bytes());
    header.extend([0xff, 0xff]);
    header
}

/// `::ffff:a.b.c.d`.
fn gid(address: &Ipv4Addr) -> [u8; 16] {
    address.to_ipv6_mapped().octets()
}

/// A CM REQ to the port of `server`, with this number in its ids.
fn request(number: u32, from: &Ipv4Addr, server: SocketAddrV4, private: &[u8]) -> Vec<u8> {
    let mut mad = Vec::with_capacity(MAD_LEN);
    // Version 1, class CM, version 2, method Send; transaction; attribute REQ.
    mad.extend([1, 7, 2, 3, 0, 0, 0, 0]);
    mad.extend(u64::from(number).to_be_bytes());
    mad.extend([0, 0x10, 0, 0, 0, 0, 0, 0]);
    // Communication id, service id of the RDMA port space TCP, the CA's id.
    mad.extend(number.to_be_bytes());
    mad.extend([0; 4]);
    mad.extend((0x0106_0000 | u64::from(server.port())).to_be_bytes());
    mad.extend(u64::from(number).to_be_bytes());
    mad.extend([0; 8]);
    // Queue pair and how many RDMA Reads it executes and makes.
    mad.extend(((number << 8) | 16).to_be_bytes());
    mad.extend([0, 0, 0, 16]);
    // Reliable Connection.
    mad.extend([0, 0, 0, RESPONSE_TIMEOUT << 3]);
    // Starting PSN; retries.
    mad.extend([0, 0, 0, (RESPONSE_TIMEOUT << 3) | 7]);
    // Partition; path MTU 1,024 and RNR retries; CM retries.
    mad.extend([0xff, 0xff, (3 << 4) | 7, RETRIES << 4]);
    // Primary path: LIDs, GIDs, hop limit, acknowledgement timeout.
    mad.extend([0xff; 4]);
    mad.extend(gid(from));
    mad.extend(gid(server.ip()));
    mad.extend([0; 4]);
    mad.extend([0, 64, 0, 14 << 3]);
    // No alternate path.
    mad.extend([0; 44]);
    // IPv4, and the port and the addresses of the RDMA CM.
    mad.extend([0, 4 << 4]);
    mad.extend((number as u16 | 1024).to_be_bytes());
    for address in [from, server.ip()] {
        mad.extend([0; 12]);
        mad.extend(address.octets());
    }
    mad.extend(private);
    mad.resize(MAD_LEN, 0);
    mad
}

/// A packet with `mad` for queue pair 1.
fn packet(number: u32, from: SocketAddrV4, to: SocketAddrV4, mad: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN);
    // UD Send Only, the default partition.
    packet.extend([0x64, 0, 0xff, 0xff]);
    packet.extend(GSI.to_be_bytes());
    packet.extend((number & 0x00ff_ffff).to_be_bytes());
    packet.extend(QKEY.to_be_bytes());
    packet.extend(GSI.to_be_bytes());
    packet.extend(mad);
    let local = [0xff; 8].into_iter();
    let headers = masked_headers(from, to, packet.len() + ICRC_LEN);
    let covered = packet.iter().enumerate().map(|(at, byte)| match at {
        4 => 0xff,
        _ => *byte,
    });
    let icrc = crc32(local.chain(headers).chain(covered));
    packet.extend(icrc.to_le_bytes());
    packet
}

/// So many requests in a second.
pub fn flood(server: SocketAddrV4, rate: usize, end: Instant) -> Result<Tally, String> {
    let open = || {
        let socket = UdpSocket::bind((own_address().unwrap_or(Ipv4Addr::UNSPECIFIED), 0))?;
        without_identification(&socket)?;
        // Tells which address is ours.
        let connected = UdpSocket::bind((own_address().unwrap_or(Ipv4Addr::UNSPECIFIED), 0))?;
        connected.connect(server)?;
        let port = socket.local_addr()?.port();
        Ok((socket, connected.local_addr()?.ip(), port))
    };
    let (socket, own, port) = open().map_err(|error: std::io::Error| error.to_string())?;
    let IpAddr::V4(own) = own else {
        return Err("not an IPv4 address".into());
    };
    let (from, to) = (
        SocketAddrV4::new(own, port),
        SocketAddrV4::new(*server.ip(), ROCE),
    );
    let mut tally = Tally::default();
    // Other numbers in each run, so that the server does not take them for requests that it knows.
    let first = (std::process::id() << 12) & 0x00ff_ffff;
    let pause = Duration::from_secs(1) / u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
    let mut next = Instant::now();
    ready();
    while Instant::now() < end {
        let number = first.wrapping_add(tally.made as u32) & 0x00ff_ffff;
        let mad = request(number, &own, server, &crate::client::PRIVATE_DATA);
        match socket.send_to(&packet(number, from, to, &mad), to) {
            Ok(_) => tally.made += 1,
            Err(error) => tally.refused(error.to_string()),
        }
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(tally)
}
