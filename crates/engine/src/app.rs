//! The seam between a worker and what it does with a packet of a known flow.

use flowloom_packet::PacketView;

/// What an application decides about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Accept,
    /// It is refused.
    Deny,
}

/// What a worker does with each packet. One instance per worker.
///
/// Where the policy keeps a flow with its worker ([`OrderGuarantee::Home`]), no other instance sees the flow. Elsewhere its packets may
/// come to any of them, one at a time: what is to be known of a flow belongs into [`App::Flow`].
///
/// A panic, be it in a method or when the application is dropped at the end of the run, is its worker's
/// [`Fault`](crate::Fault::WorkerPanicked); flows that were that worker's alone are then in no report.
///
/// [`OrderGuarantee::Home`]: flowloom_scheduler::OrderGuarantee::Home
///
/// # Examples
///
/// ```
/// use flowloom_engine::{App, FlowState, FlowValue, Verdict};
/// use flowloom_packet::PacketView;
///
/// /// Counts the packets of each flow.
/// #[derive(Default)]
/// struct Count(u64);
///
/// impl FlowState for Count {
///     const COLUMNS: &'static [&'static str] = &["packets"];
///     fn values(&self, out: &mut Vec<FlowValue>) {
///         out.push(FlowValue::Count(self.0));
///     }
///     fn merge(&mut self, later: Self) {
///         self.0 += later.0;
///     }
/// }
///
/// struct Counter;
/// impl App for Counter {
///     type Flow = Count;
///     fn on_packet(&mut self, _packet: &PacketView<'_>, flow: &mut Count) -> Verdict {
///         flow.0 += 1;
///         Verdict::Accept
///     }
/// }
/// ```
pub trait App: Send {
    /// What the application keeps per flow; the table holds it.
    type Flow: FlowState;

    /// Takes in one packet of `flow`, in arrival order within the flow unless [`Order::None`](crate::Order::None) was asked for.
    ///
    /// Called once per packet: no allocation, lock, system call or formatting in here.
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict;

    /// Says whether the flow's record ends before this packet, which then begins another of the same key: by an active
    /// timeout, or because a connection of the same addresses and ports begins anew.
    ///
    /// Not asked for a flow's first packet. Judge by the packet and the flow alone, so that records do not depend on the
    /// number of workers.
    fn ends_before(&self, _packet: &PacketView<'_>, _flow: &Self::Flow) -> bool {
        false
    }
}

/// The state of one flow, and its results at the end.
pub trait FlowState: Default + Send + 'static {
    /// Names of the results, as the columns of a flow file.
    const COLUMNS: &'static [&'static str];

    /// Whether the records of one key stay apart in the results, in their order, instead of being merged.
    const SEPARATE: bool = false;

    /// Appends one value per column.
    fn values(&self, out: &mut Vec<FlowValue>);

    /// Adds a later record of the same flow, one that was begun after an idle timeout had ended this one.
    fn merge(&mut self, later: Self);
}

/// One result of a flow, in base units. It is shown as it stands in tables: numbers in decimal, bits in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowValue {
    /// A number of things: packets, bytes.
    Count(u64),
    /// Nanoseconds since 1970.
    TimeNs(u64),
    /// A set of bits, such as TCP flags.
    Bits(u64),
    /// One of a fixed set of words. A word that only the run's configuration knows, such as a pattern's name, is leaked once
    /// (`String::leak`), not for each flow.
    Word(&'static str),
}

impl std::fmt::Display for FlowValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(number) | Self::TimeNs(number) => number.fmt(f),
            Self::Bits(bits) => write!(f, "{bits:#x}"),
            Self::Word(word) => word.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_stand_in_tables() {
        let values =
            [FlowValue::Count(12), FlowValue::TimeNs(7), FlowValue::Bits(0x1B), FlowValue::Word("closed")];
        assert_eq!(values.map(|value| value.to_string()), ["12", "7", "0x1b", "closed"]);
    }
}
