//! Accounting records with the protocol label of the L7 filter.

use flowloom_engine::{App, FlowState, Verdict};
use flowloom_packet::PacketView;
use flowloom_record::{Column, Value};

use super::Accounted;
use super::fields::{Detailed, DetailedAccounting, Fields};
use crate::{L7Filter, L7Flow, L7Plan};

/// A record with additional fields, and its protocol label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labelled<F> {
    detailed: Detailed<F>,
    l7: L7Flow,
}

impl<F> Labelled<F> {
    /// Returns the record and its fields.
    pub fn detailed(&self) -> &Detailed<F> {
        &self.detailed
    }

    /// Returns the protocol's name if a pattern has matched in the record.
    pub fn protocol(&self) -> Option<&'static str> {
        self.l7.protocol()
    }
}

impl<F: Fields> FlowState for Labelled<F> {
    const COLUMNS: &'static [Column] = Accounted::COLUMNS_FIELDS_AND_LABEL;

    fn is_closed(&self) -> bool {
        self.detailed.is_closed()
    }

    fn values(&self, out: &mut Vec<Value>) {
        self.detailed.values(out);
        out.push(Value::Word(self.protocol().unwrap_or("-")));
    }
}

/// [`DetailedAccounting`] and [`L7Filter`] on the same packets. The filter begins anew with each
/// record.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::LabelledAccounting;
/// use flowloom_apps::accounting::fields::{DetailedAccounting, PacketSizes};
/// use flowloom_apps::{Accounting, L7Options, L7Plan, dpi};
///
/// let plan = L7Plan::new(&dpi::builtin(), L7Options::default())?;
/// let accounting = DetailedAccounting::<PacketSizes>::new(Accounting::new(None));
/// let app = |_worker: usize| LabelledAccounting::new(accounting, &plan);
/// # let _ = app(0);
/// # Ok::<(), flowloom_apps::L7Error>(())
/// ```
#[derive(Debug)]
pub struct LabelledAccounting<F> {
    accounting: DetailedAccounting<F>,
    l7: L7Filter,
}

impl<F> LabelledAccounting<F> {
    /// Returns the application of one worker.
    #[must_use]
    pub fn new(accounting: DetailedAccounting<F>, plan: &L7Plan) -> Self {
        Self { accounting, l7: plan.app() }
    }
}

impl<F: Fields> App for LabelledAccounting<F> {
    type Flow = Labelled<F>;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Labelled<F>) -> Verdict {
        self.l7.on_packet(packet, &mut flow.l7);
        self.accounting.on_packet(packet, &mut flow.detailed)
    }

    #[inline(always)]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Labelled<F>) -> Option<Labelled<F>> {
        let detailed = self.accounting.next_record(packet, &mut flow.detailed)?;
        Some(Labelled { detailed, l7: L7Flow::default() })
    }
}
