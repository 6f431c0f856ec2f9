// SPDX-License-Identifier: GPL-2.0

//! Calls with Read chunks: arguments, and long calls.

use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::Client;
use crate::message::expect_err_chunk;
use crate::message::head;
use crate::message::parse_reply;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::write;
use crate::nfs4::write_reduced;
use crate::nfs4::Operation;
use crate::nfs4::Results;
use crate::verbs::Access;
use crate::verbs::Region;
use crate::wire;
use std::net::SocketAddrV4;
use std::time::SystemTime;

cases![ServerCase:
    adv32_read_chunk_of_an_ineligible_argument,
    adv33_interleaved_segments,
    adv34_descending_positions,
    adv35_position_zero_segments_anywhere_in_the_list,
    adv40_long_call_with_another_xid,
    adv43_segments_of_one_byte,
    adv44_zero_length_segments,
    adv85_unknown_handle,
    adv87_segment_longer_than_its_region,
    adv91_read_chunk_with_and_without_padding,
    adv92_read_chunk_longer_than_its_padding,
    adv93_read_chunk_shorter_than_its_data,
    adv102_nonzero_padding,
    s443_any_offset_is_valid,
    n12_sixteen_segments,
    more_segments_than_one_batch_of_work_requests,
    long_call_in_a_position_zero_chunk,
    argument_is_not_read_after_the_reply,
];

/// Bytes that the file does not have yet.
fn random_bytes(length: usize) -> Vec<u8> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let mut state = now.map_or(1, |now| now.subsec_nanos()) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Memory with these bytes that the server may read.
fn readable(client: &Client, bytes: &[u8]) -> Result<Region, String> {
    client.region_with(bytes, Access::Read)
}

/// Sends a Call, and expects that each WRITE in it wrote so many bytes.
fn writes(client: &Client, message: &[u8], counts: &[u32]) -> Outcome {
    let reply = client.call(message)?;
    let (_, _, payload) = parse_reply(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    for count in counts {
        expect_eq("written", results.written()?, *count)?;
    }
    results.end()
}

/// A Call of one WRITE at the start of the file; `list` makes its Read list from the Position.
fn write_call(
    client: &Client,
    count: u32,
    list: impl FnOnce(u32) -> Vec<(u32, Segment)>,
) -> Vec<u8> {
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write_reduced(0, count)]);
    let lists = ChunkLists::with_read(list(call.positions[0]));
    client.inline_call(xid, &lists, &call.bytes)
}

/// A Call whose RPC message is all of `region`, a Position Zero Read chunk.
fn long_call(client: &Client, xid: u32, region: &Region) -> Vec<u8> {
    let lists = ChunkLists::with_read_segment(0, Segment::all_of(region));
    client.long_call(xid, &lists)
}

/// Sends a Call of one WRITE, and expects an error of the transport or of NFS, and that the file did not
/// change.
fn writes_nothing(client: &Client, message: &[u8]) -> Outcome {
    let before = client.read(0, 3000)?;
    let [xid] = head(message).expect("a header");
    let reply = client.call(message)?;
    if expect_err_chunk(&reply, xid).is_err() {
        let (_, _, payload) = parse_reply(&reply.bytes)?;
        if let Ok(count) = Results::new(payload).and_then(|mut results| results.written()) {
            return Err(format!("{count} bytes were written"));
        }
    }
    client.file_has(0, &before)?;
    client.null_call_succeeds()
}

// Shows S3.4.2-02, S6.1-06, S6.1-07, ADV-32.
fn adv32_read_chunk_of_an_ineligible_argument(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let name = readable(&client, b"name")?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[Operation::LookupReduced { count: 4 }]);
    let lists = ChunkLists::with_read_segment(call.positions[0], Segment::all_of(&name));
    client.gets_err_chunk(&client.inline_call(xid, &lists, &call.bytes))
}

/// Two WRITEs, whose Read list has these pieces of their data: which WRITE, where, how many bytes.
fn two_writes(server: SocketAddrV4, pieces: &[(usize, usize, usize)]) -> Outcome {
    let client = Client::new(server)?;
    let data = random_bytes(2800);
    let region = readable(&client, &data)?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write_reduced(0, 2000), write_reduced(4096, 800)]);
    let piece = |&(write, offset, length): &(usize, usize, usize)| {
        (call.positions[write], Segment::of(&region, offset, length))
    };
    let lists = ChunkLists::with_read(pieces.iter().map(piece).collect());
    let message = client.inline_call(xid, &lists, &call.bytes);
    writes(&client, &message, &[2000, 800])?;
    client.file_has(0, &data[..2000])?;
    client.file_has(4096, &data[2000..])
}

// Shows S3.4.5-05, S3.4.5-07, ADV-33.
fn adv33_interleaved_segments(server: SocketAddrV4) -> Outcome {
    let pieces = [
        (0, 0, 1000),
        (1, 2000, 400),
        (0, 1000, 500),
        (1, 2400, 400),
        (0, 1500, 500),
    ];
    two_writes(server, &pieces)
}

// Shows S3.4.5-07, ADV-34.
fn adv34_descending_positions(server: SocketAddrV4) -> Outcome {
    two_writes(server, &[(1, 2000, 800), (0, 0, 2000)])
}

// Shows S3.4.5-07, S3.5.3-10, S4.3.1-02, ADV-35.
fn adv35_position_zero_segments_anywhere_in_the_list(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    // The Position Zero segments, 0 and 2, keep their order.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2]] {
        let data = random_bytes(1023);
        let region = readable(&client, &data)?;
        let xid = client.xid();
        // With a second WRITE after the data, a part that is missing or in the wrong place shows.
        let operations = [write_reduced(0, 1023), write(4096, b"behind")];
        let call = nfs4::compound(xid, &operations);
        let whole = readable(&client, &call.bytes)?;
        let list = [
            (0, Segment::of(&whole, 0, 100)),
            (call.positions[0], Segment::all_of(&region)),
            (0, Segment::of(&whole, 100, call.bytes.len() - 100)),
        ];
        let list = order.map(|index| list[index]);
        let lists = ChunkLists::with_read(list.to_vec());
        writes(&client, &client.long_call(xid, &lists), &[1023, 6])?;
        client.file_has(0, &data)?;
        client.file_has(4096, b"behind")?;
    }
    Ok(())
}

// Shows S4.2.1-02, ADV-40.
fn adv40_long_call_with_another_xid(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let xid = client.xid();
    let call = readable(&client, &wire::null_call(xid ^ 1))?;
    client.gets_err_chunk(&long_call(&client, xid, &call))
}

/// A WRITE of all of `data`; `list` makes its Read list from Position and memory.
fn writes_all(
    client: &Client,
    data: &[u8],
    list: impl FnOnce(u32, &Region) -> Vec<(u32, Segment)>,
) -> Outcome {
    let region = readable(client, data)?;
    let count = u32::try_from(data.len()).expect("short data");
    let message = write_call(client, count, |position| list(position, &region));
    writes(client, &message, &[count])?;
    client.file_has(0, data)
}

// Shows S3.4.5.1-02.
fn argument_is_not_read_after_the_reply(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = random_bytes(3000);
    let region = readable(&client, &data)?;
    let message = write_call(&client, 3000, |position| {
        vec![(position, Segment::all_of(&region))]
    });
    writes(&client, &message, &[3000])?;
    region.put(0, &[0; 3000]);
    drop(region);
    client.file_has(0, &data)?;
    client.null_call_succeeds()
}

// Shows S3.3.1-15, S3.4.4-01, S3.4.5-05, S3.4.5-06, ADV-43.
fn adv43_segments_of_one_byte(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    writes_all(&client, &random_bytes(41), |position, region| {
        let segment = |at| (position, Segment::of(region, at, 1));
        (0..41).map(segment).collect()
    })
}

// Shows S3.4.4-01, ADV-44.
fn adv44_zero_length_segments(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    writes_all(&client, &random_bytes(16), |position, region| {
        let pieces = [(0, 0), (0, 8), (8, 0), (8, 8), (16, 0)];
        let segment = |(at, length)| (position, Segment::of(region, at, length));
        pieces.map(segment).to_vec()
    })
}

/// Sends a WRITE whose Read chunk is `segment`, which the server cannot read: expects that the
/// connection is lost, and that another connection works. Then the same once more.
fn read_is_denied(server: SocketAddrV4, segment: impl Fn(&Region) -> Segment) -> Outcome {
    for _ in 0..2 {
        let client = Client::new(server)?;
        let before = client.read(0, 3000)?;
        let region = readable(&client, &random_bytes(4096))?;
        let list = |position| vec![(position, segment(&region))];
        client.send(&write_call(&client, 4096, list))?;
        client.loses_connection()?;
        Client::new(server)?.file_has(0, &before)?;
    }
    Ok(())
}

// Shows S4.5.3-01, S4.5.3-05, ADV-85.
fn adv85_unknown_handle(server: SocketAddrV4) -> Outcome {
    read_is_denied(server, |region| Segment {
        handle: region.rkey() ^ 0x5500,
        ..Segment::of(region, 0, 4096)
    })
}

// Shows S4.5.3-01, SEC-23, ADV-87.
fn adv87_segment_longer_than_its_region(server: SocketAddrV4) -> Outcome {
    read_is_denied(server, |region| Segment::of(region, 2048, 4096))
}

// Shows S3.4.5.2-02, S3.4.5.2-04, S3.4.5.2-05, S3.5.2-02, ADV-91.
fn adv91_read_chunk_with_and_without_padding(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    for pieces in [&[(0, 5)][..], &[(0, 8)], &[(0, 5), (5, 3)]] {
        let data = random_bytes(8);
        let region = readable(&client, &data)?;
        let list = |position| {
            let segment = |&(at, length)| (position, Segment::of(&region, at, length));
            pieces.iter().map(segment).collect()
        };
        writes(&client, &write_call(&client, 5, list), &[5])?;
        client.file_has(0, &data[..5])?;
    }
    Ok(())
}

/// A WRITE of `count` bytes whose Read chunk has `length` bytes.
fn chunk_of_other_length(server: SocketAddrV4, count: u32, length: usize) -> Outcome {
    let client = Client::new(server)?;
    let region = readable(&client, &random_bytes(length))?;
    let list = |position| vec![(position, Segment::all_of(&region))];
    writes_nothing(&client, &write_call(&client, count, list))
}

// Shows S3.4.5.2-02, S4.5.2-03, N-22, ADV-92.
fn adv92_read_chunk_longer_than_its_padding(server: SocketAddrV4) -> Outcome {
    chunk_of_other_length(server, 5, 12)
}

// Shows S3.4.5.2-05, S4.5.2-03, N-22, ADV-93.
fn adv93_read_chunk_shorter_than_its_data(server: SocketAddrV4) -> Outcome {
    chunk_of_other_length(server, 4096, 1000)?;
    chunk_of_other_length(server, 5, 1)
}

// Shows S3.5.3-05, S8.2.2.3-05, ADV-102.
fn adv102_nonzero_padding(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = random_bytes(5);
    // Inline.
    let xid = client.xid();
    let call = nfs4::padded_compound(xid, &[write(0, &data)], 0xFF);
    let inline = client.inline_call(xid, &ChunkLists::default(), &call.bytes);
    writes(&client, &inline, &[5])?;
    client.file_has(0, &data)?;
    // In a Position Zero Read chunk.
    let xid = client.xid();
    let call = nfs4::padded_compound(xid, &[write(0, &data)], 0xFF);
    let whole = readable(&client, &call.bytes)?;
    writes(&client, &long_call(&client, xid, &whole), &[5])?;
    client.file_has(0, &data)
}

/// `count` segments of equal length that make up `region`.
fn split(region: &Region, count: usize) -> Vec<Segment> {
    let each = region.len() / count;
    let segment = |index| Segment::of(region, index * each, each);
    (0..count).map(segment).collect()
}

/// An offset may have any value, such as zero, or what ends with the last octet that there can be.
// Shows S4.4.3-01.
fn s443_any_offset_is_valid(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    const PAGE: usize = 1 << 16;
    let last = u64::MAX - (PAGE as u64 - 1);
    for (page, at, count) in [(0, 0, 4096), (0, 1, 4095), (last, PAGE - 4096, 4096)] {
        let data = random_bytes(count as usize);
        let region = client.connection.region_at(page, PAGE, Access::Read);
        let region = region.map_err(|error| error.to_string())?;
        region.put(at, &data);
        let message = write_call(&client, count, |position| {
            vec![(position, Segment::of(&region, at, data.len()))]
        });
        writes(&client, &message, &[count])?;
        // All of it does not fit into an inline reply.
        let (first, rest) = data.split_at(2000);
        client.file_has(0, first)?;
        client.file_has(2000, rest)?;
    }
    Ok(())
}

/// Each server takes chunks of so many segments.
// Shows S3.3.1-15, S3.4.5-06, S3.5.3-10, N-12.
fn n12_sixteen_segments(server: SocketAddrV4) -> Outcome {
    chunks_of_segments(server, 16)
}

/// The server of this module posts the RDMA Reads and Writes of one call in batches of 17.
fn more_segments_than_one_batch_of_work_requests(server: SocketAddrV4) -> Outcome {
    chunks_of_segments(server, 64)
}

/// A long call, an argument and a result, each in `count` segments.
fn chunks_of_segments(server: SocketAddrV4, count: usize) -> Outcome {
    let client = Client::new(server)?;
    let data = random_bytes(4096);
    let argument = readable(&client, &data)?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write_reduced(0, 4096), read(0, 4096)]);
    let mut bytes = call.bytes;
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let whole = readable(&client, &bytes)?;
    let result = client.region(4096, Access::Write)?;
    let at = |position, region| {
        let segments = split(region, count).into_iter();
        segments.map(move |segment| (position, segment))
    };
    let argument = at(call.positions[0], &argument);
    let lists = ChunkLists {
        read: at(0, &whole).chain(argument).collect(),
        write: vec![split(&result, count)],
        reply: None,
    };
    let reply = client.call(&client.long_call(xid, &lists))?;
    let (_, _, payload) = parse_reply(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    expect_eq("written", results.written()?, 4096)?;
    expect_eq("read", results.read_reduced()?, 4096)?;
    results.end()?;
    expect_eq("what was read", result.bytes(0, 4096), data)
}

// Shows S3.5.3-05, S3.5.3-08, S4-03, S4.3.1-02, S6.1-04.
fn long_call_in_a_position_zero_chunk(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = random_bytes(20_000);
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write(0, &data)]);
    let whole = readable(&client, &call.bytes)?;
    writes(&client, &long_call(&client, xid, &whole), &[20_000])?;
    for (index, part) in data.chunks(2000).enumerate() {
        client.file_has(2000 * index as u32, part)?;
    }
    Ok(())
}
