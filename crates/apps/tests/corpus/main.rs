//! Accounting over scenarios with known answers: in one run with all fields, and in parts that are
//! saved, loaded and composed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::cast_precision_loss, reason = "statistics are compared to a part in 10^9")]

mod derived;
mod judge;
#[path = "../memory/mod.rs"]
mod memory;
mod zeek;

use std::fmt::Write;

use flowloom_apps::accounting::fields::{AllFields, Detailed, DetailedAccounting, FieldMemory};
use flowloom_apps::accounting::{Accounted, AccountingRecord};
use flowloom_apps::{Accounting, RecordState, SaveState};
use flowloom_engine::record::{Group, GroupSet, Schema, Value};
use flowloom_engine::{
    App, Control, Cores, Endpoints, EngineConfig, FlowRecord, IdleTimeout, Layout, MergeError, PartRecord,
    RunReport, SavedPart, merge_parts, run_with,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{LineHash, TableOptions};
use flowloom_packet::DecodeOptions;
use flowloom_scenarios::Scenario;
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::defrag::{Defrag, DefragLimits};
use serde_json::Value as Json;

use judge::{Judge, Record};
use memory::Memory;

/// A scenario, its packets, and the settings of a meter that its answers presume.
struct Case {
    answers: Json,
    packets: Memory,
    decode: DecodeOptions,
    idle_timeout: IdleTimeout,
    app: Accounting,
}

impl Case {
    fn new(scenario: &Scenario) -> Self {
        let answers: Json = serde_json::from_str(&scenario.answers()).unwrap();
        let (settings, capture) = (&answers["settings"], &answers["capture"]);
        let number = |of: &Json, name: &str| of[name].as_u64();
        let whole = usize::try_from(number(capture, "packets").unwrap()).unwrap();
        let frames =
            scenario.packets()[..whole].iter().map(|packet| (packet.stamp_ns, packet.bytes.clone()));
        let snap_bytes = usize::try_from(number(capture, "snap_bytes").unwrap()).unwrap();
        let mut decode = DecodeOptions::default().with_decap(settings["decapsulated"] == true);
        decode.ignore_vlan = settings["vlan_in_key"] != true;
        let [idle_ns, active_ns] = ["idle_timeout_s", "active_timeout_s"]
            .map(|name| number(settings, name).map(|seconds| seconds * 1_000_000_000));
        Self {
            packets: Memory::of_frames(frames, snap_bytes),
            decode,
            idle_timeout: IdleTimeout::from_ns(idle_ns.unwrap()),
            app: Accounting::new(active_ns),
            answers,
        }
    }

    fn run<A: App>(
        &self,
        packets: &Memory,
        app: impl Fn() -> A,
        mut part: impl FnMut(&FlowRecord<A::Flow>, [u64; 2], bool) + Send,
    ) -> RunReport<A::Flow> {
        let config = EngineConfig {
            cores: Cores::Unpinned,
            hasher: FlowHasher::with_seed(5),
            idle_timeout: Some(self.idle_timeout),
            decode: self.decode,
            ..EngineConfig::new(Layout::Inline)
        };
        let mut source = Defrag::new(packets.clone(), self.decode, DefragLimits::default());
        let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
        let table =
            TableOptions { timeouts: self.idle_timeout.for_table(), ..TableOptions::for_flows(100) };
        let table = |_| LineHash::<FlowKey, A::Flow>::try_new(&table);
        let control = Control::default();
        let mut endpoints = Endpoints::new(&mut source, &mut policy, &control);
        endpoints.part = Some(&mut part);
        let report = run_with(&config, endpoints, table, |_| app()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none(), "{:?}", report.fault);
        report
    }

    /// Returns the records of one run, with all fields.
    fn whole(&self) -> Vec<Record> {
        let memory = FieldMemory::new(64 << 20);
        // Zeek's rules end an attempt whose answer the tap misses, or stamps late.
        let groups: GroupSet = Group::FIELDS
            .into_iter()
            .filter(|group| *group != Group::Conn || judge::has_conn(&self.answers))
            .collect();
        let app =
            || DetailedAccounting::<AllFields>::new(self.app).with_memory(&memory).with_groups(groups);
        let report = self.run(&self.packets, app, |_, _, _| {});
        let schema = Detailed::<AllFields>::schema();
        let record = |flow: &FlowRecord<Detailed<AllFields>>| {
            let mut values = Vec::new();
            flow.state.record_values(&flow.key, flow.ended, GroupSet::ALL, &mut values);
            named(&schema, &values)
        };
        report.flows.iter().map(record).collect()
    }

    /// Returns the records of parts between `cuts`, or why they do not compose.
    fn composed(&self, cuts: &[usize]) -> Result<Vec<Record>, MergeError> {
        let ends = cuts.iter().copied().chain([self.packets.len()]);
        let begins = [0].into_iter().chain(cuts.iter().copied());
        let parts = begins.zip(ends).map(|(begin, end)| {
            let mut records = Vec::new();
            let save = |record: &FlowRecord<Accounted>, ticks: [u64; 2], is_live: bool| {
                let mut bytes = Vec::new();
                record.state.save(&mut bytes);
                let state = SaveState::load(&bytes).unwrap();
                records.push(PartRecord::new(record.key, ticks, (!is_live).then_some(record.ended), state));
            };
            let report = self.run(&self.packets.between(begin, end), || self.app, save);
            SavedPart::new(report.input.clone(), report.worker_totals(), records)
        });
        let compose = |flow: &mut _, later: &mut _| self.app.compose(flow, later);
        let merged = merge_parts(parts.collect(), Some(self.idle_timeout), compose)?;
        let record = |flow: &FlowRecord<Accounted>| {
            let row = AccountingRecord::new(&flow.key, &flow.state, flow.ended).row();
            named(&AccountingRecord::schema(), &row.values)
        };
        Ok(merged.flows.iter().map(record).collect())
    }
}

/// Parts of the usual scenarios whose connections need packets.
const REFUSED: usize = 975;

/// Returns values by the names of their columns.
fn named(schema: &Schema, values: &[Value]) -> Record {
    let json = |value: &Value| match value {
        Value::Number(number) | Value::Bits(number) => (*number).into(),
        Value::Real(bits) => f64::from_bits(*bits).into(),
        Value::None => Json::Null,
        other => other.to_string().into(),
    };
    schema.columns().iter().zip(values).map(|(column, value)| (column.name, json(value))).collect()
}

/// Sets of scenarios: how many, and how many dimensions the drawn ones combine.
fn scenarios() -> impl Iterator<Item = Scenario> {
    let variable = |name: &str| std::env::var(format!("FLOWLOOM_SCENARIOS{name}")).ok();
    let number = |name: &str, default: u64| variable(name).map_or(default, |text| text.parse().unwrap());
    let (count, seed) = (number("", 300), number("_SEED", 11));
    [2, 3]
        .into_iter()
        .flat_map(move |combined| (0..count).map(move |index| Scenario::new(seed, index, combined)))
}

#[test]
fn records_of_scenarios_match_their_construction() {
    let mut judge = Judge::default();
    let mut count = 0;
    for scenario in scenarios() {
        let case = Case::new(&scenario);
        judge.records(&case.answers, case.whole(), true);
        count += 1;
    }
    assert!(judge.differences.is_empty(), "the first numbers are indices\n{}", judge.differences);
    assert!(judge.values > count * 200, "{} values of {count} scenarios", judge.values);
    assert!(judge.known * 100 < judge.values, "{} known differences", judge.known);
}

#[test]
fn parts_of_scenarios_compose_to_the_records_of_their_construction() {
    let mut judge = Judge::default();
    let (mut composed, mut refused, mut refusals) = (0, 0, String::new());
    for (nth, scenario) in (0..).zip(scenarios()) {
        let case = Case::new(&scenario);
        let len = case.packets.len();
        // A joined datagram belongs to one part.
        if judge::has(&case.answers, "fragments") || len < 3 {
            continue;
        }
        // Two parts at some places, which are other ones in each scenario, and three.
        let place = |step: usize| 1 + (nth + step * len / 12) % (len - 1);
        let [one, other] = [place(1).min(place(5)), place(1).max(place(5))];
        let two = (0..12).map(|step| vec![place(step)]);
        for cuts in two.chain([vec![one, other]]) {
            match case.composed(&cuts) {
                Ok(records) => {
                    judge.records(&case.answers, records, false);
                    composed += 1;
                }
                Err(MergeError::NeedsPackets { .. }) if judge::may_need_packets(&case.answers) => {
                    refused += 1;
                }
                Err(MergeError::Overlap { .. } | MergeError::Clock { .. })
                    if judge::begins(&case.answers, "clock-") => {}
                Err(error) => {
                    writeln!(refusals, "{} cut at {cuts:?}: {error}", case.answers["name"]).unwrap();
                }
            }
        }
    }
    assert!(judge.differences.is_empty(), "the first numbers are indices\n{}", judge.differences);
    assert!(refusals.is_empty(), "{refusals}");
    assert!(refused * 4 < composed, "{refused} of {composed}");
    // Which parts compose is no matter of chance: another number is another rule.
    let is_usual = std::env::vars().all(|(name, _)| !name.starts_with("FLOWLOOM_SCENARIOS"));
    assert!(!is_usual || refused == REFUSED, "{refused} parts need packets, not {REFUSED}");
}

#[test]
fn every_known_difference_still_exists() {
    for names in judge::known_differences() {
        let mut judge = Judge::default();
        for index in 0..20_000 {
            let scenario = Scenario::new(2, index, 2);
            if judge.known == 0 && names.split('+').all(|name| scenario.dimensions().contains(&name)) {
                let case = Case::new(&scenario);
                judge.records(&case.answers, case.whole(), true);
            }
        }
        assert!(judge.differences.is_empty(), "{names}\n{}", judge.differences);
        assert!(judge.known > 0, "{names} differs no more: remove it here and in docs/scenarios.md");
    }
}
