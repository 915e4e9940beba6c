//! A firewall with accounting: the application of a bridge.

use std::sync::Arc;

use flowloom_engine::{App, FlowState, FlowValue, Verdict};
use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use crate::accounting::{Accounted, Accounting};
use crate::firewall::{Firewall, FirewallFlow, FirewallOptions, LiveRules};
use crate::source_direction::SourceDirection;

const TCP_ACK: u16 = 16;

/// The accounting record of a flow, and its verdict.
///
/// A full table evicts flows that are not established: TCP connections whose handshake is not
/// complete, and other flows without packets in both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardedFlow {
    account: Accounted,
    firewall: FirewallFlow,
}

impl GuardedFlow {
    /// Returns the accounting record, which includes denied packets.
    pub fn account(&self) -> &Accounted {
        &self.account
    }

    /// Returns the verdict and the counts of accepted and denied packets. They belong to the
    /// connection, even if accounting splits it into several records.
    pub fn firewall(&self) -> &FirewallFlow {
        &self.firewall
    }
}

impl FlowState for GuardedFlow {
    const COLUMNS: &'static [&'static str] = Accounted::COLUMNS;
    const EVICTABLE: bool = true;

    fn values(&self, out: &mut Vec<FlowValue>) {
        self.account.values(out);
    }

    fn is_closed(&self) -> bool {
        self.account.is_closed()
    }

    fn is_established(&self) -> bool {
        let is_answered = self.account.packets().iter().all(|packets| *packets > 0);
        // The opening side acknowledges only what was answered.
        let flags = self.account.flags();
        let is_tcp = flags != [0, 0];
        is_answered && (!is_tcp || flags.iter().all(|flags| flags & TCP_ACK != 0))
    }
}

impl SourceDirection for GuardedFlow {
    fn source_direction(&self) -> Option<Direction> {
        self.account.source_direction().into()
    }
}

/// [`Accounting`], and a [`Firewall`] if there are rules; without rules all packets pass.
///
/// # Examples
///
/// ```
/// use flowloom_apps::{Accounting, Guard};
/// // One for each worker: `engine::run_wires` takes a closure like this.
/// let app = |_worker: usize| Guard::new(Accounting::new(Some(1_800_000_000_000)), None);
/// # let _ = app(0);
/// ```
#[derive(Debug)]
pub struct Guard {
    accounting: Accounting,
    firewall: Option<Firewall>,
}

impl Guard {
    /// Returns the application of one worker.
    #[must_use]
    pub fn new(accounting: Accounting, rules: Option<(Arc<LiveRules>, FirewallOptions)>) -> Self {
        Self { accounting, firewall: rules.map(|(live, options)| Firewall::new(live, options)) }
    }
}

impl App for Guard {
    type Flow = GuardedFlow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut GuardedFlow) -> Verdict {
        self.accounting.on_packet(packet, &mut flow.account);
        match &mut self.firewall {
            Some(firewall) => firewall.on_packet(packet, &mut flow.firewall),
            None => Verdict::Accept,
        }
    }

    /// The verdict continues when accounting begins another record.
    #[inline]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut GuardedFlow) -> Option<GuardedFlow> {
        let account = self.accounting.next_record(packet, &mut flow.account)?;
        Some(GuardedFlow { account, firewall: flow.firewall.clone() })
    }
}
