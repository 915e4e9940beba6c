//! Reads capture files into the arena.
//!
//! ```text
//!  path, "-" or directory
//!    └─ set/     which files, in which order, how often
//!        ├─ merge    several files by time, one packet at a time or in long runs
//!        └─ overlap  whether files overlap in time
//!    └─ file/    one file
//!        └─ open     recognises the format by the content
//!            ├─ mapped   plain file, walked in place, also while another process cuts it
//!            │   ├─ map         the mapping
//!            │   ├─ bus_error   reads after the end of a file that was cut
//!            │   └─ read_ahead  a thread that makes pages present before the walk
//!            ├─ opening  pipe whose header may not have arrived
//!            ├─ patient  pipe that may be silent, until the caller stops waiting
//!            └─ stream   pipe, gzip, zstd, xz, lz4: pieces that are walked in place
//!                ├─ feed     reads pieces, from files on a thread of its own
//!                └─ unpack   decompression under a byte and a ratio limit
//!    └─ walk/    finds the records in either case
//!        ├─ ahead    prefetches the lines ahead of the walk
//!        ├─ stop     why a walk stopped
//!        ├─ pcap     classic records
//!        └─ pcapng   blocks, sections, interfaces
//!    └─ parts/   the same set in parts, for several threads
//!        ├─ plan     the files and the beginnings of the parts
//!        ├─ boundary finds the beginning of a record from any offset
//!        ├─ part     one part as a source
//!        └─ confirm  combines the results of the parts
//!    └─ details/ what a walk notes besides packets
//!        └─ detail_reader  the same captures again, for names, comments and flags of packets
//! ```

mod details;
pub mod error;
mod file;
mod format;
pub mod notice;
pub mod parts;
mod set;
mod walk;

pub use details::annotations;
pub use file::unpack;
pub use parts::segment;

use details::{detail_reader, losses};
use file::{
    background, copies, feed, feed_thread, gzip, map, mapped, members, open, opening, patient, reopened,
    stream, variant,
};
#[cfg(target_os = "linux")]
use file::{bus_error, read_ahead};
use parts::{boundary, confirm, part, plan};
use set::{merge, overlap, set_options, set_progress, summary};
use walk::{ahead, links, pcap, pcap_state, pcapng, stop};

pub use annotations::Annotations;
pub use confirm::SetSummary;
pub use detail_reader::{DetailReader, PacketDetails};
pub use details::{DetailBlock, InterfaceDetails};
pub use error::CaptureError;
pub use format::Format;
pub use gzip::GzipReader;
pub use losses::InterfaceLosses;
pub use map::guard_against_truncation;
pub use notice::Notice;
pub use open::{Capture, CaptureOptions};
pub use overlap::Overlap;
pub use part::{CapturePart, PartRead};
pub use parts::{CaptureParts, NotCuttable, PlanError};
pub use patient::Patient;
pub use plan::Boundary;
pub use set::CaptureSet;
pub use set_options::{Input, SetOptions, SetOrder};
pub use set_progress::SetProgress;
pub use summary::FileSummary;
pub use unpack::UnpackLimits;

/// The longest record that the reader accepts. The length field of a longer one is corrupt.
///
/// The limit is twice the largest frame that offloading builds, and many times a jumbo frame.
pub const RECORD_BYTES_MAX: usize = 16 << 20;
