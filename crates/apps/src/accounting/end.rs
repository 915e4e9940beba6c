//! Why records ended.

use flowloom_engine::EndedBy;

use super::{Accounted, Cut};

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
    /// The input ended, or was stopped.
    EndOfInput,
}

impl EndReason {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Active, Self::Fin, Self::Reset, Self::NewConnection, Self::EndOfInput];

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
            (None, _) => Self::EndOfInput,
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
        }
    }
}
