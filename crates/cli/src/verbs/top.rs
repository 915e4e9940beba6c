//! Adds records up by host, pair, port, protocol or conversation, and shows the largest groups.

mod groups;

use flowloom::apps::accounting::AccountingRecord;
use flowloom::apps::{EndedFlow, L7Flow, MeterFlow, RecordState as _};
use flowloom::record::{Group as GroupOf, GroupSet, Value};

use crate::args::replay::{AppName, LayoutName};
use crate::args::top::{GroupBy, SortBy, Top};
use crate::args::{Common, Format};
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::memory_budget::Budget;
use crate::record_view::Where;
use crate::render::top::{RestFigures, RowFigures, TargetFigures, TopResult};
use crate::render::{print, say_error};

use super::replay::look;

use groups::{Figure, Figures, Group, Groups, Totals};

/// Bytes of a group in a map that is about to double.
const GROUP_BYTES: u64 = 3 * (size_of::<(Group, Totals)>() as u64 + 1);

/// Runs the command.
pub(crate) fn run(arguments: &Top, common: &Common) -> Result<Status, Failure> {
    arguments.input.check("; to rank denied packets, write them with extract --verdict deny")?;
    let mut replay = arguments.input.replay();
    replay.workers = arguments.workers;
    if arguments.by == GroupBy::L7 {
        replay.app = AppName::L7;
        replay.patterns.clone_from(&arguments.patterns);
    } else if !arguments.patterns.is_empty() {
        return Err(Failure::Usage(String::from("--patterns is for --by l7\n  add --by l7")));
    }
    if matches!(arguments.sort, SortBy::Peers | SortBy::Ports) && arguments.by != GroupBy::Source {
        return Err(Failure::Usage(String::from(
            "--sort peers and --sort ports are for --by source\n  add --by source",
        )));
    }
    if arguments.sort == SortBy::Sent && !matches!(arguments.by, GroupBy::Host | GroupBy::Source) {
        return Err(Failure::Usage(String::from(
            "--sort sent is for --by host and --by source, which have a sender\n  add --by host",
        )));
    }
    replay.layout = if arguments.workers.is_none() { Some(LayoutName::Inline) } else { None };
    // The groups take their memory first; the tables have the rest.
    let rows_bytes_max = Budget::of_free(arguments.input.memory).rows_bytes_max()?;
    let groups_max = arguments.groups_max.min(rows_bytes_max / GROUP_BYTES).max(1);
    replay.rows_bytes = groups_max.saturating_mul(GROUP_BYTES).min(rows_bytes_max);
    let sort = arguments.sort;
    // Tables for people leave them out.
    let with_fields = matches!(common.format, Format::Json | Format::Jsonl | Format::Csv)
        || matches!(sort, SortBy::Retransmissions | SortBy::Resets | SortBy::HandshakeRtt);
    let mut fields = with_fields.then(Fields::new);
    if with_fields {
        replay.fields = Some("handshake,tcp".parse().expect("these are groups of fields"));
    }
    let mut groups = Groups::new(arguments.by, groups_max);
    let mut add = |record: &_, flow: &dyn EndedFlow| {
        let figures = fields.as_mut().map(|fields| fields.figures(record, flow)).unwrap_or_default();
        groups.add(record, flow.label().and_then(L7Flow::protocol), figures);
    };
    let looked = look(&replay, common, "top", None, &mut add)?;
    let order = |totals: &Totals| totals.figure(sort);
    let count = if arguments.count == 0 { usize::MAX } else { arguments.count };
    let (told, untold, total) = (groups.len() as u64, groups.untold(), groups.total());
    let (shown, rest) = if arguments.by == GroupBy::Hierarchy {
        groups.tree(count, order)
    } else {
        groups.largest(count, order)
    };
    let figures = |groups: u64, totals: &Totals| RestFigures {
        groups,
        flows: totals.flows,
        packets: totals.packets(),
        bytes: totals.bytes(),
        ip_bytes: totals.ip_bytes,
    };
    let result = TopResult {
        schema: "flowloom/top/1",
        tool: tool(),
        decoding: [vec![String::new()], arguments.input.decoding.words()].concat().join(" "),
        inputs: arguments.input.inputs.iter().map(|path| path.display().to_string()).collect(),
        by: arguments.by,
        sort: arguments.sort,
        packets: looked.packets,
        packets_passed_over: looked.passed_over,
        no_result: looked.no_result,
        records: total.flows,
        of_source: arguments.input.record_filter.as_ref().and_then(Where::name_of_one_direction),
        records_passed_over: looked.filtered.map(|counts| counts.passed_over),
        record_packets: total.packets(),
        record_bytes: total.bytes(),
        record_ip_bytes: total.ip_bytes,
        first_ns: looked.first_ns,
        last_ns: looked.last_ns,
        groups: told,
        groups_max,
        rows: shown.iter().map(|(group, totals)| row(*group, totals)).collect(),
        rest: figures(rest.0, &rest.1),
        untold: figures(0, &untold),
        notices: looked.notices,
        interrupted: looked.interrupted,
        fault: looked.fault,
    };
    print(&result, common)?;
    if let Some(fault) = &result.fault {
        say_error(fault, Status::Fault);
        return Ok(Status::Fault);
    }
    if result.interrupted {
        return Ok(Status::Interrupted);
    }
    Ok(if arguments.input.strict && looked.is_partial { Status::PartialInput } else { Status::Ok })
}

/// What is added up besides the figures of every record.
struct Fields {
    groups: GroupSet,
    /// The columns with the retransmissions of both directions, and that with the round-trip time.
    retransmissions: [usize; 2],
    handshake_rtt: usize,
    row: Vec<Value>,
}

impl Fields {
    fn new() -> Self {
        let schema = MeterFlow::schema();
        let column = |name: &str| schema.named(name).map_or(0, |found| found.index);
        Self {
            groups: [GroupOf::Handshake, GroupOf::Tcp].into_iter().collect(),
            retransmissions: [column("retransmissions"), column("reverse_retransmissions")],
            handshake_rtt: column("handshake_rtt"),
            row: Vec::new(),
        }
    }

    /// Returns the figures of a flow, if it has them.
    fn figures(&mut self, record: &AccountingRecord, flow: &dyn EndedFlow) -> Figures {
        const RST: u16 = 4;
        self.row.clear();
        flow.record_values(self.groups, &mut self.row);
        let value = |column: usize| self.row.get(column).and_then(Value::number);
        let resets = [record.tcp_flags, record.reverse_tcp_flags];
        [
            self.retransmissions.map(value),
            resets.map(|flags| Some(u64::from(flags & RST != 0))),
            [value(self.handshake_rtt); 2],
        ]
    }
}

fn row(group: Group, totals: &Totals) -> RowFigures {
    let oriented = totals.oriented(&group);
    let duration_ns = totals.duration_ns();
    let bits_per_second =
        (duration_ns > 0).then(|| totals.bytes() as f64 * 8.0 / (duration_ns as f64 / 1e9));
    RowFigures {
        name: group.name(totals),
        depth: group.depth(),
        flows: totals.flows,
        packets: totals.packets(),
        bytes: totals.bytes(),
        ip_bytes: totals.ip_bytes,
        packets_sent: oriented.0[0],
        packets_received: oriented.0[1],
        bytes_sent: oriented.1[0],
        bytes_received: oriented.1[1],
        first_ns: totals.first_ns,
        last_ns: totals.last_ns,
        duration_ns,
        bits_per_second,
        retransmissions: totals.additional(Figure::Retransmissions),
        resets: totals.additional(Figure::Resets),
        handshake_rtt_ns: totals.additional(Figure::HandshakeRtt),
        targets: matches!(group, Group::Source(_)).then_some(TargetFigures {
            peers: totals.peers,
            ports: totals.ports,
            targets_bounded: totals.has_more,
        }),
    }
}
