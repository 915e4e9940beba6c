//! Encoded records that have not reached their destination yet.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "parquet")]
use flowloom_export::ParquetFile;

/// Bytes in memory, which writers of formats fill and a [target](super::target::Target) takes.
///
/// A writer of a format never sees an error of the destination, after which its state would be
/// unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldBytes(Arc<Mutex<Held>>);

/// The bytes, and their place in the destination.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    /// The position of the first byte in a file. It decreases when a format replaces its end.
    pub(super) start: u64,
    /// Whether a format may replace the end of the destination.
    pub(super) can_rewind: bool,
}

impl HeldBytes {
    pub(super) fn new(can_rewind: bool) -> Self {
        Self(Arc::new(Mutex::new(Held { can_rewind, ..Held::default() })))
    }

    /// Returns the bytes for reading and changing.
    pub(super) fn lock(&self) -> MutexGuard<'_, Held> {
        // A panic while it was locked left whole bytes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for HeldBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "parquet")]
impl ParquetFile for HeldBytes {
    fn rewind(&mut self, position: u64) -> io::Result<bool> {
        let mut held = self.lock();
        if held.can_rewind {
            let kept = position.saturating_sub(held.start);
            held.bytes.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
            held.start = held.start.min(position);
        }
        Ok(held.can_rewind)
    }
}
