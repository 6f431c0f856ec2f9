// SPDX-License-Identifier: GPL-2.0

//! NFSv4.0 compounds on one file, with the special stateids that need no OPEN.

use crate::wire::words;

/// The file that all compounds are on; selftests/vm/peer.sh makes it.
pub const FILE: &str = "peer.dat";

/// A symbolic link in the same directory.
pub const LINK: &str = "peer.link";

/// An operation of a compound on [`FILE`].
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    Read {
        offset: u32,
        count: u32,
    },
    Write {
        offset: u32,
        data: &'a [u8],
    },
    /// A WRITE whose data are in a Read chunk: only their count is in the Payload stream.
    WriteReduced {
        offset: u32,
        count: u32,
    },
    /// A READ with an unknown stateid, which fails.
    ReadWithBadStateid,
    /// A READLINK of [`LINK`]. (A second READ would not do: nfsd returns zeros for it.)
    Readlink,
    /// A LOOKUP whose name, which is not DDP-eligible, is in a Read chunk.
    LookupReduced {
        count: u32,
    },
}

/// A READ of `count` bytes at `offset`.
pub fn read(offset: u32, count: u32) -> Operation<'static> {
    Operation::Read { offset, count }
}

/// A WRITE of `data` at `offset`.
pub fn write(offset: u32, data: &[u8]) -> Operation<'_> {
    Operation::Write { offset, data }
}

/// A WRITE of `count` bytes at `offset`, whose data are in a Read chunk.
pub fn write_reduced(offset: u32, count: u32) -> Operation<'static> {
    Operation::WriteReduced { offset, count }
}

/// A Call with a compound.
pub struct Compound {
    /// The RPC message.
    pub bytes: Vec<u8>,
    /// The Position of the data of each reduced operation.
    pub positions: Vec<u32>,
}

const PUTROOTFH: u32 = 24;
const LOOKUP: u32 = 15;
const READ: u32 = 25;
const READLINK: u32 = 27;
const WRITE: u32 = 38;

/// A compound of a lookup of [`FILE`] and `operations`.
pub fn compound(xid: u32, operations: &[Operation<'_>]) -> Compound {
    padded_compound(xid, operations, 0)
}

/// As [`compound`], with XDR padding of this value.
pub fn padded_compound(xid: u32, operations: &[Operation<'_>], padding: u8) -> Compound {
    // AUTH_SYS of root, with an empty machine name.
    let mut bytes = words([xid, 0, 2, 100_003, 4, 1, 1, 20, 0, 0, 0, 0, 0, 0, 0]);
    let each = operations.iter().map(|operation| match operation {
        Operation::Readlink => 3,
        _ => 1,
    });
    let count = 2 + each.sum::<u32>();
    bytes.extend(words([0, 0, count, PUTROOTFH, LOOKUP]));
    opaque(&mut bytes, FILE.as_bytes(), padding);
    let mut positions = Vec::new();
    let mut reduced = 0;
    let mut reduce = |bytes: &[u8], count: u32| {
        positions.push(u32::try_from(bytes.len()).expect("a short message") + reduced);
        reduced += count.next_multiple_of(4);
    };
    for operation in operations {
        match *operation {
            Operation::Read { offset, count } => {
                bytes.extend(words([READ, 0, 0, 0, 0, 0, offset, count]));
            }
            Operation::ReadWithBadStateid => {
                bytes.extend(words([READ, 7, 7, 7, 7, 0, 0, 100]));
            }
            Operation::Readlink => {
                bytes.extend(words([PUTROOTFH, LOOKUP]));
                opaque(&mut bytes, LINK.as_bytes(), padding);
                bytes.extend(words([READLINK]));
            }
            Operation::Write { offset, data } => {
                bytes.extend(words([WRITE, 0, 0, 0, 0, 0, offset, 2]));
                opaque(&mut bytes, data, padding);
            }
            Operation::WriteReduced { offset, count } => {
                bytes.extend(words([WRITE, 0, 0, 0, 0, 0, offset, 2, count]));
                reduce(&bytes, count);
            }
            Operation::LookupReduced { count } => {
                bytes.extend(words([LOOKUP, count]));
                reduce(&bytes, count);
            }
        }
    }
    Compound { bytes, positions }
}

fn opaque(bytes: &mut Vec<u8>, data: &[u8], padding: u8) {
    bytes.extend(words([u32::try_from(data.len()).expect("short data")]));
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), padding);
}

/// Parses the reply to a compound, from its start to its end.
pub struct Results<'a>(&'a [u8]);

impl<'a> Results<'a> {
    /// The results after the RPC header of `message` and the lookup. An error if the call was not
    /// accepted or the lookup failed.
    pub fn new(message: &'a [u8]) -> Result<Self, String> {
        let mut results = Self(message);
        results.word()?; // The XID, which the caller has compared.
        let header = results.words::<5>()?;
        if header != [1, 0, 0, 0, 0] {
            return Err(format!("not accepted with success: {header:x?}"));
        }
        results.words::<3>()?; // Status, tag, number of results.
        results.operation(PUTROOTFH)?;
        results.operation(LOOKUP)?;
        Ok(results)
    }

    fn word(&mut self) -> Result<u32, String> {
        self.words::<1>().map(|[word]| word)
    }

    fn words<const N: usize>(&mut self) -> Result<[u32; N], String> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u32::from_be_bytes(self.take(4)?.try_into().expect("four bytes"));
        }
        Ok(words)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or("the reply is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn operation(&mut self, number: u32) -> Result<(), String> {
        match self.words()? {
            [operation, 0] if operation == number => Ok(()),
            other => Err(format!(
                "operation and status {other:?}, not {number} and 0"
            )),
        }
    }

    /// The count of a READ whose data are in a Write chunk.
    pub fn read_reduced(&mut self) -> Result<u32, String> {
        self.operation(READ)?;
        let [_end_of_file, count] = self.words()?;
        Ok(count)
    }

    /// The data of a READ.
    pub fn read(&mut self) -> Result<&'a [u8], String> {
        let count = self.read_reduced()? as usize;
        self.opaque(count)
    }

    /// The length of a link whose text is in a Write chunk.
    pub fn readlink_reduced(&mut self) -> Result<u32, String> {
        self.operation(PUTROOTFH)?;
        self.operation(LOOKUP)?;
        self.operation(READLINK)?;
        self.word()
    }

    /// The text of a link.
    pub fn readlink(&mut self) -> Result<&'a [u8], String> {
        let count = self.readlink_reduced()? as usize;
        self.opaque(count)
    }

    fn opaque(&mut self, count: usize) -> Result<&'a [u8], String> {
        let data = self.take(count)?;
        self.take(count.next_multiple_of(4) - count)?;
        Ok(data)
    }

    /// How many bytes a WRITE wrote.
    pub fn written(&mut self) -> Result<u32, String> {
        self.operation(WRITE)?;
        let [count, _committed, _, _] = self.words()?;
        Ok(count)
    }

    /// Expects that there are no more results.
    pub fn end(self) -> Result<(), String> {
        match self.0 {
            [] => Ok(()),
            rest => Err(format!("{} bytes after the last result", rest.len())),
        }
    }
}
