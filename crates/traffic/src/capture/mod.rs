//! Reads capture files into the arena.
//!
//! ```text
//!  path, "-" or directory
//!    └─ set      which files, in which order, how often
//!        └─ open     what is it? (by content)
//!            ├─ mapped   plain file: walked in place, up to where it may have been cut meanwhile
//!            │   ├─ map         the mapping
//!            │   ├─ bus_error   what becomes of reads behind the end of a file that was cut
//!            │   └─ read_ahead  a thread that makes pages present before the walk
//!            ├─ opening  pipe whose header may not have come
//!            ├─ patient  pipe: waited for, as long as wanted
//!            └─ stream   pipe, gzip, zstd, xz, lz4: read in pieces, which are walked in place
//!                ├─ feed     pieces of a reader; by a thread of its own where that is a file
//!                └─ unpack   decompression under a byte and a ratio limit; gzip by its members
//!        └─ walk     records, with the lines ahead prefetched: the same code for both
//!            ├─ pcap     classic records
//!            └─ pcapng   blocks, sections, interfaces
//!    └─ merge    several files by time, one packet at a time or in long runs
//!    └─ parts    the same cut into parts, for several threads
//!        ├─ boundary where a record begins, found from any offset
//!        ├─ part     one part as a source
//!        ├─ overlap  whether files overlap in time
//!        └─ confirm  what the parts found, where they fit together
//! ```

pub mod annotations;
mod background;
mod boundary;
#[cfg(target_os = "linux")]
mod bus_error;
mod confirm;
mod copies;
pub mod error;
mod feed;
mod feed_thread;
mod format;
mod gzip;
mod links;
mod map;
mod mapped;
mod members;
mod merge;
pub mod notice;
mod open;
mod opening;
mod overlap;
mod part;
pub mod parts;
mod patient;
mod pcap;
mod pcapng;
#[cfg(target_os = "linux")]
mod read_ahead;
mod reopened;
pub mod set;
mod stream;
mod summary;
pub mod unpack;
mod variant;
mod walk;

pub use annotations::Annotations;
pub use confirm::SetSummary;
pub use error::CaptureError;
pub use format::Format;
pub use gzip::GzipReader;
pub use map::guard_against_truncation;
pub use notice::Notice;
pub use open::{Capture, CaptureOptions};
pub use overlap::Overlap;
pub use part::{CapturePart, PartRead};
pub use parts::{Boundary, CaptureParts, NotCuttable, PlanError};
pub use patient::Patient;
pub use set::{CaptureSet, Input, SetOptions, SetOrder, SetProgress};
pub use summary::FileSummary;
pub use unpack::UnpackLimits;

/// The longest record that the reader accepts. A longer one has a broken length field.
///
/// Twice the largest frame that offloading builds, and many times a jumbo frame.
pub const RECORD_BYTES_MAX: usize = 16 << 20;
