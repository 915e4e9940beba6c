//! TCP data in sequence, within a bounded window, one direction of a connection at a time.
//!
//! What it holds to:
//!
//! - **Overlap: the first copy wins.** A byte that was delivered or is held stays as it came first; copies that come later
//!   are counted, not compared. What a receiver takes differs from system to system; here it is one rule.
//! - **Held data is bounded** by the window's bytes. Which bytes are there is a bit each, so that no number of small
//!   segments makes anything longer.
//! - **Beyond the window, the gap is skipped.** When data comes that does not fit into the window, the stream goes on at the
//!   first byte that is there, and says how many are missing before it ([`Piece::Gap`]). Without a window
//!   every gap is skipped at once.
//! - Sequence numbers wrap. A direction begins behind its SYN, or at its first data where the SYN was not seen; a SYN
//!   that comes again before any data begins it anew. Data of which the end lies before the begin is old.

mod sequencer;
mod window;

pub use sequencer::{Piece, Segment, Sequencer, StreamCounts};
pub use window::{WINDOW_BYTES_MAX, Window};
