// SPDX-License-Identifier: GPL-2.0

//! The fabric between the ends: two queues of Sends, and the client's registered memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeTo;

use proto::chunk::Segment;

use super::choices::Choices;

/// The Responder's access to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

#[derive(Debug)]
struct Region {
    access: Access,
    offset: u64,
    bytes: Vec<u8>,
}

impl Region {
    /// Returns the part of the region that `segment` names.
    fn reach(&self, segment: &Segment, access: Access) -> RangeTo<usize> {
        assert_eq!(self.access, access);
        assert_eq!(self.offset, segment.offset);
        let length = usize::try_from(segment.length).unwrap();
        assert!(length <= self.bytes.len(), "beyond the region");
        ..length
    }
}

/// A queue of Sends in one direction of the connection.
#[derive(Debug, Default)]
pub struct Queue {
    /// Sends on their way.
    sends: VecDeque<Vec<u8>>,
    /// Receives posted at the far end.
    receives: u32,
    /// Length of those Receives.
    receive_len: usize,
}

impl Queue {
    pub fn post_receives(&mut self, count: u32) {
        self.receives += count;
    }

    pub fn send(&mut self, message: Vec<u8>) {
        assert!(message.len() <= self.receive_len, "longer than a Receive");
        self.sends.push_back(message);
    }

    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let message = self.sends.pop_front()?;
        let left = self.receives.checked_sub(1);
        self.receives = left.expect("a Send found no Receive");
        Some(message)
    }
}

/// The fabric, and the memory at the client's end that it can access.
#[derive(Debug, Default)]
pub struct Fabric {
    pub connected: bool,
    pub to_server: Queue,
    pub to_client: Queue,
    regions: BTreeMap<u32, Region>,
    handles: u32,
}

impl Fabric {
    /// Creates a new connection between ends with these buffers.
    pub fn connect(&mut self, server_receives: usize, client_receives: usize) {
        self.connected = true;
        self.to_server = Queue {
            receive_len: server_receives,
            ..Queue::default()
        };
        self.to_client = Queue {
            receive_len: client_receives,
            ..Queue::default()
        };
    }

    /// Breaks the connection. Sends in flight are lost.
    pub fn disconnect(&mut self) {
        self.connected = false;
        self.to_server = Queue::default();
        self.to_client = Queue::default();
    }

    /// Registers `bytes` as a chunk of up to `segments` segments, cut anywhere.
    pub fn register(
        &mut self,
        choices: &mut impl Choices,
        access: Access,
        bytes: &[u8],
        segments: usize,
    ) -> Vec<Segment> {
        let count = 1 + choices.below(segments);
        let mut rest = bytes;
        let mut chunk = Vec::new();
        for left in (0..count).rev() {
            let length = match left {
                0 => rest.len(),
                _ => choices.below(rest.len() + 1),
            };
            let (bytes, tail) = rest.split_at(length);
            rest = tail;
            self.handles += 1;
            let offset = u64::try_from(choices.below(1 << 40)).unwrap();
            let region = Region {
                access,
                offset,
                bytes: bytes.to_vec(),
            };
            self.regions.insert(self.handles, region);
            chunk.push(Segment {
                handle: self.handles,
                length: u32::try_from(length).unwrap(),
                offset,
            });
        }
        chunk
    }

    /// Deregisters the memory of a chunk, and returns its first `length` bytes.
    pub fn invalidate(&mut self, chunk: &[Segment], length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in chunk {
            let region = self.regions.remove(&segment.handle);
            bytes.extend_from_slice(&region.expect("registered once").bytes);
        }
        bytes.truncate(length);
        bytes
    }

    /// Returns whether nothing is registered.
    pub fn is_fenced(&self) -> bool {
        self.regions.is_empty()
    }

    /// Reads by RDMA.
    pub fn read(&self, segment: &Segment) -> &[u8] {
        let region = self.regions.get(&segment.handle);
        let region = region.expect("access to memory that is not registered");
        &region.bytes[region.reach(segment, Access::Read)]
    }

    /// Writes `bytes` by RDMA over `segments`, which are as long together, in any order.
    pub fn write(&mut self, choices: &mut impl Choices, segments: &[Segment], mut bytes: &[u8]) {
        let mut writes = Vec::new();
        for segment in segments {
            let (head, rest) = bytes.split_at(usize::try_from(segment.length).unwrap());
            bytes = rest;
            // A zero-length write needs no valid handle; do not post one.
            if !head.is_empty() {
                writes.push((segment, head));
            }
        }
        assert!(bytes.is_empty(), "bytes without a place");
        while !writes.is_empty() {
            let (segment, bytes) = writes.swap_remove(choices.below(writes.len()));
            let region = self.regions.get_mut(&segment.handle);
            let region = region.expect("access to memory that is not registered");
            let reach = region.reach(segment, Access::Write);
            region.bytes[reach].copy_from_slice(bytes);
        }
    }
}
