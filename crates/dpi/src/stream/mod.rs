//! Puts TCP data in sequence, within a bounded window, for one direction of a connection at a time.
//!
//! The rules are:
//!
//! - **The first copy wins.** A byte that was delivered or is buffered remains as it first arrived.
//!   Later copies are counted, not compared. Receivers differ in which copy they accept; here there
//!   is one rule.
//! - **Buffered data is bounded** by the size of the window in bytes. One bit per byte records its
//!   presence, so many small segments need no more memory than a few large ones.
//! - **Gaps that exceed the window are skipped.** When data arrives that does not fit into the
//!   window, the stream continues at the first available byte and reports the number of bytes
//!   missing before it ([`Piece::Gap`]). Without a window, every gap is skipped immediately.
//! - Sequence numbers wrap. A direction begins after its SYN, or at its first data if the SYN is
//!   missing. A SYN that is repeated before any data restarts it. Data that ends before the
//!   beginning of the direction is old.

mod sequencer;
mod window;

pub use sequencer::{Piece, Segment, Sequencer, StreamCounts};
pub use window::{WINDOW_BYTES_MAX, Window};
