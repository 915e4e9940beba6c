//! Generates accesses from sessions of a web server: the workloads [TCBCACHE §4.1].
//!
//! The paper replays logs with a tool that "opens multiple sessions … keeping the same behavior
//! inside each session". It does not state how many sessions are open at a time, which ports they
//! have, and which packets of a request the cache sees. Here, these are parameters:
//!
//! | file | what |
//! | --- | --- |
//! | [`session`] | a session: one client's requests, with their times and reply sizes |
//! | [`surge`] | sessions drawn from distributions: model S |
//! | [`logged`] | sessions cut from a log, in their own order or drawn again |
//! | [`packets`] | what a session's requests are on the wire, and which connections carry them |
//! | [`ports`] | which source ports clients use |
//! | [`overlap`] | N sessions at a time |

pub mod draw;
pub mod logged;
mod math;
pub mod overlap;
pub mod packets;
pub mod ports;
pub mod session;
pub mod surge;

pub use logged::LoggedSessions;
pub use overlap::{Overlap, OverlapError, Workload};
pub use packets::{Connection, PacketModel, View};
pub use ports::Ports;
pub use session::{Request, Session, SessionSource};
pub use surge::{Surge, SurgeConfig};
