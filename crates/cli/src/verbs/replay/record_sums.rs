//! Sums of a run's records for its page, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use flowloom::apps::EndedFlow;
use flowloom::record::{Column, Kind, Value, protocol_name};

use crate::render::traffic::{DurationSums, ProtocolSums, SizeSums, SumFigures, TalkerFigures, TalkerRow};

/// Number of hosts in the list of talkers.
const TALKERS: usize = 50;
/// Number of hosts that are kept at least. Up to twice as many are kept at a time.
const HOSTS: usize = 1 << 16;

/// Records, packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    flows: u64,
    packets: u64,
    bytes: u64,
}

impl Sums {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.flows += 1;
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// The sums of all records, by several keys. Each is the same in any order of the records, except
/// those of hosts once there are more than the limit.
#[derive(Debug)]
pub(super) struct RecordSums {
    total: Sums,
    by_protocol: Vec<Sums>,
    /// By the power of two of the number of packets.
    by_size: [Sums; 64],
    /// By the number of digits of the microseconds.
    by_duration: [u64; 21],
    has_durations: bool,
    hosts: Hosts,
    values: Vec<Value>,
}

impl Default for RecordSums {
    fn default() -> Self {
        Self {
            total: Sums::default(),
            by_protocol: vec![Sums::default(); 256],
            by_size: [Sums::default(); 64],
            by_duration: [0; 21],
            has_durations: false,
            hosts: Hosts::new(HOSTS),
            values: Vec::new(),
        }
    }
}

impl RecordSums {
    /// Adds a record, unless its application counts no packets.
    pub(super) fn add(&mut self, record: &dyn EndedFlow) {
        self.values.clear();
        record.state_values(&mut self.values);
        let (mut packets, mut bytes, mut times) = (None, 0, [None; 2]);
        for (Column { name, kind, .. }, value) in record.state_columns().iter().zip(&self.values) {
            match (kind, value) {
                (Kind::Packets, Value::Number(count)) if name.starts_with("packets") => {
                    *packets.get_or_insert(0) += count;
                }
                (Kind::Bytes, Value::Number(count)) if name.starts_with("bytes") => bytes += count,
                (Kind::Time, Value::Number(time)) => {
                    times[usize::from(times[0].is_some())] = Some(*time);
                }
                _ => {}
            }
        }
        let Some(packets) = packets else { return };
        self.total.add(packets, bytes);
        let key = record.key();
        self.by_protocol[usize::from(key.protocol())].add(packets, bytes);
        self.by_size[packets.max(1).ilog2() as usize].add(packets, bytes);
        if let [Some(first), Some(last)] = times {
            self.has_durations = true;
            let us = last.saturating_sub(first) / 1000;
            self.by_duration[us.checked_ilog10().map_or(0, |power| power as usize + 1)] += 1;
        }
        let (low, high) = (key.low_address(), key.high_address());
        self.hosts.add(low, packets, bytes);
        if high != low {
            self.hosts.add(high, packets, bytes);
        }
    }

    /// Returns the figures; `None` without a record that has packets.
    pub(super) fn figures(self) -> Option<SumFigures> {
        let Sums { flows, packets, bytes } = self.total;
        if flows == 0 {
            return None;
        }
        let name = |number: u8| protocol_name(number).map_or_else(|| number.to_string(), str::to_owned);
        let mut protocols: Vec<ProtocolSums> = (0..=u8::MAX)
            .zip(&self.by_protocol)
            .filter(|(_, sums)| sums.flows > 0)
            .map(|(number, &Sums { flows, packets, bytes })| ProtocolSums {
                protocol: name(number),
                flows,
                packets,
                bytes,
            })
            .collect();
        protocols.sort_by_key(|protocol| Reverse(protocol.bytes));
        let largest = self.by_size.iter().rposition(|sums| sums.flows > 0).unwrap_or(0);
        let sizes = (0..=largest).map(|power| SizeSums {
            packets_from: 1 << power,
            flows: self.by_size[power].flows,
            packets: self.by_size[power].packets,
        });
        let longest = self.by_duration.iter().rposition(|&flows| flows > 0).unwrap_or(0);
        let from_ns = |digits: usize| match digits {
            0 => 0,
            _ => 10_u64.saturating_pow(u32::try_from(digits + 2).unwrap_or(u32::MAX)),
        };
        let durations = (0..=longest)
            .map(|digits| DurationSums { from_ns: from_ns(digits), flows: self.by_duration[digits] });
        Some(SumFigures {
            flows,
            packets,
            bytes,
            protocols,
            flow_sizes: sizes.collect(),
            flow_durations: self.has_durations.then(|| durations.collect()),
            talkers: self.hosts.figures(),
        })
    }
}

/// The hosts with the most bytes.
///
/// All hosts are kept until there are twice `least`. Then the `least` heaviest stay, and the weight
/// of the heaviest other is subtracted from theirs (Misra and Gries). What a host lost that way is
/// at most the sum of the subtracted weights, `missed_max`, and that is at most all weights divided
/// by `least`.
#[derive(Debug)]
struct Hosts {
    least: usize,
    /// The sums since the host was added last, and its weight.
    sums: HashMap<IpAddr, (Sums, u64)>,
    missed_max: u64,
    is_exact: bool,
}

impl Hosts {
    fn new(least: usize) -> Self {
        Self { least, sums: HashMap::new(), missed_max: 0, is_exact: true }
    }

    fn add(&mut self, host: IpAddr, packets: u64, bytes: u64) {
        if self.sums.len() >= 2 * self.least && !self.sums.contains_key(&host) {
            self.shrink();
        }
        let (sums, weight) = self.sums.entry(host).or_default();
        sums.add(packets, bytes);
        *weight += bytes;
    }

    fn shrink(&mut self) {
        let mut weights: Vec<u64> = self.sums.values().map(|(_, weight)| *weight).collect();
        let (_, &mut cut, _) = weights.select_nth_unstable_by_key(self.least, |&weight| Reverse(weight));
        self.sums.retain(|_, (_, weight)| {
            *weight = weight.saturating_sub(cut);
            *weight > 0
        });
        self.missed_max += cut;
        self.is_exact = false;
    }

    fn figures(self) -> TalkerFigures {
        let hosts = self.is_exact.then_some(self.sums.len() as u64);
        let mut all: Vec<(IpAddr, Sums)> =
            self.sums.into_iter().map(|(host, (sums, _))| (host, sums)).collect();
        all.sort_unstable_by_key(|(host, sums)| (Reverse(sums.bytes), *host));
        all.truncate(TALKERS);
        let rows = all.into_iter().map(|(host, Sums { flows, packets, bytes })| TalkerRow {
            host: host.to_string(),
            flows,
            packets,
            bytes,
        });
        TalkerFigures { hosts, bytes_missed_max: self.missed_max, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use flowloom::apps::{RecordState, TcpFlow};
    use flowloom::engine::{EndedBy, FlowRecord, FlowState};
    use flowloom::flow_key::FlowKey;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Given([u64; 4]);

    impl FlowState for Given {
        const COLUMNS: &'static [Column] = &[
            Column::new("packets", Kind::Packets, ""),
            Column::new("bytes", Kind::Bytes, ""),
            Column::new("first_ns", Kind::Time, ""),
            Column::new("last_ns", Kind::Time, ""),
            Column::new("ip_bytes", Kind::Bytes, ""),
        ];

        fn values(&self, out: &mut Vec<Value>) {
            let [packets, bytes, first, last] = self.0;
            out.extend([Value::Number(packets), Value::Number(bytes), Value::Number(first)]);
            out.extend([Value::Number(last), Value::Number(7)]);
        }
    }

    impl RecordState for Given {}

    #[test]
    fn each_record_is_counted_under_its_own_key() {
        let record = |hosts: (u32, u32), figures| {
            let key = FlowKey::from_v4(hosts.0, hosts.1, 1, 2, 6).0;
            FlowRecord::new(key, Given(figures), EndedBy::EndOfInput)
        };
        let mut sums = RecordSums::default();
        sums.add(&record((1, 2), [1, 60, 5, 5]));
        sums.add(&record((1, 3), [3, 100, 0, 999]));
        sums.add(&record((2, 2), [4, 1000, 0, 1_000]));
        sums.add(&record((1, 2), [7, 10, 0, 9_999_999]));
        let figures = sums.figures().unwrap();
        assert_eq!((figures.flows, figures.packets, figures.bytes), (4, 15, 1170));
        let sizes: Vec<_> =
            figures.flow_sizes.iter().map(|size| (size.packets_from, size.flows, size.packets)).collect();
        assert_eq!(sizes, [(1, 1, 1), (2, 1, 3), (4, 2, 11)]);
        let durations: Vec<_> =
            figures.flow_durations.unwrap().iter().map(|d| (d.from_ns, d.flows)).collect();
        assert_eq!(durations, [(0, 2), (1_000, 1), (10_000, 0), (100_000, 0), (1_000_000, 1)]);
        let hosts: Vec<_> =
            figures.talkers.rows.iter().map(|row| (row.host.as_str(), row.bytes, row.flows)).collect();
        assert_eq!(hosts, [("0.0.0.2", 1070, 3), ("0.0.0.1", 170, 3), ("0.0.0.3", 100, 1)]);
        assert_eq!((figures.talkers.hosts, figures.protocols[0].protocol.as_str()), (Some(3), "tcp"));
        assert!(RecordSums::default().figures().is_none());
        let times = TcpFlow::COLUMNS.iter().filter(|column| column.kind == Kind::Time);
        assert_eq!(times.map(|column| column.name).collect::<Vec<_>>(), ["first_ns", "last_ns"]);
    }

    proptest! {
        #[test]
        fn hosts_miss_at_most_the_stated_bytes(
            added in prop::collection::vec((0..60_u32, 0..1000_u64), 0..400),
            least in 1..20_usize,
        ) {
            let mut hosts = Hosts::new(least);
            let mut truth: HashMap<IpAddr, u64> = HashMap::new();
            for &(host, bytes) in &added {
                let host = IpAddr::V4(host.into());
                hosts.add(host, 1, bytes);
                *truth.entry(host).or_default() += bytes;
                prop_assert!(hosts.sums.len() <= 2 * least);
            }
            let all: u64 = truth.values().sum();
            let few = truth.len() <= 2 * least;
            let figures = hosts.figures();
            prop_assert!(figures.bytes_missed_max <= all / least as u64);
            prop_assert!(!few || (figures.hosts, figures.bytes_missed_max) == (Some(truth.len() as u64), 0));
            let shown: HashMap<IpAddr, u64> =
                figures.rows.iter().map(|row| (row.host.parse().unwrap(), row.bytes)).collect();
            for (host, bytes) in truth {
                let found = shown.get(&host).copied().unwrap_or(0);
                prop_assert!(found <= bytes && bytes <= found + figures.bytes_missed_max, "{host}");
            }
        }
    }
}
