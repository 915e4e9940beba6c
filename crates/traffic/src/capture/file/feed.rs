//! Reads bytes in pieces, each with free space before it.
//!
//! ```text
//!  0                      HEADROOM_BYTES                end
//!  ├──────────┬───────────┼──────────────────────────────┼────────┤
//!  │ unused   │ rest of a │ bytes as the reader gave them │ unused │
//!  │          │  record   │                              │        │
//!  └──────────┴───────────┴──────────────────────────────┴────────┘
//! ```
//!
//! A record that crosses from one piece to the next is completed in the free space of the second
//! piece, so only its first part is copied.

use std::io::{self, Read};

/// Free space before the bytes of a piece. It suffices for the first part of all but the longest
/// records.
pub(crate) const HEADROOM_BYTES: usize = 64 << 10;
/// Maximum number of bytes in one piece. Several pieces fit into a second-level cache.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Maximum number of bytes in one piece when many files are read at the same time.
pub(crate) const SMALL_PIECE_BYTES: usize = 64 << 10;

/// A buffer with bytes of the unpacked file.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Always [`HEADROOM_BYTES`] + [`PIECE_BYTES`] long, so that no buffer is cleared between two
    /// uses.
    pub(crate) buffer: Vec<u8>,
    /// The beginning of the bytes. The space before them may be overwritten.
    pub(crate) start: usize,
    /// The end of the bytes.
    pub(crate) end: usize,
}

/// Returns a buffer for a piece.
pub(crate) fn new_buffer() -> Vec<u8> {
    vec![0; HEADROOM_BYTES + PIECE_BYTES]
}

/// Returns a buffer for a small piece.
pub(crate) fn new_small_buffer() -> Vec<u8> {
    vec![0; HEADROOM_BYTES + SMALL_PIECE_BYTES]
}

/// Returns whether a buffer comes from [`new_buffer`] or [`new_small_buffer`].
pub(crate) fn is_piece_buffer(buffer: &[u8]) -> bool {
    [PIECE_BYTES, SMALL_PIECE_BYTES].contains(&buffer.len().wrapping_sub(HEADROOM_BYTES))
}

/// The result of reading a piece.
#[derive(Debug)]
pub(crate) enum Fed {
    /// The next bytes, at least one.
    Piece(Piece),
    /// The reader has no bytes now. The buffer comes back.
    Silent(Vec<u8>),
    /// The reader has ended.
    End,
    /// Reading failed. The bytes before the failure were returned.
    Error(io::Error),
}

/// How much of a buffer a feed fills before it returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// The whole buffer if possible; for files.
    Whole,
    /// The result of one read, so that bytes from a pipe do not wait for the rest of a piece.
    OneRead,
}

/// Reads pieces.
pub(crate) struct Feed {
    reader: Box<dyn Read + Send>,
    filling: Filling,
    /// The reader's error or end after its last bytes.
    last_word: Option<io::Result<()>>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("filling", &self.filling).finish_non_exhaustive()
    }
}

impl Feed {
    pub(crate) fn new(reader: Box<dyn Read + Send>, filling: Filling) -> Self {
        Self { reader, filling, last_word: None }
    }

    /// Reads the next piece into `buffer`, which must come from [`new_buffer`] or
    /// [`new_small_buffer`].
    pub(crate) fn fill(&mut self, mut buffer: Vec<u8>) -> Fed {
        let (start, mut end) = (HEADROOM_BYTES, HEADROOM_BYTES);
        while self.last_word.is_none() && end < buffer.len() {
            match self.reader.read(&mut buffer[end..]) {
                Ok(0) => self.last_word = Some(Ok(())),
                Ok(bytes) => {
                    end += bytes;
                    if self.filling == Filling::OneRead {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if end == start {
                        return Fed::Silent(buffer);
                    }
                    break;
                }
                Err(error) => self.last_word = Some(Err(error)),
            }
        }
        if end > start {
            return Fed::Piece(Piece { buffer, start, end });
        }
        match self.last_word.replace(Ok(())) {
            Some(Err(error)) => Fed::Error(error),
            Some(Ok(())) | None => Fed::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each part in one read, then the end.
    struct Parts(std::vec::IntoIter<io::Result<Vec<u8>>>);

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let part = self.0.next().unwrap_or(Ok(Vec::new()))?;
            buffer[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        }
    }

    fn feed(parts: Vec<io::Result<Vec<u8>>>, filling: Filling) -> Feed {
        Feed::new(Box::new(Parts(parts.into_iter())), filling)
    }

    fn bytes(fed: Fed) -> Vec<u8> {
        match fed {
            Fed::Piece(piece) => piece.buffer[piece.start..piece.end].to_vec(),
            other => panic!("no piece: {other:?}"),
        }
    }

    #[test]
    fn error_is_returned_once_after_the_bytes_before_it() {
        let error = || Err(io::Error::other("bad"));
        for filling in [Filling::Whole, Filling::OneRead] {
            let mut feed = feed(vec![Ok(vec![1]), error()], filling);
            assert_eq!(bytes(feed.fill(new_buffer())), [1]);
            assert!(matches!(feed.fill(new_buffer()), Fed::Error(error) if error.to_string() == "bad"));
            assert!(matches!(feed.fill(new_buffer()), Fed::End));
            assert!(matches!(feed.fill(new_buffer()), Fed::End));
        }
    }

    #[test]
    fn a_piece_is_filled_by_many_reads_or_by_one() {
        let parts = || vec![Ok(vec![1, 2]), Err(io::ErrorKind::Interrupted.into()), Ok(vec![3])];
        let mut whole = feed(parts(), Filling::Whole);
        assert_eq!(bytes(whole.fill(new_buffer())), [1, 2, 3]);
        assert!(matches!(whole.fill(new_buffer()), Fed::End));
        let mut one = feed(parts(), Filling::OneRead);
        assert_eq!((bytes(one.fill(new_buffer())), bytes(one.fill(new_buffer()))), (vec![1, 2], vec![3]));
        assert!(matches!(one.fill(new_buffer()), Fed::End));
    }

    #[test]
    fn silence_differs_from_end_of_file_and_follows_earlier_bytes() {
        let silent = || Err(io::ErrorKind::WouldBlock.into());
        let mut feed = feed(vec![silent(), Ok(vec![1]), silent(), silent(), Ok(vec![2])], Filling::Whole);
        assert!(matches!(feed.fill(new_buffer()), Fed::Silent(buffer) if is_piece_buffer(&buffer)));
        assert_eq!(bytes(feed.fill(new_buffer())), [1]);
        assert!(matches!(feed.fill(new_buffer()), Fed::Silent(_)));
        assert_eq!(bytes(feed.fill(new_buffer())), [2]);
        assert!(matches!(feed.fill(new_buffer()), Fed::End));
    }
}
