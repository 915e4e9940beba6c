//! An application that is chosen at run time, together with the state of its flows.
//!
//! The engine and the tables are compiled once for all such applications. The price is that each
//! flow's state is an allocation of its own beside the table.

use std::any::Any;

use flowloom_engine::{Actions, App, EndedBy, FlowRecord, FlowState, Verdict};
use flowloom_flow_key::FlowKey;
use flowloom_packet::wire::{Decision, Frame};
use flowloom_packet::{DropReason, PacketView};
use flowloom_record::{Column, GroupSet, Value};

#[cfg(feature = "l7-filter")]
use crate::L7Flow;
use crate::accounting::Accounted;
use crate::record_state::{EndedFlow, RecordState};

/// A state of any application.
///
/// It is empty until its application begins the flow.
#[derive(Default)]
pub struct AnyFlow(Option<Box<dyn AnyState>>);

impl std::fmt::Debug for AnyFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyFlow").finish_non_exhaustive()
    }
}

impl AnyFlow {
    /// Returns the state of an application, which begins here if there is none.
    fn state<F: RecordState>(&mut self) -> &mut F {
        let state: &mut dyn Any = self.0.get_or_insert_with(|| Box::new(F::default())).as_any();
        state.downcast_mut().expect("a table has flows of one application")
    }
}

/// The operations on a state whose type is erased.
trait AnyState: Send + Sync {
    fn as_any(&mut self) -> &mut dyn Any;
    fn columns(&self) -> &'static [Column];
    fn values(&self, out: &mut Vec<Value>);
    fn is_closed(&self) -> bool;
    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>);
    fn account(&self) -> Option<&Accounted>;
    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow>;
    fn save_in_part(&self, out: &mut Vec<u8>) -> bool;
}

impl<F: RecordState> AnyState for F {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn columns(&self) -> &'static [Column] {
        F::COLUMNS
    }

    fn values(&self, out: &mut Vec<Value>) {
        FlowState::values(self, out);
    }

    fn is_closed(&self) -> bool {
        FlowState::is_closed(self)
    }

    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>) {
        RecordState::record_values(self, key, ended, groups, out);
    }

    fn account(&self) -> Option<&Accounted> {
        RecordState::account(self)
    }

    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow> {
        RecordState::label(self)
    }

    fn save_in_part(&self, out: &mut Vec<u8>) -> bool {
        RecordState::save_in_part(self, out)
    }
}

/// The columns depend on the application: [`EndedFlow::state_columns`] returns them.
impl FlowState for AnyFlow {
    fn values(&self, out: &mut Vec<Value>) {
        if let Some(state) = &self.0 {
            state.values(out);
        }
    }

    fn is_closed(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.is_closed())
    }
}

impl EndedFlow for FlowRecord<AnyFlow> {
    fn key(&self) -> &FlowKey {
        &self.key
    }

    fn ended(&self) -> EndedBy {
        self.ended
    }

    fn state_columns(&self) -> &'static [Column] {
        self.state.0.as_ref().map_or(&[], |state| state.columns())
    }

    fn state_values(&self, out: &mut Vec<Value>) {
        self.state.values(out);
    }

    fn record_values(&self, groups: GroupSet, out: &mut Vec<Value>) {
        if let Some(state) = &self.state.0 {
            state.record_values(&self.key, self.ended, groups, out);
        }
    }

    fn account(&self) -> Option<&Accounted> {
        self.state.0.as_ref()?.account()
    }

    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow> {
        self.state.0.as_ref()?.label()
    }

    fn save_in_part(&self, out: &mut Vec<u8>) -> bool {
        self.state.0.as_ref().is_some_and(|state| state.save_in_part(out))
    }
}

/// An application with states of any type. It is an [`App`] itself.
pub type AnyApp = Box<dyn App<Flow = AnyFlow>>;

/// Returns an application without its type.
///
/// # Examples
///
/// ```
/// use flowloom_apps::{Accounting, Null, any_app};
/// // One for each worker: `engine::run` takes a closure like this.
/// let app = |_worker: usize| {
///     if std::env::args().len() > 9 { any_app(Null) } else { any_app(Accounting::new(None)) }
/// };
/// # let _ = app(0);
/// ```
pub fn any_app<A: App<Flow: RecordState> + 'static>(app: A) -> AnyApp {
    Box::new(Typed(app))
}

/// Turns states without a type into those of an application.
struct Typed<A>(A);

impl<A: App<Flow: RecordState>> App for Typed<A> {
    type Flow = AnyFlow;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut AnyFlow) -> Verdict {
        self.0.on_packet(packet, flow.state())
    }

    fn decide(&mut self, packet: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
        self.0.decide(packet, verdict, actions)
    }

    fn on_frame_without_flow(
        &mut self,
        frame: &Frame<'_>,
        reason: DropReason,
        actions: &mut Actions,
    ) -> Decision {
        self.0.on_frame_without_flow(frame, reason, actions)
    }

    fn next_record(&self, packet: &PacketView<'_>, flow: &mut AnyFlow) -> Option<AnyFlow> {
        let next = self.0.next_record(packet, flow.state())?;
        Some(AnyFlow(Some(Box::new(next))))
    }

    fn on_begin(&mut self, key: &FlowKey, flow: &mut AnyFlow) {
        self.0.on_begin(key, flow.state());
    }

    fn on_end(&mut self, key: &FlowKey, flow: &mut AnyFlow, ended: EndedBy) {
        self.0.on_end(key, flow.state(), ended);
    }

    fn on_time(&mut self, time_ns: u64) {
        self.0.on_time(time_ns);
    }

    fn on_wire_time(&mut self, time_ns: u64, actions: &mut Actions) {
        self.0.on_wire_time(time_ns, actions);
    }
}
