//! TCP data in sequence, within a bounded window, one direction of a connection at a time.
//!
//! Its rules:
//!
//! - **Overlap: the first copy wins.** A byte that was delivered or is buffered stays as it first
//!   came; later copies are counted, not compared. Receivers differ in what they accept; here it is
//!   one rule.
//! - **Buffered data is bounded** by the window's bytes. One bit per byte records its presence, so
//!   that no number of small segments makes any list longer.
//! - **Beyond the window, the gap is skipped.** When data arrives that does not fit into the
//!   window, the stream continues at the first byte that is there, and reports how many are missing
//!   before it ([`Piece::Gap`]). Without a window every gap is skipped at once.
//! - Sequence numbers wrap. A direction begins after its SYN, or at its first data if the SYN is
//!   missing; a SYN that is repeated before any data restarts it. Data that ends before the
//!   beginning is old.

mod sequencer;
mod window;

pub use sequencer::{Piece, Segment, Sequencer, StreamCounts};
pub use window::{WINDOW_BYTES_MAX, Window};
