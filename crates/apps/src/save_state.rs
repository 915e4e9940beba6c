//! Flow states as bytes, for parts of an input that are saved in files.

use flowloom_engine::FlowState;

/// A flow state with an encoding of a fixed number of bytes, the same on every machine.
pub trait SaveState: FlowState {
    /// The number of bytes of the encoding.
    const BYTES: usize;

    /// Appends the encoding.
    fn save(&self, out: &mut Vec<u8>);

    /// Decodes [`BYTES`](Self::BYTES) bytes. Returns `None` if they are not a valid encoding.
    fn load(bytes: &[u8]) -> Option<Self>;
}

/// Reads little-endian words from the beginning of `bytes`.
pub(crate) fn words<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (head, rest) = bytes.split_at_checked(8 * N)?;
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(head.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some((words, rest))
}

/// Appends words in little-endian order.
pub(crate) fn put(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}
