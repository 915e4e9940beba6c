//! The applications of `replay`, each a [`Role`].

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::apps::{Accounting, CacheProbe, Firewall, L7Filter, L7Plan, Meter, Null, TcpTracker};
use flowloom::record::GroupSet;

use super::firewall::FirewallRole;
use super::probe::Probe;
use super::role::Role;
use super::setup::Modules;
use crate::args::replay::TableName;
use crate::verify::Sums;

/// The application without work.
pub(super) struct NullRole;

impl Role for NullRole {
    type App = Null;
    const NAME: &'static str = "null";
    const SUMS: Sums = &[];

    fn app(&self) -> Null {
        Null
    }
}

/// The connection tracker.
pub(super) struct TrackerRole;

impl Role for TrackerRole {
    type App = TcpTracker;
    const NAME: &'static str = "tcp-tracker";
    const SUMS: Sums = &[
        &["packets_low_to_high"],
        &["packets_high_to_low"],
        &["bytes_low_to_high"],
        &["bytes_high_to_low"],
        &["tcp_flags_low_to_high"],
        &["tcp_flags_high_to_low"],
    ];

    fn app(&self) -> TcpTracker {
        TcpTracker
    }
}

/// Accounting, with or without an active timeout.
pub(super) struct AccountingRole(pub(super) Option<u64>);

impl Role for AccountingRole {
    type App = Accounting;
    const NAME: &'static str = "accounting";
    const SUMS: Sums = &[
        &["packets_low_to_high"],
        &["packets_high_to_low"],
        &["bytes_low_to_high"],
        &["bytes_high_to_low"],
        &["ip_bytes_low_to_high"],
        &["ip_bytes_high_to_low"],
        &["tcp_flags_low_to_high"],
        &["tcp_flags_high_to_low"],
    ];

    fn app(&self) -> Accounting {
        Accounting::new(self.0)
    }
}

/// Accounting with the modules of a run.
pub(super) struct MeterRole {
    pub(super) active_ns: Option<u64>,
    /// The groups of additional fields that it keeps.
    pub(super) fields: GroupSet,
    pub(super) memory: FieldMemory,
    pub(super) l7: Option<L7Plan>,
    pub(super) rules: Option<FirewallRole>,
}

impl MeterRole {
    pub(super) fn new(modules: Modules, l7: Option<L7Plan>, rules: Option<FirewallRole>) -> Self {
        let Modules { active_ns, fields, .. } = modules;
        // The plan of the tables sets the limit.
        Self { active_ns, fields, memory: FieldMemory::new(u64::MAX), l7, rules }
    }

    fn with_rules(&self, rules: Option<Firewall>) -> Meter {
        let mut meter =
            Meter::new(Accounting::new(self.active_ns)).with_fields(self.fields).with_memory(&self.memory);
        if let Some(plan) = &self.l7 {
            meter = meter.with_labels(plan.app());
        }
        match rules {
            Some(rules) => meter.with_rules(rules),
            None => meter,
        }
    }
}

impl Role for MeterRole {
    type App = Meter;
    const NAME: &'static str = AccountingRole::NAME;
    const SUMS: Sums = AccountingRole::SUMS;

    fn app(&self) -> Meter {
        self.with_rules(self.rules.as_ref().map(Role::app))
    }

    fn oracle(&self) -> Meter {
        self.with_rules(self.rules.as_ref().map(Role::oracle))
    }

    fn l7(&self) -> Option<&L7Plan> {
        self.l7.as_ref()
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        (!self.fields.is_empty()).then_some(&self.memory)
    }

    fn bytes_beside(&self) -> usize {
        Meter::bytes_per_flow(self.app().groups())
    }
}

/// The L7 filter.
pub(super) struct L7Role(pub(super) L7Plan);

impl Role for L7Role {
    type App = L7Filter;
    const NAME: &'static str = "l7";
    const SUMS: Sums = &[&["packets"], &["bytes"]];

    fn app(&self) -> L7Filter {
        self.0.app()
    }

    fn l7(&self) -> Option<&L7Plan> {
        Some(&self.0)
    }
}

/// Another application, combined with a simulated cache.
pub(super) struct Beside<R>(pub(super) R, pub(super) Probe);

impl<R: Role> Role for Beside<R> {
    type App = CacheProbe<R::App>;
    const NAME: &'static str = R::NAME;
    const SUMS: Sums = R::SUMS;

    fn app(&self) -> Self::App {
        self.1.beside(self.0.app())
    }

    fn oracle(&self) -> Self::App {
        self.1.beside(self.0.oracle())
    }

    fn l7(&self) -> Option<&L7Plan> {
        Role::l7(&self.0)
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        Role::field_memory(&self.0)
    }

    fn bytes_beside(&self) -> usize {
        Role::bytes_beside(&self.0)
    }

    /// A simulated cache is slower than an allocation.
    fn is_typed(_table: TableName) -> bool {
        false
    }
}
