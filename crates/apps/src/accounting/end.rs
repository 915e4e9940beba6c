//! Why records ended.

use flowloom_engine::time::tick_of;
use flowloom_engine::{FlowResults, IdleTimeout};

use super::{Accounted, Cut};

/// What ended a record, as far as the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndedBy {
    /// No packet came for longer than the idle timeout.
    IdleTimeout,
    /// The application began another record with the next packet.
    Application,
    /// The record was evicted from a full table.
    Evicted,
    /// The input ended, or was stopped.
    EndOfInput,
}

/// Why a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// No packet came for longer than the idle timeout.
    Idle,
    /// It had lasted for as long as a record may.
    Active,
    /// Both sides had sent FIN, in this record or before it in the same connection.
    Fin,
    /// An RST in the window had closed the connection.
    Reset,
    /// Another connection began on the same addresses and ports.
    NewConnection,
    /// The flow table needed the room.
    Evicted,
    /// The input ended, or was stopped.
    EndOfInput,
}

impl EndReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Active,
        Self::Fin,
        Self::Reset,
        Self::NewConnection,
        Self::Evicted,
        Self::EndOfInput,
    ];

    /// Returns why a record ended.
    ///
    /// What TCP said comes first: a record of a closed connection ended by that, whatever came later. The record knows by
    /// itself whether the application began another for its age or for a new connection.
    #[must_use]
    pub fn of(record: &Accounted, ended: EndedBy) -> Self {
        match (record.closed(), ended) {
            (Some(closed), _) => closed,
            (None, EndedBy::IdleTimeout) => Self::Idle,
            (None, EndedBy::Application) if record.cut() == Some(Cut::NewConnection) => Self::NewConnection,
            (None, EndedBy::Application) => Self::Active,
            (None, EndedBy::Evicted) => Self::Evicted,
            (None, EndedBy::EndOfInput) => Self::EndOfInput,
        }
    }

    /// Returns the reason's name in flow files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Fin => "fin",
            Self::Reset => "reset",
            Self::NewConnection => "new_connection",
            Self::Evicted => "evicted",
            Self::EndOfInput => "end",
        }
    }

    /// Returns the value of IPFIX's element `flowEndReason` (RFC 5102, 5.11.3).
    #[must_use]
    pub const fn ipfix(self) -> u8 {
        match self {
            Self::Idle => 1,
            Self::Active => 2,
            Self::Fin | Self::Reset | Self::NewConnection => 3,
            Self::EndOfInput => 4,
            Self::Evicted => 5,
        }
    }
}

/// Returns what ended each record of a run, in the order of the records. `account` finds the record in a flow's state
/// (states without one are passed over), `last_ns` is the time of the run's last packet.
#[must_use]
pub fn ended_by<F>(
    flows: &FlowResults<F>,
    account: impl Fn(&F) -> Option<&Accounted>,
    idle: Option<IdleTimeout>,
    last_ns: u64,
) -> Vec<EndedBy> {
    let mut records = flows.iter().peekable();
    let mut ended = Vec::with_capacity(flows.len());
    while let Some(record) = records.next() {
        let has_next = records.peek().is_some_and(|next| next.key == record.key);
        let Some(state) = account(&record.state) else { continue };
        let seen = tick_of(state.times_ns().1);
        let is_idle = || idle.is_some_and(|idle| idle.is_over(seen, tick_of(last_ns)));
        ended.push(match state.cut() {
            Some(_) => EndedBy::Application,
            None if has_next || is_idle() => EndedBy::IdleTimeout,
            None => EndedBy::EndOfInput,
        });
    }
    ended
}
