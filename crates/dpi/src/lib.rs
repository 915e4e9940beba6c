//! Identifies the protocol of a flow from the first bytes of its payload.
//!
//! The method is that of l7-filter [HRWTREE §2.1]: a list of regular expressions, of which the
//! first that matches names the protocol of the flow. For every packet, l7-filter searches the
//! whole buffer again for every expression. [`Scanner`] instead carries the states of a few
//! automata from packet to packet, so that it reads each byte once, and gives the same answers. For
//! comparison, [`reference::Rescanner`] works like l7-filter.
//!
//! - [`builtin`] returns patterns for more than 200 protocols, written from the specifications.
//!   [`load`] reads pattern files in Flowloom's format and in that of l7-filter.
//! - In addition to its expressions, a pattern can require a length field, a checksum, the sending
//!   end, or a usual port ([`condition`]). If a condition fails, the next pattern is tried.
//! - [`stream`] puts the data of TCP segments in sequence within a bounded window, so that the
//!   scanner reads what the application received.
//!
//! The crate depends on no other crate of Flowloom.
//!
//! # Examples
//!
//! ```
//! use flowloom_dpi::stream::{Piece, Segment, Sequencer, Window};
//! use flowloom_dpi::{Outcome, ScanState, Scanner, Transport, builtin};
//!
//! let scanner = Scanner::new(&builtin())?;
//! // The state of one direction of a connection, and the window for early segments.
//! let (mut order, mut state) = (Sequencer::default(), ScanState::default());
//! let mut window = Window::new(8 << 10);
//! let mut label = None;
//! // A request in two segments, the second one first.
//! let segments = [
//!     Segment { sequence: 1000, syn: true, payload: b"" },
//!     Segment { sequence: 1005, syn: false, payload: b"/ HTTP/1.1\r\n\r\n" },
//!     Segment { sequence: 1001, syn: false, payload: b"GET " },
//! ];
//! for segment in segments {
//!     order.push(segment, Some(&mut window), |piece| {
//!         let Piece::Data(bytes) = piece else { return };
//!         if let Outcome::Matched(found) = scanner.scan(Transport::Tcp, &mut state, bytes) {
//!             label.get_or_insert_with(|| scanner.name(found.pattern).to_owned());
//!         }
//!     });
//! }
//! assert_eq!(label.as_deref(), Some("http"));
//! # Ok::<(), flowloom_dpi::BuildError>(())
//! ```

mod builtin;
mod bytes;
mod compile;
pub mod condition;
mod determinize;
mod error;
mod image;
pub mod load;
mod pattern;
pub mod reference;
mod scanner;
mod signature;
pub mod stream;
mod strength;
mod table;

pub use builtin::builtin;
pub use compile::{Budget, GROUPS_MAX, PATTERNS_MAX, REGEX_BYTES_MAX};
pub use error::BuildError;
pub use image::ImageError;
pub use pattern::{Dialect, Expression, Match, Origin, Pattern, PatternId, Role, Transport, Transports};
pub use scanner::{MatchState, Outcome, ScanState, Scanner, Size};
pub use signature::EXPRESSIONS_MAX;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
