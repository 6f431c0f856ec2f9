// SPDX-License-Identifier: GPL-2.0

//! The few NFS calls that carry chunks: NFSv4.0 compounds on one file, with stateids that need no
//! OPEN.

use super::wire::words;

/// The file that all work on; the test makes it.
pub const FILE: &str = "peer.dat";

/// A symbolic link beside it.
pub const LINK: &str = "peer.link";

/// What a compound does to [`FILE`].
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
    /// The count word of the data alone: the data come by Read chunk.
    WriteReduced {
        offset: u32,
        count: u32,
    },
    /// A READ with a stateid that nobody was given.
    ReadOfNobody,
    /// A READLINK of [`LINK`]. (The data of a second READ would be zeros, by nfsd's own fault.)
    Readlink,
    /// An operation whose argument may not leave the message, its name cut off behind the count.
    LookupReduced {
        count: u32,
    },
}

/// A compound, and where in it the data of each reduced operation belong.
pub struct Compound {
    /// The RPC message.
    pub bytes: Vec<u8>,
    /// Positions, counted as if nothing had left.
    pub positions: Vec<u32>,
}

const PUTROOTFH: u32 = 24;
const LOOKUP: u32 = 15;
const READ: u32 = 25;
const READLINK: u32 = 27;
const WRITE: u32 = 38;

/// Puts `operations` behind a lookup of [`FILE`].
pub fn compound(xid: u32, operations: &[Operation<'_>]) -> Compound {
    filled_compound(xid, operations, 0)
}

/// As [`compound`], with fill octets of this value.
pub fn filled_compound(xid: u32, operations: &[Operation<'_>], fill: u8) -> Compound {
    // AUTH_SYS of root on a machine without a name.
    let mut bytes = words([xid, 0, 2, 100_003, 4, 1, 1, 20, 0, 0, 0, 0, 0, 0, 0]);
    let each = operations.iter().map(|operation| match operation {
        Operation::Readlink => 3,
        _ => 1,
    });
    let count = 2 + each.sum::<u32>();
    bytes.extend(words([0, 0, count, PUTROOTFH, LOOKUP]));
    opaque(&mut bytes, FILE.as_bytes(), fill);
    let mut positions = Vec::new();
    let mut left = 0;
    let mut reduce = |bytes: &[u8], count: u32| {
        positions.push(u32::try_from(bytes.len()).expect("a short message") + left);
        left += count.next_multiple_of(4);
    };
    for operation in operations {
        match *operation {
            Operation::Read { offset, count } => {
                bytes.extend(words([READ, 0, 0, 0, 0, 0, offset, count]));
            }
            Operation::ReadOfNobody => {
                bytes.extend(words([READ, 7, 7, 7, 7, 0, 0, 100]));
            }
            Operation::Readlink => {
                bytes.extend(words([PUTROOTFH, LOOKUP]));
                opaque(&mut bytes, LINK.as_bytes(), fill);
                bytes.extend(words([READLINK]));
            }
            Operation::Write { offset, data } => {
                bytes.extend(words([WRITE, 0, 0, 0, 0, 0, offset, 2]));
                opaque(&mut bytes, data, fill);
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

fn opaque(bytes: &mut Vec<u8>, data: &[u8], fill: u8) {
    bytes.extend(words([u32::try_from(data.len()).expect("short data")]));
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), fill);
}

/// Reads the reply to a compound, from its start to its end.
pub struct Results<'a>(&'a [u8]);

impl<'a> Results<'a> {
    /// The results behind the RPC header of `message` and behind the lookup. What is wrong, if
    /// this is not the reply to a compound of which at least that much succeeded.
    pub fn new(message: &'a [u8]) -> Result<Self, String> {
        let mut results = Self(message);
        results.word()?; // The transaction, which the caller has matched.
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
            .ok_or("the reply ends too soon")?;
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

    /// The count of a READ whose data left the message.
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

    /// The length of a link whose text left the message.
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

    /// There is nothing more.
    pub fn end(self) -> Result<(), String> {
        match self.0 {
            [] => Ok(()),
            rest => Err(format!("{} bytes behind the last result", rest.len())),
        }
    }
}
