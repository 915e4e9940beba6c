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

/// What became of a packet: an application's verdict, or none because the table was full.
pub(crate) type Outcome = Option<Verdict>;

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

    /// Returns the state that the next record of the flow begins with if `flow`'s record ends before this packet, by an
    /// active timeout or because another connection begins on the same addresses and ports; `None` if the record goes on.
    ///
    /// The next record may begin with what is known of the connection, such as its direction. `flow` may be marked with
    /// the reason of its end; it must not change where the record goes on. The packet is then given to
    /// [`on_packet`](Self::on_packet) with the next record.
    ///
    /// Not called for a flow's first packet. Judge by the packet and the flow alone, so that records do not depend on the
    /// number of workers.
    fn next_record(&self, _packet: &PacketView<'_>, _flow: &mut Self::Flow) -> Option<Self::Flow> {
        None
    }

    /// How this application runs on parts of an input, in the [sharded](crate::Layout::Sharded) layout.
    const PARTS: PartSupport = PartSupport::Composed;

    /// Adds to `flow` what a later part of the input knows of it: see [`FlowState::compose`], which it calls.
    ///
    /// An application overrides it where composing depends on its settings, or corrects totals that it keeps beside
    /// the flows: what it counted for the flow in each part is now counted once for both.
    fn compose(&mut self, flow: &mut Self::Flow, later: &mut Self::Flow) -> Composed {
        flow.compose(later)
    }

    /// Completes a flow whose packets in a later part are processed again, where the packets to come would only add to
    /// counts: `first` is the record that the part has of the flow by itself, of whose packets `again` have been
    /// processed from the true state up to now. Says whether `flow` now stands for all of them; processing ends when
    /// every such flow does.
    ///
    /// Not asked of an application that [keeps totals](Self::KEEPS_TOTALS).
    fn complete(
        &mut self,
        _flow: &mut Self::Flow,
        _first: &Self::Flow,
        _again: ReprocessedPackets,
    ) -> bool {
        false
    }

    /// Takes back what this instance has added to totals that the application keeps beside the flows. Called before it
    /// is dropped, where the packets it has seen are processed again by another.
    fn retract(&mut self) {}

    /// Takes back what this instance has added to such totals, and as much again: another instance has seen the same
    /// packets of the same flows, which are processed again.
    fn cancel(&mut self) {}

    /// Says whether the application keeps totals beside the flows. Where it does, the packets of a flow that is
    /// processed again are also shown to an instance that is then [cancelled](Self::cancel).
    const KEEPS_TOTALS: bool = false;
}

/// Packets of a flow that were processed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReprocessedPackets {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// How an application runs on parts of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartSupport {
    /// Flows of different parts are composed; a flow that cannot be is processed again with the state it had.
    Composed,
    /// It needs all packets in one sequence, for this reason.
    Never(&'static str),
}

/// What came of composing two summaries of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Composed {
    /// The earlier summary now stands for the packets of both.
    Joined,
    /// The later packets begin another record; both summaries stand as they are.
    Apart,
    /// The summaries do not say what both come to. Neither has changed; the packets are needed again.
    NeedsPackets,
}

/// What an application keeps of one flow: the content of its record.
pub trait FlowState: Default + Send + Sync + 'static {
    /// Names of the results, as the columns of a flow file.
    const COLUMNS: &'static [&'static str];

    /// Appends one value per column.
    fn values(&self, out: &mut Vec<FlowValue>);

    /// Composes this summary of a flow's packets with that of the packets directly after them, which was taken without
    /// knowledge of these.
    ///
    /// The law: for any packets *a* followed by *b* within one record, `summary(a).compose(summary(b))` is
    /// [`Joined`](Composed::Joined) and equals `summary(a ++ b)`, or it is [`NeedsPackets`](Composed::NeedsPackets).
    /// Where the first packet of *b* would have begun another record, it is [`Apart`](Composed::Apart). Composing is
    /// associative.
    ///
    /// The default asks for the packets, which is right for any state: in the sharded layout a flow that crosses from
    /// one part to another is then processed again in the later part.
    fn compose(&mut self, _later: &mut Self) -> Composed {
        Composed::NeedsPackets
    }
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
