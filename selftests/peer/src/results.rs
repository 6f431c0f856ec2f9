// SPDX-License-Identifier: GPL-2.0

//! Calls that say where their results and replies are to go.

use super::bench::head;
use super::bench::inline;
use super::bench::is_err_chunk;
use super::bench::is_null_reply;
use super::bench::same;
use super::bench::split;
use super::bench::Bench;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::bench::PRIVATE;
use super::calls::cases;
use super::nfs;
use super::nfs::Operation;
use super::nfs::Results;
use super::pace::here;
use super::verbs::Access;
use super::verbs::Options;
use super::verbs::Region;
use super::wire;
use std::net::SocketAddrV4;
use std::time::Duration;

cases![
    adv45_many_empty_write_chunks,
    adv46_empty_write_chunk_requests_inline_result,
    adv47_write_chunk_of_four_gib,
    adv86_write_chunk_without_remote_write_access,
    adv88_result_longer_than_its_write_chunk,
    adv89_reply_longer_than_its_reply_chunk,
    adv90_reply_longer_than_the_inline_threshold,
    adv100_one_handle_in_two_lists,
    adv109_chunk_lists_that_fill_the_reply,
    long_reply_in_the_reply_chunk,
    n08_results_pair_with_write_chunks_in_order,
    n09_more_results_than_write_chunks,
    n10_failed_read_leaves_its_write_chunk_unused,
    n20_short_read_returns_actual_lengths,
    n21_empty_read_uses_up_its_write_chunk,
    s453_call_with_an_access_error_gets_err_chunk,
    s453_flushed_call_gets_no_error,
    pages_of_an_earlier_reply_are_not_sent,
];

/// What memory holds before a server writes to it.
const BLANK: u8 = 0xA5;

/// Memory that the server may write to.
fn target(bench: &Bench, length: usize) -> Result<Region, String> {
    let region = bench.connection.region(length, Access::Write);
    let region = region.map_err(|error| error.to_string())?;
    region.put(0, &vec![BLANK; length]);
    Ok(region)
}

/// `region` holds `data` and is blank behind.
fn got(region: &Region, data: &[u8]) -> Verdict {
    let mut expected = data.to_vec();
    expected.resize(region.len(), BLANK);
    same("memory", region.bytes(0, region.len()), expected)
}

fn read(offset: u32, count: u32) -> Operation<'static> {
    Operation::Read { offset, count }
}

/// `chunks` as a Write list.
fn into(chunks: &[&[Segment]]) -> Lists {
    Lists {
        write: chunks.iter().map(|chunk| chunk.to_vec()).collect(),
        ..Lists::default()
    }
}

fn adv45_many_empty_write_chunks(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let lists = into(&[&[][..]; 120]);
    let xid = bench.xid();
    let message = bench.message(xid, 0, &lists, &wire::null_call(xid));
    let reply = bench.ask(&message)?;
    if is_err_chunk(&reply, xid).is_err() {
        let (echo, payload) = inline(&reply.bytes)?;
        same("chunks", echo, lists.words())?;
        same("payload", payload, &wire::reply(xid, &[]))?;
    }
    bench.survives()
}

fn adv46_empty_write_chunk_requests_inline_result(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let (data, link) = (bench.read(0, 100)?, link(&bench)?);
    let region = target(&bench, 4096)?;
    let lists = into(&[&[], &[Segment::of(&region, 0, 4096)]]);
    let reply = bench.compound(&lists, &[read(0, 100), Operation::Readlink])?;
    let (echo, payload) = inline(&reply.bytes)?;
    let expected = into(&[&[], &[Segment::of(&region, 0, link.len())]]);
    same("chunks", echo, expected.words())?;
    let mut results = Results::new(payload)?;
    same("data", results.read()?, &data)?;
    same("link", results.readlink_reduced()? as usize, link.len())?;
    results.end()?;
    got(&region, &link)
}

fn adv47_write_chunk_of_four_gib(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = bench.read(0, 3000)?;
    let region = target(&bench, 8192)?;
    let half = Segment::of(&region, 0, 1 << 31);
    let reply = bench.compound(&into(&[&[half, half]]), &[read(0, 3000)])?;
    let (echo, payload) = inline(&reply.bytes)?;
    let used = Segment {
        length: 3000,
        ..half
    };
    let unused = Segment { length: 0, ..half };
    same("chunks", echo, into(&[&[used, unused]]).words())?;
    same("count", Results::new(payload)?.read_reduced()?, 3000)?;
    got(&region, &data)
}

fn adv86_write_chunk_without_remote_write_access(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let region = bench.connection.region(4096, Access::Read);
    let region = region.map_err(|error| error.to_string())?;
    region.put(0, &[BLANK; 4096]);
    let _ = bench.compound(&into(&[&[Segment::of(&region, 0, 4096)]]), &[read(0, 3000)]);
    bench.loses()?;
    got(&region, &[])?;
    Bench::new(server)?.survives()
}

fn adv88_result_longer_than_its_write_chunk(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let region = target(&bench, 8192)?;
    let xid = bench.xid();
    let call = super::nfs::compound(xid, &[read(0, 3000)]);
    let lists = into(&[&[Segment::of(&region, 0, 1000)]]);
    bench.refuses(&bench.message(xid, 0, &lists, &call.bytes))?;
    same("memory behind", region.bytes(1000, 7192), vec![BLANK; 7192])
}

/// A connection whose client says nothing of itself, and so takes 1,024 bytes.
fn plain(server: SocketAddrV4) -> Result<Bench, String> {
    let options = Options {
        receive_len: 1024,
        ..Options::default()
    };
    let bench = Bench::with(server, &options)?;
    bench.survives()?;
    Ok(bench)
}

/// A READ of 3,000 bytes with this Reply chunk, refused.
fn does_not_fit(bench: &Bench, reply: Option<Vec<Segment>>) -> Verdict {
    let xid = bench.xid();
    let call = super::nfs::compound(xid, &[read(0, 3000)]);
    let lists = Lists {
        reply,
        ..Lists::default()
    };
    bench.refuses(&bench.message(xid, 0, &lists, &call.bytes))
}

fn adv89_reply_longer_than_its_reply_chunk(server: SocketAddrV4) -> Verdict {
    let bench = plain(server)?;
    let region = target(&bench, 8192)?;
    does_not_fit(&bench, Some(vec![Segment::of(&region, 0, 64)]))?;
    same("memory behind", region.bytes(64, 8128), vec![BLANK; 8128])
}

fn adv90_reply_longer_than_the_inline_threshold(server: SocketAddrV4) -> Verdict {
    does_not_fit(&plain(server)?, None)
}

fn adv100_one_handle_in_two_lists(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data: Vec<_> = bench
        .read(8192, 512)?
        .iter()
        .map(|byte| byte ^ 0xFF)
        .collect();
    let region = bench.connection.region(1024, Access::Both);
    let region = region.map_err(|error| error.to_string())?;
    region.put(0, &data);
    let xid = bench.xid();
    let write = Operation::WriteReduced {
        offset: 8192,
        count: 512,
    };
    let call = super::nfs::compound(xid, &[write, read(8192, 512)]);
    let lists = Lists {
        read: vec![(call.positions[0], Segment::of(&region, 0, 512))],
        write: vec![vec![Segment::of(&region, 512, 512)]],
        reply: None,
    };
    let reply = bench.ask(&bench.message(xid, 0, &lists, &call.bytes))?;
    let (_, payload) = inline(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    same("written", results.written()?, 512)?;
    same("read", results.read_reduced()?, 512)?;
    same(
        "invalidated",
        reply.invalidates.unwrap_or(region.key()),
        region.key(),
    )?;
    same("what was read", region.bytes(512, 512), data)
}

fn adv109_chunk_lists_that_fill_the_reply(server: SocketAddrV4) -> Verdict {
    let bench = plain(server)?;
    let region = target(&bench, 4096)?;
    let xid = bench.xid();
    let lists = Lists {
        reply: Some(vec![Segment::of(&region, 0, 4096); 63]),
        ..Lists::default()
    };
    bench.refuses(&bench.message(xid, 0, &lists, &wire::null_call(xid)))
}

fn long_reply_in_the_reply_chunk(server: SocketAddrV4) -> Verdict {
    let bench = plain(server)?;
    let data = [bench.read(0, 700)?, bench.read(700, 700)?].concat();
    let region = target(&bench, 4096)?;
    let (one, two) = (
        Segment::of(&region, 0, 1000),
        Segment::of(&region, 1000, 3000),
    );
    let lists = Lists {
        reply: Some(vec![one, two]),
        ..Lists::default()
    };
    let reply = bench.compound(&lists, &[read(0, 1400)])?;
    let (procedure, echo, payload) = split(&reply.bytes)?;
    same("procedure", procedure, 1)?;
    same("inline payload", payload, &[][..])?;
    let [.., last] = echo[..] else {
        return Err("no chunks".into());
    };
    same("last word", last, two.address as u32)?;
    let length = 1000 + echo[echo.len() - 3] as usize;
    let message = region.bytes(0, length);
    let mut results = Results::new(&message)?;
    same("data", results.read()?, &data)?;
    results.end()?;
    same(
        "memory behind",
        region.bytes(length, 4096 - length),
        vec![BLANK; 4096 - length],
    )
}

/// The text of the link, without any chunk.
fn link(bench: &Bench) -> Result<Vec<u8>, String> {
    let reply = bench.compound(&Lists::default(), &[Operation::Readlink])?;
    let (_, payload) = inline(&reply.bytes)?;
    Results::new(payload)?.readlink().map(<[u8]>::to_vec)
}

fn n08_results_pair_with_write_chunks_in_order(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let (data, link) = (bench.read(0, 999)?, link(&bench)?);
    let (first, second) = (target(&bench, 1024)?, target(&bench, 1024)?);
    let chunks = |a, b| [[Segment::of(&first, 0, a)], [Segment::of(&second, 0, b)]];
    let [a, b] = chunks(1024, 1024);
    let reply = bench.compound(&into(&[&a, &b]), &[read(0, 999), Operation::Readlink])?;
    let (echo, payload) = inline(&reply.bytes)?;
    let [a, b] = chunks(999, link.len());
    same("chunks", echo, into(&[&a, &b]).words())?;
    let mut results = Results::new(payload)?;
    same("count", results.read_reduced()?, 999)?;
    same("length", results.readlink_reduced()? as usize, link.len())?;
    results.end()?;
    // No fill is written.
    got(&first, &data)?;
    got(&second, &link)
}

fn n09_more_results_than_write_chunks(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let (data, link) = (bench.read(0, 500)?, link(&bench)?);
    let region = target(&bench, 1024)?;
    let lists = into(&[&[Segment::of(&region, 0, 1024)]]);
    let reply = bench.compound(&lists, &[read(0, 500), Operation::Readlink])?;
    let (echo, payload) = inline(&reply.bytes)?;
    let used = into(&[&[Segment::of(&region, 0, 500)]]);
    same("chunks", echo, used.words())?;
    let mut results = Results::new(payload)?;
    same("count", results.read_reduced()?, 500)?;
    same("link", results.readlink()?, &link)?;
    results.end()?;
    got(&region, &data)
}

fn n10_failed_read_leaves_its_write_chunk_unused(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let region = target(&bench, 1024)?;
    let lists = into(&[&[Segment::of(&region, 0, 1024)]]);
    let reply = bench.compound(&lists, &[Operation::ReadOfNobody])?;
    let (echo, payload) = inline(&reply.bytes)?;
    same(
        "chunks",
        echo,
        into(&[&[Segment::of(&region, 0, 0)]]).words(),
    )?;
    same(
        "READ worked",
        Results::new(payload)?.read_reduced().is_ok(),
        false,
    )?;
    got(&region, &[])
}

fn n20_short_read_returns_actual_lengths(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = bench.read(65_000, 536)?;
    let region = target(&bench, 4096)?;
    let lists = into(&[&[
        Segment::of(&region, 0, 300),
        Segment::of(&region, 300, 3796),
    ]]);
    let reply = bench.compound(&lists, &[read(65_000, 4096)])?;
    let (echo, payload) = inline(&reply.bytes)?;
    let used = into(&[&[Segment::of(&region, 0, 300), Segment::of(&region, 300, 236)]]);
    same("chunks", echo, used.words())?;
    same("count", Results::new(payload)?.read_reduced()?, 536)?;
    got(&region, &data)
}

fn n21_empty_read_uses_up_its_write_chunk(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = bench.read(0, 500)?;
    let region = target(&bench, 1024)?;
    let chunk = |at, length| [Segment::of(&region, at, length)];
    let lists = into(&[&chunk(512, 512), &chunk(0, 512)]);
    let reply = bench.compound(&lists, &[read(1 << 20, 500), read(0, 500)])?;
    let (echo, payload) = inline(&reply.bytes)?;
    same(
        "chunks",
        echo,
        into(&[&chunk(512, 0), &chunk(0, 500)]).words(),
    )?;
    let mut results = Results::new(payload)?;
    same("first", results.read_reduced()?, 0)?;
    same("second", results.read_reduced()?, 500)?;
    results.end()?;
    got(&region, &data)
}

/// A call with memory in its lists that is not there any more, and the same with memory that is.
fn s453_call_with_an_access_error_gets_err_chunk(server: SocketAddrV4) -> Verdict {
    let write = Operation::WriteReduced {
        offset: 0,
        count: 3000,
    };
    for operation in [read(0, 3000), write] {
        let bench = Bench::new(server)?;
        let data = bench.read(0, 3000)?;
        let xid = bench.xid();
        let call = nfs::compound(xid, &[operation]);
        let message = |segment| {
            let lists = match call.positions.first() {
                Some(position) => Lists {
                    read: vec![(*position, segment)],
                    ..Lists::default()
                },
                None => into(&[&[segment]]),
            };
            bench.message(xid, 0, &lists, &call.bytes)
        };
        let gone = Segment::of(&target(&bench, 3000)?, 0, 3000);
        bench.send(&message(gone))?;
        bench.loses()?;
        // Once is enough.
        let again = Bench::new(server)?;
        again.refuses(&message(gone))?;
        // That was the answer to the call. The next is another one.
        let region = again.connection.region(3000, Access::Both);
        let region = region.map_err(|error| error.to_string())?;
        region.put(0, &data);
        let reply = again.ask(&message(Segment::of(&region, 0, 3000)))?;
        let [_, _, _, procedure] = head(&reply.bytes).ok_or("a short reply")?;
        same("procedure", procedure, 0)?;
        again.holds(0, &data)?;
    }
    Ok(())
}

/// A WRITE whose first Read is denied, so that its last one is only flushed, and a READ whose reply
/// stands behind that in the server's Send queue. Both are sent again.
fn s453_flushed_call_gets_no_error(server: SocketAddrV4) -> Verdict {
    let data = Bench::new(server)?.read(0, 3000)?;
    let options = Options {
        private: PRIVATE.to_vec(),
        late: true,
        ..Options::default()
    };
    let bench = Bench::with(server, &options)?;
    let (first, denied, innocent) = (bench.xid(), bench.xid(), bench.xid());
    let null = bench.message(first, 0, &Lists::default(), &wire::null_call(first));

    let call = nfs::compound(innocent, &[read(0, 3000)]);
    let reading = |region: &Region| {
        let lists = into(&[&[Segment::of(region, 0, 3000)]]);
        bench.message(innocent, 0, &lists, &call.bytes)
    };
    let region = target(&bench, 3000)?;

    let write = Operation::WriteReduced {
        offset: 0,
        count: 3000,
    };
    let call = nfs::compound(denied, &[write]);
    let rest = [(); 2].map(|()| bench.connection.region(1000, Access::Read));
    let mut parts = vec![Segment::of(&target(&bench, 1000)?, 0, 1000)];
    for region in &rest {
        let region = region.as_ref().map_err(|error| error.to_string())?;
        parts.push(Segment::of(region, 0, 1000));
    }
    let position = call.positions[0];
    let lists = Lists {
        read: parts.into_iter().map(|part| (position, part)).collect(),
        ..Lists::default()
    };
    let writing = bench.message(denied, 0, &lists, &call.bytes);

    // Nothing in the Send queue gets past the reply to the first, for which there is no Receive.
    for message in [&null, &writing, &reading(&region)] {
        bench.send(message)?;
        std::thread::sleep(here(Duration::from_millis(500)));
    }
    let posted = bench.connection.post_receives();
    posted.map_err(|error| error.to_string())?;
    is_null_reply(&bench.hear()?, first)?;
    bench.loses()?;

    let again = Bench::new(server)?;
    let region = target(&again, 3000)?;
    let reply = again.ask(&reading(&region))?;
    let (_, payload) = inline(&reply.bytes)?;
    same("count", Results::new(payload)?.read_reduced()?, 3000)?;
    got(&region, &data)?;
    again.refuses(&writing)?;
    again.holds(0, &data)
}

/// nfsd puts the data of a second READ in another page than it sends, and so sends what was in that one.
fn pages_of_an_earlier_reply_are_not_sent(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = bench.read(0, 900)?;
    let two = |first, second| bench.compound(&Lists::default(), &[read(0, first), read(0, second)]);
    // So often that each thread had its turn.
    for _ in 0..32 {
        // Too short to be sent from where it is, and not spliced, as there are two.
        two(900, 4)?;
        let reply = two(1, 500)?;
        let (_, payload) = inline(&reply.bytes)?;
        let mut results = Results::new(payload)?;
        results.read()?;
        let second = results.read()?;
        // The kernel fills a free page with zeros, or with the poison of `page_poison`. Should nfsd ever
        // be right, so is this.
        let nothing = [0, 0xAA].map(|fill| second.iter().all(|byte| *byte == fill));
        same(
            "nothing of another reply",
            nothing.contains(&true) || data.starts_with(second),
            true,
        )?;
    }
    Ok(())
}
