//! What a worker does with a packet of a known flow.
//!
//! | application | keeps per flow | for |
//! | --- | --- | --- |
//! | [`Null`] | nothing | the cost of everything else |
//! | [`TcpTracker`] | packets, bytes, times, flags per direction, TCP state | flow accounting, connection tracking |
//! | [`CacheProbe`] | how far a session's end has come, and what the application within keeps | a simulated cache beside a run |
//!
//! Where accepted packets go: [`CaptureSink`] writes them to a capture file.

pub mod cache_probe;
pub mod capture_sink;
pub mod null;
pub mod tcp_tracker;

pub use cache_probe::{CacheProbe, ProbeCounts, Probed};
pub use capture_sink::CaptureSink;
pub use null::{NoState, Null};
pub use tcp_tracker::{TcpFlow, TcpState, TcpTracker};
