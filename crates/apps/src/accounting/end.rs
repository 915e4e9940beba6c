//! Why records ended.

use flowloom_engine::EndedBy;

use super::Accounted;

/// Why a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// No packet came for longer than the idle timeout.
    Idle,
    /// It had lasted for as long as a record may.
    Active,
    /// Both sides had sent FIN.
    Fin,
    /// One side had sent RST.
    Reset,
    /// The input ended, or was stopped.
    EndOfInput,
}

impl EndReason {
    /// Returns the reason's name in flow files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Fin => "fin",
            Self::Reset => "reset",
            Self::EndOfInput => "end",
        }
    }

    /// Returns the value of IPFIX's element flowEndReason (RFC 5102, 5.11.3).
    #[must_use]
    pub const fn ipfix(self) -> u8 {
        match self {
            Self::Idle => 1,
            Self::Active => 2,
            Self::Fin | Self::Reset => 3,
            Self::EndOfInput => 4,
        }
    }
}

impl EndReason {
    /// Returns why a record ended, from its state and from what ended it in the engine.
    ///
    /// What TCP said comes first: a record that saw its connection closed ended by that, whatever came later.
    #[must_use]
    pub fn of(record: &Accounted, ended: EndedBy) -> Self {
        match (record.closed(), ended) {
            (Some(closed), _) => closed,
            (None, EndedBy::IdleTimeout) => Self::Idle,
            (None, EndedBy::Application) => Self::Active,
            (None, _) => Self::EndOfInput,
        }
    }
}
