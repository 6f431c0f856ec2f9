// SPDX-License-Identifier: GPL-2.0

//! Calls whose arguments the server has to pull.

use super::bench::is_err_chunk;
use super::bench::same;
use super::bench::split;
use super::bench::Bench;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::calls::cases;
use super::nfs;
use super::nfs::Operation;
use super::nfs::Results;
use super::verbs::Access;
use super::verbs::Region;
use super::wire;
use std::net::SocketAddrV4;
use std::time::SystemTime;

cases![
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

/// Bytes that were not there before.
fn fresh(length: usize) -> Vec<u8> {
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
fn source(bench: &Bench, bytes: &[u8]) -> Result<Region, String> {
    let region = bench.connection.region(bytes.len(), Access::Read);
    let region = region.map_err(|error| error.to_string())?;
    region.put(0, bytes);
    Ok(region)
}

/// The reply to a message says that each WRITE wrote this much.
fn wrote(bench: &Bench, message: &[u8], counts: &[u32]) -> Verdict {
    let reply = bench.ask(message)?;
    let (_, _, payload) = split(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    for count in counts {
        same("written", results.written()?, *count)?;
    }
    results.end()
}

/// One WRITE at the start of the file: its data, and how they stand in the Read list.
fn write_by(
    bench: &Bench,
    count: u32,
    list: impl FnOnce(u32) -> Vec<(u32, Segment)>,
) -> Result<Vec<u8>, String> {
    let xid = bench.xid();
    let call = nfs::compound(xid, &[Operation::WriteReduced { offset: 0, count }]);
    let lists = Lists {
        read: list(call.positions[0]),
        ..Lists::default()
    };
    Ok(bench.message(xid, 0, &lists, &call.bytes))
}

/// The file is written only if the server says so: anything else is an error of the transport or
/// of the upper layer.
fn writes_nothing(bench: &Bench, message: &[u8]) -> Verdict {
    let before = bench.read(0, 3000)?;
    let [xid] = super::bench::head(message).expect("a header");
    let reply = bench.ask(message)?;
    if is_err_chunk(&reply, xid).is_err() {
        let (_, _, payload) = split(&reply.bytes)?;
        if let Ok(count) = Results::new(payload).and_then(|mut results| results.written()) {
            return Err(format!("{count} bytes were written"));
        }
    }
    bench.holds(0, &before)?;
    bench.survives()
}

fn adv32_read_chunk_of_an_ineligible_argument(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let name = source(&bench, b"name")?;
    let xid = bench.xid();
    let call = nfs::compound(xid, &[Operation::LookupReduced { count: 4 }]);
    let lists = Lists {
        read: vec![(call.positions[0], Segment::of(&name, 0, 4))],
        ..Lists::default()
    };
    bench.refuses(&bench.message(xid, 0, &lists, &call.bytes))
}

/// Two WRITEs, and the Read list that `order` makes of the pieces of their data.
fn two_writes(server: SocketAddrV4, pieces: &[(usize, usize, usize)]) -> Verdict {
    let bench = Bench::new(server)?;
    let data = fresh(2800);
    let region = source(&bench, &data)?;
    let xid = bench.xid();
    let call = nfs::compound(
        xid,
        &[
            Operation::WriteReduced {
                offset: 0,
                count: 2000,
            },
            Operation::WriteReduced {
                offset: 4096,
                count: 800,
            },
        ],
    );
    let piece = |&(write, offset, length): &(usize, usize, usize)| {
        (call.positions[write], Segment::of(&region, offset, length))
    };
    let lists = Lists {
        read: pieces.iter().map(piece).collect(),
        ..Lists::default()
    };
    wrote(
        &bench,
        &bench.message(xid, 0, &lists, &call.bytes),
        &[2000, 800],
    )?;
    bench.holds(0, &data[..2000])?;
    bench.holds(4096, &data[2000..])
}

fn adv33_interleaved_segments(server: SocketAddrV4) -> Verdict {
    let pieces = [
        (0, 0, 1000),
        (1, 2000, 400),
        (0, 1000, 500),
        (1, 2400, 400),
        (0, 1500, 500),
    ];
    two_writes(server, &pieces)
}

fn adv34_descending_positions(server: SocketAddrV4) -> Verdict {
    two_writes(server, &[(1, 2000, 800), (0, 0, 2000)])
}

fn adv35_position_zero_segments_anywhere_in_the_list(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2]] {
        let data = fresh(1023);
        let region = source(&bench, &data)?;
        let xid = bench.xid();
        // Something stands behind the data, so that losing a part shows.
        let call = nfs::compound(
            xid,
            &[
                Operation::WriteReduced {
                    offset: 0,
                    count: 1023,
                },
                Operation::Write {
                    offset: 4096,
                    data: b"behind",
                },
            ],
        );
        let whole = source(&bench, &call.bytes)?;
        let list = [
            (0, Segment::of(&whole, 0, 100)),
            (call.positions[0], Segment::of(&region, 0, 1023)),
            (0, Segment::of(&whole, 100, call.bytes.len() - 100)),
        ];
        let list = order.map(|index| list[index]);
        // The two halves of the long message keep their order.
        if order.iter().position(|index| *index == 0) > order.iter().position(|index| *index == 2) {
            continue;
        }
        let lists = Lists {
            read: list.to_vec(),
            ..Lists::default()
        };
        wrote(&bench, &bench.message(xid, 1, &lists, &[]), &[1023, 6])?;
        bench.holds(0, &data)?;
        bench.holds(4096, b"behind")?;
    }
    Ok(())
}

fn adv40_long_call_with_another_xid(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let xid = bench.xid();
    let call = source(&bench, &wire::null_call(xid ^ 1))?;
    let lists = Lists {
        read: vec![(0, Segment::of(&call, 0, 40))],
        ..Lists::default()
    };
    bench.refuses(&bench.message(xid, 1, &lists, &[]))
}

/// One WRITE of all of `data`, whose Read list is made by `list` from Position and memory.
fn writes_all(
    bench: &Bench,
    data: &[u8],
    list: impl FnOnce(u32, &Region) -> Vec<(u32, Segment)>,
) -> Verdict {
    let region = source(bench, data)?;
    let count = u32::try_from(data.len()).expect("short data");
    let message = write_by(bench, count, |position| list(position, &region))?;
    wrote(bench, &message, &[count])?;
    bench.holds(0, data)
}

fn argument_is_not_read_after_the_reply(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = fresh(3000);
    let region = source(&bench, &data)?;
    let message = write_by(&bench, 3000, |position| {
        vec![(position, Segment::of(&region, 0, 3000))]
    })?;
    wrote(&bench, &message, &[3000])?;
    region.put(0, &[0; 3000]);
    drop(region);
    bench.holds(0, &data)?;
    bench.survives()
}

fn adv43_segments_of_one_byte(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    writes_all(&bench, &fresh(41), |position, region| {
        (0..41)
            .map(|at| (position, Segment::of(region, at, 1)))
            .collect()
    })
}

fn adv44_zero_length_segments(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    writes_all(&bench, &fresh(16), |position, region| {
        let pieces = [(0, 0), (0, 8), (8, 0), (8, 8), (16, 0)];
        pieces
            .map(|(at, length)| (position, Segment::of(region, at, length)))
            .to_vec()
    })
}

/// A WRITE that the server cannot pull ends the connection, each time that it comes, and another
/// connection is served as ever.
fn cannot_be_pulled(server: SocketAddrV4, segment: impl Fn(&Region) -> Segment) -> Verdict {
    for _ in 0..2 {
        let bench = Bench::new(server)?;
        let before = bench.read(0, 3000)?;
        let region = source(&bench, &fresh(4096))?;
        let list = |position| vec![(position, segment(&region))];
        bench.send(&write_by(&bench, 4096, list)?)?;
        bench.loses()?;
        Bench::new(server)?.holds(0, &before)?;
    }
    Ok(())
}

fn adv85_unknown_handle(server: SocketAddrV4) -> Verdict {
    cannot_be_pulled(server, |region| Segment {
        key: region.key() ^ 0x5500,
        ..Segment::of(region, 0, 4096)
    })
}

fn adv87_segment_longer_than_its_region(server: SocketAddrV4) -> Verdict {
    cannot_be_pulled(server, |region| Segment::of(region, 2048, 4096))
}

fn adv91_read_chunk_with_and_without_padding(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    for pieces in [&[(0, 5)][..], &[(0, 8)], &[(0, 5), (5, 3)]] {
        let data = fresh(8);
        let region = source(&bench, &data)?;
        let list = |position| {
            let segment = |&(at, length)| (position, Segment::of(&region, at, length));
            pieces.iter().map(segment).collect()
        };
        wrote(&bench, &write_by(&bench, 5, list)?, &[5])?;
        bench.holds(0, &data[..5])?;
    }
    Ok(())
}

/// A WRITE of `count` bytes whose chunk has `length` of them.
fn of_other_length(server: SocketAddrV4, count: u32, length: usize) -> Verdict {
    let bench = Bench::new(server)?;
    let region = source(&bench, &fresh(length))?;
    let list = |position| vec![(position, Segment::of(&region, 0, length))];
    writes_nothing(&bench, &write_by(&bench, count, list)?)
}

fn adv92_read_chunk_longer_than_its_padding(server: SocketAddrV4) -> Verdict {
    of_other_length(server, 5, 12)
}

fn adv93_read_chunk_shorter_than_its_data(server: SocketAddrV4) -> Verdict {
    of_other_length(server, 4096, 1000)?;
    of_other_length(server, 5, 1)
}

fn adv102_nonzero_padding(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = fresh(5);
    let write = [Operation::Write {
        offset: 0,
        data: &data,
    }];
    // Inline.
    let xid = bench.xid();
    let call = nfs::filled_compound(xid, &write, 0xFF);
    let inline = bench.message(xid, 0, &Lists::default(), &call.bytes);
    wrote(&bench, &inline, &[5])?;
    bench.holds(0, &data)?;
    // In a Position-Zero Read chunk.
    let xid = bench.xid();
    let call = nfs::filled_compound(xid, &write, 0xFF);
    let whole = source(&bench, &call.bytes)?;
    let lists = Lists {
        read: vec![(0, Segment::of(&whole, 0, whole.len()))],
        ..Lists::default()
    };
    wrote(&bench, &bench.message(xid, 1, &lists, &[]), &[5])?;
    bench.holds(0, &data)
}

/// `count` segments of equal length that make up `region`.
fn split_in(region: &Region, count: usize) -> Vec<Segment> {
    let each = region.len() / count;
    let segment = |index| Segment::of(region, index * each, each);
    (0..count).map(segment).collect()
}

/// An offset may be anything, such as zero, or the start of the last page that there can be.
fn s443_any_offset_is_valid(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    for (page, at) in [(0, 0), (0, 1), (u64::MAX - 4095, 0)] {
        let data = fresh(4096 - at);
        let region = bench.connection.region_at(page, 4096, Access::Read);
        let region = region.map_err(|error| error.to_string())?;
        region.put(at, &data);
        let message = write_by(&bench, 4096 - at as u32, |position| {
            vec![(position, Segment::of(&region, at, data.len()))]
        })?;
        wrote(&bench, &message, &[4096 - at as u32])?;
        // All of it would not fit into a reply.
        let (first, rest) = data.split_at(2000);
        bench.holds(0, first)?;
        bench.holds(2000, rest)?;
    }
    Ok(())
}

fn n12_sixteen_segments(server: SocketAddrV4) -> Verdict {
    in_segments(server, 16)
}

/// Our server posts 17 Reads or Writes of one call, and then the next ones.
fn more_segments_than_one_batch_of_work_requests(server: SocketAddrV4) -> Verdict {
    in_segments(server, 64)
}

/// A long call, an argument and a result in so many segments each.
fn in_segments(server: SocketAddrV4, count: usize) -> Verdict {
    let bench = Bench::new(server)?;
    let data = fresh(4096);
    let argument = source(&bench, &data)?;
    let xid = bench.xid();
    let call = nfs::compound(
        xid,
        &[
            Operation::WriteReduced {
                offset: 0,
                count: 4096,
            },
            Operation::Read {
                offset: 0,
                count: 4096,
            },
        ],
    );
    let mut bytes = call.bytes;
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let whole = source(&bench, &bytes)?;
    let result = bench.connection.region(4096, Access::Write);
    let result = result.map_err(|error| error.to_string())?;
    let at = |position, region| {
        let segments = split_in(region, count).into_iter();
        segments.map(move |segment| (position, segment))
    };
    let lists = Lists {
        read: at(0, &whole)
            .chain(at(call.positions[0], &argument))
            .collect(),
        write: vec![split_in(&result, count)],
        reply: None,
    };
    let reply = bench.ask(&bench.message(xid, 1, &lists, &[]))?;
    let (_, _, payload) = split(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    same("written", results.written()?, 4096)?;
    same("read", results.read_reduced()?, 4096)?;
    results.end()?;
    same("what was read", result.bytes(0, 4096), data)
}

fn long_call_in_a_position_zero_chunk(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = fresh(20_000);
    let xid = bench.xid();
    let call = nfs::compound(
        xid,
        &[Operation::Write {
            offset: 0,
            data: &data,
        }],
    );
    let whole = source(&bench, &call.bytes)?;
    let lists = Lists {
        read: vec![(0, Segment::of(&whole, 0, whole.len()))],
        ..Lists::default()
    };
    wrote(&bench, &bench.message(xid, 1, &lists, &[]), &[20_000])?;
    for offset in (0..20_000).step_by(2000) {
        bench.holds(offset, &data[offset as usize..offset as usize + 2000])?;
    }
    Ok(())
}
