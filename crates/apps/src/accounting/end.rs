//! Why records ended.

use flowloom_engine::time::tick_of;
use flowloom_engine::{FlowResults, IdleTimeout};

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

/// Returns why each record of a run ended, in the order of the records. `account` finds the record in a flow's state
/// (states without one are passed over), `last_ns` is the time of the run's last packet.
///
/// What TCP said comes first: a record that saw its connection closed ended by that, whatever came later. Else a record
/// with another of its key behind it ended by the timeout that lies between the two, and a last one is idle if the
/// input went on without it for longer than the timeout.
#[must_use]
pub fn end_reasons<F>(
    flows: &FlowResults<F>,
    account: impl Fn(&F) -> Option<&Accounted>,
    idle: Option<IdleTimeout>,
    last_ns: u64,
) -> Vec<EndReason> {
    let mut records = flows.iter().peekable();
    let mut reasons = Vec::with_capacity(flows.len());
    while let Some(record) = records.next() {
        let next = records.peek().filter(|next| next.key == record.key);
        let next = next.and_then(|next| account(&next.state)).map(|next| next.first_ns);
        let Some(state) = account(&record.state) else { continue };
        let seen = tick_of(state.last_ns);
        let is_idle = idle.is_some_and(|idle| idle.is_over(seen, tick_of(next.unwrap_or(last_ns))));
        reasons.push(match (state.closed(), next) {
            (Some(closed), _) => closed,
            _ if is_idle => EndReason::Idle,
            (None, Some(_)) => EndReason::Active,
            (None, None) => EndReason::EndOfInput,
        });
    }
    reasons
}
