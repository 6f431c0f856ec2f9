// SPDX-License-Identifier: GPL-2.0

//! The DDP-eligible arguments: those that the Upper-Layer Binding of NFS names (RFC 8267), and no
//! others (RFC 8166, section 6.1).
// Argues for S6.1-10.
//!
//! A Responder does not decode a Call before all of it has arrived. But each of these arguments
//! follows its count word, and in an NFSv4 COMPOUND also an operation whose other arguments have a
//! fixed length. So the bytes before a Read chunk identify its content. In NFSv2 and NFSv3 the
//! number of bytes after the chunk does: file handles and names have a count word as well, but more
//! arguments follow them. A client gains nothing from a name that imitates an operation, because
//! the name is restored at its own Position.

/// ONC RPC program of NFS. Other programs have no binding, so none of their data is DDP-eligible.
const NFS: u32 = 100_003;

/// The operations that have such an argument, and the offset of its data in them.
const WRITE: u32 = 38;
const WRITE_LEN: usize = 36;
const CREATE: u32 = 6;
const SYMBOLIC_LINK: u32 = 5;
const CREATE_LEN: usize = 12;

/// Attributes of NFSv2, the last argument of its SYMLINK.
const SATTR_LEN: u64 = 32;

/// The DDP-eligible arguments of one procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Nothing.
    Nothing,
    /// The data of WRITE, the path of SYMLINK: the argument that this number of bytes follows.
    FollowedBy(u64),
    /// The data of each WRITE and the link text of each CREATE in a COMPOUND.
    Compound,
}

impl Binding {
    /// The length of the message before an argument that is needed.
    pub const MAX_LOOKBEHIND: usize = WRITE_LEN;

    /// Returns the binding for the Call that starts with `message`.
    pub fn of(message: &[u8]) -> Self {
        let word = |at: usize| {
            let (_, rest) = message.split_at_checked(at)?;
            rest.first_chunk().map(|word| u32::from_be_bytes(*word))
        };
        match (word(12), word(16), word(20)) {
            (Some(NFS), Some(2), Some(8)) => Self::FollowedBy(0),
            (Some(NFS), Some(2), Some(13)) => Self::FollowedBy(SATTR_LEN),
            (Some(NFS), Some(3), Some(7 | 10)) => Self::FollowedBy(0),
            (Some(NFS), Some(4), Some(1)) => Self::Compound,
            _ => Self::Nothing,
        }
    }

    /// Returns whether the Call that starts with `message` may have DDP-eligible results: the data
    /// of READ, the path of READLINK.
    pub fn has_results(message: &[u8]) -> bool {
        let [program, version, procedure] = [12, 16, 20].map(|at| {
            let (_, rest) = message.split_at_checked(at)?;
            rest.first_chunk().map(|word| u32::from_be_bytes(*word))
        });
        matches!(
            (program, version, procedure),
            (Some(NFS), Some(2 | 3), Some(5 | 6)) | (Some(NFS), Some(4), Some(1))
        )
    }

    /// Returns the length of the argument that follows the bytes `before`, if it is DDP-eligible.
    /// The last [`MAX_LOOKBEHIND`](Self::MAX_LOOKBEHIND) bytes before it are enough. `after` is how
    /// much of the message follows its chunk.
    pub fn argument(self, before: &[u8], after: u64) -> Option<usize> {
        let eligible = match self {
            Self::Nothing => false,
            Self::FollowedBy(last) => after == last,
            Self::Compound => {
                words_before::<WRITE_LEN>(before).is_some_and(|words| words[0] == WRITE)
                    || words_before::<CREATE_LEN>(before)
                        .is_some_and(|words| words == [CREATE, SYMBOLIC_LINK])
            }
        };
        let (_, count) = before.split_last_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*count)).ok()?;
        eligible.then_some(length)
    }
}

/// Returns the first two words of the last `LEN` bytes.
fn words_before<const LEN: usize>(before: &[u8]) -> Option<[u32; 2]> {
    let (_, last) = before.split_last_chunk::<LEN>()?;
    let (first, rest) = last.split_first_chunk()?;
    let second = rest.first_chunk()?;
    Some([u32::from_be_bytes(*first), u32::from_be_bytes(*second)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn binding(program: u32, version: u32, procedure: u32) -> Binding {
        Binding::of(&words(&[7, 0, 2, program, version, procedure, 0, 0]))
    }

    // Shows S3.4.2-01, S6-01, N-01.
    #[test]
    fn few_procedures_have_eligible_arguments() {
        assert_eq!(binding(NFS, 2, 8), Binding::FollowedBy(0));
        assert_eq!(binding(NFS, 2, 13), Binding::FollowedBy(32));
        assert_eq!(binding(NFS, 3, 7), Binding::FollowedBy(0));
        assert_eq!(binding(NFS, 3, 10), Binding::FollowedBy(0));
        assert_eq!(binding(NFS, 4, 1), Binding::Compound);
        for (version, procedure) in [(2, 7), (3, 1), (3, 8), (3, 13), (4, 0), (5, 1)] {
            assert_eq!(binding(NFS, version, procedure), Binding::Nothing);
        }
        assert_eq!(binding(NFS + 1, 3, 7), Binding::Nothing);
        assert_eq!(binding(100_227, 3, 2), Binding::Nothing);
        assert_eq!(
            Binding::of(&words(&[7, 0, 2, NFS, 3, 7])[..23]),
            Binding::Nothing
        );
    }

    #[test]
    fn few_procedures_have_eligible_results() {
        let has = |program, version, procedure| {
            Binding::has_results(&words(&[7, 0, 2, program, version, procedure]))
        };
        for (version, procedure) in [(2, 5), (2, 6), (3, 5), (3, 6), (4, 1)] {
            assert!(has(NFS, version, procedure));
        }
        for (version, procedure) in [(2, 0), (3, 0), (3, 7), (4, 0), (5, 1)] {
            assert!(!has(NFS, version, procedure));
        }
        assert!(!has(NFS + 1, 3, 6));
        assert!(!Binding::has_results(&[]));
    }

    #[test]
    fn count_word_tells_the_length() {
        let before = words(&[1, 2, 500]);
        assert_eq!(Binding::FollowedBy(0).argument(&before, 0), Some(500));
        assert_eq!(Binding::FollowedBy(0).argument(&before[..3], 0), None);
        assert_eq!(Binding::Nothing.argument(&before, 0), None);
    }

    #[test]
    fn argument_with_more_behind_it_is_another() {
        let before = words(&[1, 2, 30]);
        assert_eq!(Binding::FollowedBy(0).argument(&before, 4), None);
        assert_eq!(Binding::FollowedBy(32).argument(&before, 32), Some(30));
        assert_eq!(Binding::FollowedBy(32).argument(&before, 0), None);
    }

    // Shows S3.4.2-01, S3.4.4.3-01, S3.4.4.3-02.
    #[test]
    fn operation_tells_what_is_at_a_position() {
        let compound = |before: &[u32]| Binding::Compound.argument(&words(before), 4);
        let write = [9, WRITE, 1, 2, 3, 4, 0, 0, 2, 1000];
        assert_eq!(compound(&write), Some(1000));
        assert_eq!(compound(&write[1..]), Some(1000));
        assert_eq!(compound(&write[2..]), None);
        assert_eq!(compound(&[9, CREATE, SYMBOLIC_LINK, 30]), Some(30));
        assert_eq!(compound(&[9, CREATE, SYMBOLIC_LINK + 1, 30]), None);
        assert_eq!(compound(&[9, CREATE + 1, SYMBOLIC_LINK, 30]), None);
        // LOOKUP and its name.
        assert_eq!(compound(&[22, 4, 0x1234_5678, 15, 4]), None);
    }
}
