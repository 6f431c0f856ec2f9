// SPDX-License-Identifier: GPL-2.0

//! The smallest NFSv3 server that the kernel mounts: one directory with one file and symbolic links, and MOUNT over TCP.

use crate::wire::words;
use std::io::Read;
use std::io::Result;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::OnceLock;

/// The name of the file. A LOOKUP of any name finds this file, unless it is that of a link.
pub const NAME: &str = "file";

/// The target of each symbolic link.
pub const TARGET: &str = "file";

/// The name of a symbolic link, one of up to a hundred.
pub fn link_name(number: usize) -> String {
    format!("link{number:02}")
}

/// The length of the file in bytes.
pub const LENGTH: usize = 16_384;

/// Entries that READDIR returns: more than fit into an inline reply.
const ENTRIES: u64 = 60;

/// NFSv3 procedures.
#[allow(missing_docs)]
pub mod procedure {
    pub const NULL: u32 = 0;
    pub const GETATTR: u32 = 1;
    pub const SETATTR: u32 = 2;
    pub const LOOKUP: u32 = 3;
    pub const ACCESS: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const READ: u32 = 6;
    pub const WRITE: u32 = 7;
    pub const READDIR: u32 = 16;
    pub const FSSTAT: u32 = 18;
    pub const FSINFO: u32 = 19;
    pub const PATHCONF: u32 = 20;
    pub const COMMIT: u32 = 21;
}
use procedure::*;

/// The data of the file.
pub fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// The name of an entry: eight digits.
fn entry_name(entry: u64) -> String {
    format!("{entry:08}")
}

/// The names of all entries, one after the other.
pub fn entry_names() -> Vec<u8> {
    (1..=ENTRIES)
        .flat_map(|entry| entry_name(entry).into_bytes())
        .collect()
}

const ROOT: [u8; 32] = [1; 32];
const FILE: [u8; 32] = [2; 32];

/// The first byte of the handle of a symbolic link. The others are those of its number.
const LINK: u8 = 3;

/// The handle that a LOOKUP of `name` finds.
fn look_up(name: &[u8]) -> [u8; 32] {
    let mut handle = FILE;
    if let Some(number) = name
        .strip_prefix(b"link")
        .and_then(<[u8]>::first_chunk::<2>)
    {
        handle = [LINK; 32];
        handle[30..].copy_from_slice(number);
    }
    handle
}

fn attributes(handle: &[u8]) -> Vec<u32> {
    let (kind, mode, length, id) = match handle {
        [LINK, .., tens, ones] => {
            let id = u32::from_be_bytes([0, LINK, *tens, *ones]);
            (5, 0o777, TARGET.len() as u32, id)
        }
        handle if handle == ROOT => (2, 0o755, 4096, 1),
        _ => (1, 0o666, LENGTH as u32, 2),
    };
    let mut words = vec![
        kind, mode, 1, 0, 0, 0, length, 0, length, 0, 0, 0, 99, 0, id,
    ];
    words.extend([1_700_000_000, 0].repeat(3));
    words
}

/// The results of a procedure. The DDP-eligible data item is the last one.
pub struct Results {
    /// Status and all that follows, up to the data.
    pub inline: Vec<u8>,
    /// The data of a READ.
    pub data: Option<Vec<u8>>,
}

/// Carries out a call with these arguments.
pub fn call(procedure: u32, arguments: &[u8]) -> Results {
    let handle = arguments.get(4..36).unwrap_or(&ROOT);
    let word = |at: usize| {
        let bytes = arguments
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        u32::from_be_bytes(bytes.unwrap_or_default())
    };
    let known = |handle: &[u8]| {
        let mut words = vec![1];
        words.extend(attributes(handle));
        words
    };
    let mut data = None;
    let result = match procedure {
        NULL => vec![],
        GETATTR => [vec![0], attributes(handle)].concat(),
        SETATTR => vec![0, 0, 0],
        LOOKUP => {
            let found = look_up(arguments.get(40..).unwrap_or_default());
            let mut result = vec![0, 32];
            result.extend((0..32).step_by(4).map(|at| {
                let word = found[at..at + 4].try_into().expect("four bytes");
                u32::from_be_bytes(word)
            }));
            [result, known(&found), known(&ROOT)].concat()
        }
        ACCESS => [vec![0], known(handle), vec![word(36)]].concat(),
        READLINK => {
            let target = TARGET.as_bytes().try_into().expect("four bytes");
            [vec![0], known(handle), vec![4, u32::from_be_bytes(target)]].concat()
        }
        READ => {
            // The upper half of the offset is always zero.
            let start = (word(40) as usize).min(LENGTH);
            let end = (start + word(44) as usize).min(LENGTH);
            let count = (end - start) as u32;
            let at_end = u32::from(end == LENGTH);
            data = Some(content()[start..end].to_vec());
            [vec![0], known(handle), vec![count, at_end, count]].concat()
        }
        WRITE => vec![0, 0, 0, word(44), 2, 1, 1],
        COMMIT => vec![0, 0, 0, 1, 1],
        READDIR => {
            let mut result = [vec![0], known(handle), vec![0, 1]].concat();
            for entry in 1..=ENTRIES {
                let name = entry_name(entry).into_bytes();
                let half = |at: usize| name[at..at + 4].try_into().expect("four bytes");
                let name = [half(0), half(4)].map(u32::from_be_bytes);
                result.extend([
                    1,
                    0,
                    entry as u32 + 10,
                    8,
                    name[0],
                    name[1],
                    0,
                    entry as u32,
                ]);
            }
            [result, vec![0, 1]].concat()
        }
        FSSTAT => [vec![0], known(handle), vec![1; 13]].concat(),
        FSINFO => {
            let size = 65_536;
            let sizes = vec![
                size,
                size,
                4096,
                size,
                size,
                4096,
                8192,
                0,
                u32::MAX,
                0,
                1,
                0x1B,
            ];
            [vec![0], known(handle), sizes].concat()
        }
        PATHCONF => [vec![0], known(handle), vec![1, 255, 1, 1, 0, 1]].concat(),
        // NFS3ERR_NOTSUPP without attributes.
        _ => vec![10_004, 0],
    };
    Results {
        inline: words(result),
        data,
    }
}

/// Serves MOUNT over TCP on `port`, in threads that do not end. Later calls do nothing.
pub fn serve_mount(port: u16) -> Result<()> {
    static STARTED: OnceLock<()> = OnceLock::new();
    if STARTED.set(()).is_err() {
        return Ok(());
    }
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_connection(stream));
        }
    });
    Ok(())
}

fn serve_connection(mut stream: TcpStream) -> Result<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut record = vec![0; (u32::from_be_bytes(length) & 0x7FFF_FFFF) as usize];
        stream.read_exact(&mut record)?;
        let word = |index: usize| record.get(4 * index..4 * index + 4).unwrap_or(&[0; 4]);
        let mut reply = word(0).to_vec();
        reply.extend(words([1, 0, 0, 0, 0]));
        // MNT returns the handle of the root and that AUTH_SYS is accepted. NULL and UMNT have no results.
        if word(5) == [0, 0, 0, 1] {
            reply.extend(words([0, 32]));
            reply.extend(ROOT);
            reply.extend(words([1, 1]));
        }
        let length = reply.len() as u32 | 0x8000_0000;
        stream.write_all(&[&length.to_be_bytes()[..], &reply].concat())?;
    }
}
