//! The trait of applications: what a worker does with a packet of a known flow.

use flowloom_flow_key::FlowKey;
use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, Frame};
use flowloom_packet::{DropReason, PacketView};
use flowloom_record::{Column, Kind, Value};

use crate::report::results::EndedBy;

/// The decision of an application about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet passes.
    Accept,
    /// The application refuses the packet.
    Deny,
}

/// What an application does with a frame of a wire in addition to its [`Decision`].
#[derive(Debug, Default)]
pub struct Actions {
    pub(crate) rewrite: Option<Rewrite>,
    /// Frames, by the port that sends them.
    pub(crate) emitted: Vec<(u16, Vec<u8>)>,
}

impl Actions {
    /// Changes addresses and ports of the frame before it leaves. A frame that cannot be changed is
    /// dropped, and counts as [`not_rewritten`](crate::DecisionCounts::not_rewritten).
    pub fn rewrite(&mut self, rewrite: Rewrite) {
        self.rewrite = Some(rewrite);
    }

    /// Sends a frame of the application's own by a port, before the frames of the batch.
    pub fn emit(&mut self, port: u16, frame: Vec<u8>) {
        self.emitted.push((port, frame));
    }
}

/// The outcome of a packet: the application's verdict, or `None` because the table was full.
pub(crate) type Outcome = Option<Verdict>;

/// An application: what a worker does with each packet. Each worker has its own instance.
///
/// If the policy keeps a flow with its worker ([`OrderGuarantee::Home`]), no other instance sees
/// the flow. Otherwise any instance may get a packet of the flow, one instance at a time. Keep the
/// state of a flow in [`App::Flow`], not in the application.
///
/// A panic in a method or in `drop` becomes the worker's [`Fault`](crate::Fault::WorkerPanicked).
/// The report then lacks the flows that only this worker had.
///
/// [`OrderGuarantee::Home`]: flowloom_scheduler::OrderGuarantee::Home
///
/// # Examples
///
/// ```
/// use flowloom_engine::record::{Column, Kind, Value};
/// use flowloom_engine::{App, FlowState, Verdict};
/// use flowloom_packet::PacketView;
///
/// /// Counts the packets of each flow.
/// #[derive(Default)]
/// struct Count(u64);
///
/// impl FlowState for Count {
///     const COLUMNS: &'static [Column] =
///         &[Column::new("packets", Kind::Packets, "Packets of the flow.")];
///     fn values(&self, out: &mut Vec<Value>) {
///         out.push(Value::Number(self.0));
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
    /// The state that the application keeps per flow. The flow table holds it.
    type Flow: FlowState;

    /// Processes one packet of `flow`. Packets of a flow arrive in input order, except under
    /// [`Order::None`](crate::Order::None).
    ///
    /// The engine calls this method once per packet: do not allocate, lock, format or make system
    /// calls here.
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict;

    /// Decides what happens to a frame of a [wire](crate::run_wires) whose packet
    /// [`on_packet`](Self::on_packet) has just judged. The default forwards accepted packets and
    /// drops denied ones. An application that redirects, mirrors or rewrites frames stores the
    /// result of `on_packet` in itself.
    fn decide(&mut self, _packet: &PacketView<'_>, verdict: Verdict, _actions: &mut Actions) -> Decision {
        match verdict {
            Verdict::Accept => Decision::Pass,
            Verdict::Deny => Decision::Drop,
        }
    }

    /// Decides about a frame of a wire without a flow, for this reason, if the options say to
    /// [ask](crate::NoFlow::Ask). The default forwards the frame. Such a frame cannot be
    /// rewritten. Frames with and without a flow reach the application in the order in which they
    /// arrive.
    fn on_frame_without_flow(
        &mut self,
        _frame: &Frame<'_>,
        _reason: DropReason,
        _actions: &mut Actions,
    ) -> Decision {
        Decision::Pass
    }

    /// Returns the first state of the flow's next record if the current record ends before this
    /// packet, and `None` if the record continues. A record ends on an active timeout, or because
    /// another connection begins on the same addresses and ports.
    ///
    /// The next record may begin with known facts of the connection, such as its direction. The
    /// method may store the end reason in `flow`; it must not change `flow` if it returns `None`.
    /// The engine then passes the packet and the next record to [`on_packet`](Self::on_packet).
    ///
    /// The engine does not call this method for a flow's first packet. Decide only from the packet
    /// and the flow, so that records do not depend on the number of workers.
    fn next_record(&self, _packet: &PacketView<'_>, _flow: &mut Self::Flow) -> Option<Self::Flow> {
        None
    }

    /// A record begins with this state; its first packet follows. The state is the default one, or
    /// what [`next_record`](Self::next_record) has returned. By default nothing happens.
    fn on_begin(&mut self, _key: &FlowKey, _flow: &mut Self::Flow) {}

    /// A record has ended for this reason. The state goes to the records after the call.
    ///
    /// After [`EndedBy::Application`] the flow goes on: [`on_begin`](Self::on_begin) follows at
    /// once, with the state of the next record of the same key. Otherwise the flow is over, and an
    /// application gives back what it holds for it, such as a port.
    ///
    /// The engine does not call this method for flows that are live at the end of the run, nor for
    /// a flow whose packet panicked. A panic here or in [`on_time`](Self::on_time) while time
    /// passes ends the run, also of a [wire](crate::run_wires) that goes on after other panics.
    fn on_end(&mut self, _key: &FlowKey, _flow: &mut Self::Flow, _ended: EndedBy) {}

    /// Packets up to this time, in nanoseconds since 1970, have been processed. The engine calls
    /// this method about once per batch of packets, and with live input also while no packets
    /// arrive, several times per second.
    fn on_time(&mut self, _time_ns: u64) {}

    /// Sends frames of the application's own on a [wire](crate::run_wires) as time passes, such as
    /// a question for a station. The engine calls this method at the first frame and then about ten
    /// times per second, also while no frames arrive. The time is that of the latest frame and of
    /// the silence since; 0 before the first frame. The application cannot rewrite a frame here. A
    /// panic ends the run, as one in [`on_time`](Self::on_time) does.
    fn on_wire_time(&mut self, _time_ns: u64, _actions: &mut Actions) {}
}

/// An application that is chosen at run time.
impl<T: App + ?Sized> App for Box<T> {
    type Flow = T::Flow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict {
        (**self).on_packet(packet, flow)
    }

    fn decide(&mut self, packet: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
        (**self).decide(packet, verdict, actions)
    }

    fn on_frame_without_flow(
        &mut self,
        frame: &Frame<'_>,
        reason: DropReason,
        actions: &mut Actions,
    ) -> Decision {
        (**self).on_frame_without_flow(frame, reason, actions)
    }

    #[inline]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Option<Self::Flow> {
        (**self).next_record(packet, flow)
    }

    fn on_begin(&mut self, key: &FlowKey, flow: &mut Self::Flow) {
        (**self).on_begin(key, flow);
    }

    fn on_end(&mut self, key: &FlowKey, flow: &mut Self::Flow, ended: EndedBy) {
        (**self).on_end(key, flow, ended);
    }

    fn on_time(&mut self, time_ns: u64) {
        (**self).on_time(time_ns);
    }

    fn on_wire_time(&mut self, time_ns: u64, actions: &mut Actions) {
        (**self).on_wire_time(time_ns, actions);
    }
}

/// Two applications beside each other on every flow. A packet passes if both accept it. If either
/// begins a record, both do: the other one begins with its default state.
impl<A: App, B: App> App for (A, B) {
    type Flow = (A::Flow, B::Flow);

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict {
        match (self.0.on_packet(packet, &mut flow.0), self.1.on_packet(packet, &mut flow.1)) {
            (Verdict::Accept, Verdict::Accept) => Verdict::Accept,
            _ => Verdict::Deny,
        }
    }

    /// The second application decides about the frames that the first one lets pass.
    fn decide(&mut self, packet: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
        match self.0.decide(packet, verdict, actions) {
            Decision::Pass => self.1.decide(packet, verdict, actions),
            other => other,
        }
    }

    fn on_frame_without_flow(
        &mut self,
        frame: &Frame<'_>,
        reason: DropReason,
        actions: &mut Actions,
    ) -> Decision {
        match self.0.on_frame_without_flow(frame, reason, actions) {
            Decision::Pass => self.1.on_frame_without_flow(frame, reason, actions),
            other => other,
        }
    }

    #[inline]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Option<Self::Flow> {
        let first = self.0.next_record(packet, &mut flow.0);
        let second = self.1.next_record(packet, &mut flow.1);
        (first.is_some() || second.is_some())
            .then(|| (first.unwrap_or_default(), second.unwrap_or_default()))
    }

    fn on_begin(&mut self, key: &FlowKey, flow: &mut Self::Flow) {
        self.0.on_begin(key, &mut flow.0);
        self.1.on_begin(key, &mut flow.1);
    }

    fn on_end(&mut self, key: &FlowKey, flow: &mut Self::Flow, ended: EndedBy) {
        self.0.on_end(key, &mut flow.0, ended);
        self.1.on_end(key, &mut flow.1, ended);
    }

    fn on_time(&mut self, time_ns: u64) {
        self.0.on_time(time_ns);
        self.1.on_time(time_ns);
    }

    fn on_wire_time(&mut self, time_ns: u64, actions: &mut Actions) {
        self.0.on_wire_time(time_ns, actions);
        self.1.on_wire_time(time_ns, actions);
    }
}

/// The result of composing two summaries of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Composed {
    /// The earlier summary now covers the packets of both.
    Joined,
    /// The later packets begin a new record; both summaries stay unchanged.
    Apart,
    /// The two summaries do not determine the result. Neither has changed.
    NeedsPackets,
}

/// What an application keeps of one flow: the content of its record.
pub trait FlowState: Default + Send + Sync + 'static {
    /// The results: the columns of a flow file. By default there are none.
    const COLUMNS: &'static [Column] = &[];

    /// Appends one value per column.
    fn values(&self, _out: &mut Vec<Value>) {}

    /// Whether a full table evicts flows of this state to make space for new ones. By default it
    /// refuses new flows. Define [`is_established`](Self::is_established) too: as long as all flows
    /// are established, nothing is evicted.
    const EVICTABLE: bool = false;

    /// Returns whether a full table keeps the flow, if flows are [evictable](Self::EVICTABLE). By
    /// default all flows are established.
    /// Among the other flows, the table evicts the least recently seen one. A flood of first
    /// packets therefore ends no connection that was answered.
    fn is_established(&self) -> bool {
        true
    }

    /// Composes this summary of a flow's packets with the summary of the packets that directly
    /// follow them. The later summary was made without knowledge of the earlier packets.
    ///
    /// The law: for any packets *a* followed by *b* within one record,
    /// `summary(a).compose(summary(b))` is [`Joined`](Composed::Joined) and equals
    /// `summary(a ++ b)`, or it is [`NeedsPackets`](Composed::NeedsPackets). If the first packet of
    /// *b* would begin a new record, it is [`Apart`](Composed::Apart). Composition is associative.
    ///
    /// Parts of an input that separate runs have processed are [merged](crate::merge_parts) by it.
    /// The default asks for the packets, which is correct for any state: the merge then refuses a
    /// flow that continues from one part to the next.
    fn compose(&mut self, _later: &mut Self) -> Composed {
        Composed::NeedsPackets
    }

    /// Returns whether the connection of the flow has ended, so that only stray packets may follow.
    /// Such a flow expires after
    /// [`EngineConfig::closed_timeout`](crate::EngineConfig::closed_timeout). The engine asks after
    /// each packet.
    fn is_closed(&self) -> bool {
        false
    }
}

/// The state of an application that keeps nothing of a flow.
impl FlowState for () {}

/// The columns of two states, one after the other.
struct Both<A, B>(std::marker::PhantomData<fn() -> (A, B)>);

impl<A: FlowState, B: FlowState> Both<A, B> {
    const COUNT: usize = A::COLUMNS.len() + B::COLUMNS.len();
    const ALL: [Column; 128] = {
        assert!(Self::COUNT <= 128, "two states have at most 128 columns together");
        let mut all = [Column::new("", Kind::Number, ""); 128];
        let mut at = 0;
        while at < Self::COUNT {
            let of_first = at < A::COLUMNS.len();
            all[at] = if of_first { A::COLUMNS[at] } else { B::COLUMNS[at - A::COLUMNS.len()] };
            at += 1;
        }
        all
    };
}

impl<A: FlowState, B: FlowState> FlowState for (A, B) {
    const COLUMNS: &'static [Column] = {
        let all: &'static [Column; 128] = &Both::<A, B>::ALL;
        all.split_at(Both::<A, B>::COUNT).0
    };
    const EVICTABLE: bool = A::EVICTABLE || B::EVICTABLE;

    fn values(&self, out: &mut Vec<Value>) {
        self.0.values(out);
        self.1.values(out);
    }

    /// An application without evictable flows does not keep those of the other.
    fn is_established(&self) -> bool {
        (A::EVICTABLE && self.0.is_established()) || (B::EVICTABLE && self.1.is_established())
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed() || self.1.is_closed()
    }
}
