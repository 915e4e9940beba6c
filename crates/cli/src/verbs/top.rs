//! Adds records up by host, pair, port, protocol or conversation, and shows the largest groups.

mod groups;

use crate::args::Common;
use crate::args::replay::{AppName, LayoutName};
use crate::args::top::{GroupBy, SortBy, Top};
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::render::top::{RestFigures, RowFigures, TargetFigures, TopResult};
use crate::render::{print, say_error};

use super::replay::look;

use groups::{Group, Groups, Totals};

/// Runs the command.
pub(crate) fn run(arguments: &Top, common: &Common) -> Result<Status, Failure> {
    arguments.input.check()?;
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
    replay.layout = if arguments.workers.is_none() { Some(LayoutName::Inline) } else { None };
    let mut groups = Groups::new(arguments.by, arguments.groups_max);
    let looked = look(&replay, common, "top", &mut |record, label| groups.add(record, label))?;
    let order = |totals: &Totals| totals.figure(arguments.sort);
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
        inputs: arguments.input.inputs.iter().map(|path| path.display().to_string()).collect(),
        by: arguments.by,
        sort: arguments.sort,
        packets: looked.packets,
        packets_passed_over: looked.passed_over,
        no_result: looked.no_result,
        records: total.flows,
        records_passed_over: looked.filtered.map(|counts| counts.passed_over),
        record_packets: total.packets(),
        record_bytes: total.bytes(),
        record_ip_bytes: total.ip_bytes,
        first_ns: looked.first_ns,
        last_ns: looked.last_ns,
        groups: told,
        groups_max: arguments.groups_max,
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

fn row(group: Group, totals: &Totals) -> RowFigures {
    let oriented = totals.oriented(&group);
    let duration_ns = totals.last_ns.saturating_sub(totals.first_ns);
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
        targets: matches!(group, Group::Source(_)).then_some(TargetFigures {
            peers: totals.peers,
            ports: totals.ports,
            targets_bounded: totals.has_more,
        }),
    }
}
