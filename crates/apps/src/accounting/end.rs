//! The reasons why records end.

use flowloom_engine::EndedBy;
use flowloom_record::Word;

use super::{Accounted, SplitReason};

/// The reason why a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// No packet arrived for longer than the idle timeout.
    Idle,
    /// The record had reached the active timeout.
    Active,
    /// Both sides had sent FIN, in this record or in an earlier record of the connection.
    Fin,
    /// An RST in the window had closed the connection, before both sides had sent FIN.
    Reset,
    /// Another connection began on the same addresses and ports.
    NewConnection,
    /// The full flow table needed the slot.
    Evicted,
    /// The input ended, or the run was stopped.
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

    /// Returns the reason why a record ended.
    ///
    /// The end of the TCP connection takes precedence: it is the reason for the record of a closed
    /// connection, regardless of later events. The record itself shows whether the application
    /// ended it because of its age or a new connection.
    #[must_use]
    pub fn from_record(record: &Accounted, ended: EndedBy) -> Self {
        match (record.closed(), ended) {
            (Some(closed), _) => closed,
            (None, EndedBy::IdleTimeout) => Self::Idle,
            (None, EndedBy::Application) if record.split_reason() == Some(SplitReason::NewConnection) => {
                Self::NewConnection
            }
            (None, EndedBy::Application) => Self::Active,
            (None, EndedBy::Evicted) => Self::Evicted,
            (None, _) => Self::EndOfInput,
        }
    }

    /// The names of all values, with their codes in IPFIX.
    pub const WORDS: [Word; 7] = {
        let mut words = [Word::new("", 0); 7];
        let mut at = 0;
        while at < words.len() {
            words[at] = Word::new(Self::ALL[at].name(), Self::ALL[at].ipfix());
            at += 1;
        }
        words
    };

    /// Returns the name that flow files use.
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
