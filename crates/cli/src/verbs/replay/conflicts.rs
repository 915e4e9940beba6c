//! Options of `replay` that exclude each other, or that need another.
//!
//! Clap refuses what two options say by themselves. This table has what depends on their values, on
//! the application or on the kind of input. A run is refused before anything is opened.

use std::path::Path;

use flowloom::apps::accounting::fields::all_columns;
use flowloom::record::Group;
use flowloom::traffic::capture::Input;

use crate::args::replay::{AppName, FullName, LayoutName, Replay, TableName, TimesName};
use crate::exit::Failure;
use crate::flow_file::Destination;
use crate::record_format::Format;

use super::setup::scheduler;

/// Options that do not go together.
struct Conflict {
    /// Options that show it. `CAPTURE` and `RULES` stand for files.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests run the examples"))]
    example: &'static str,
    /// Returns the error in the arguments and its remedy.
    refuses: fn(&Replay) -> Option<String>,
}

/// Refuses arguments that contradict each other.
///
/// # Errors
///
/// Names the options, why they do not go together, and what to do.
pub(super) fn check(arguments: &Replay) -> Result<(), Failure> {
    let mut found = CONFLICTS.iter().filter_map(|conflict| (conflict.refuses)(arguments));
    found.next().map_or(Ok(()), |text| Err(Failure::Usage(text)))
}

/// Returns a text if the options are given.
fn when(is_given: bool, text: &str) -> Option<String> {
    is_given.then(|| text.to_owned())
}

/// Returns the first option that is given.
fn first_of(options: &[(bool, &'static str)]) -> Option<&'static str> {
    options.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
}

/// Returns whether the application keeps no accounting records.
fn is_without_records(arguments: &Replay) -> bool {
    matches!(arguments.app, AppName::Null | AppName::TcpTracker)
}

/// Returns whether an input can be read only once.
fn is_read_once(arguments: &Replay) -> bool {
    arguments.inputs.iter().any(|path| match Input::from_argument(path) {
        Input::Stdin => true,
        Input::Path(path) => std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()),
    })
}

const CONFLICTS: &[Conflict] = &[
    Conflict {
        example: "CAPTURE --flows flows.xlsx",
        refuses: |arguments| {
            let path = arguments.flows.as_deref()?;
            Destination::parse(path, arguments.flows_format).err()
        },
    },
    Conflict {
        example: "CAPTURE --layout pipeline --threshold 10",
        refuses: |arguments| {
            when(
                arguments.threshold.is_some() && !scheduler(arguments).0.has_threshold(),
                "--threshold is for the adaptive schedulers\n  add --scheduler adaptive",
            )
        },
    },
    Conflict {
        example: "CAPTURE --table sighash --signature 4",
        refuses: |arguments| {
            let option = first_of(&[
                (arguments.signature.is_some(), "--signature"),
                (arguments.major_location.is_some(), "--major-location"),
            ])?;
            (arguments.table != TableName::Dhash)
                .then(|| format!("{option} is for the table of [DHASH]\n  add --table dhash"))
        },
    },
    Conflict {
        example: "CAPTURE --app firewall",
        refuses: |arguments| {
            when(
                arguments.app == AppName::Firewall && arguments.firewall.source.rules.is_none(),
                "--app firewall has no rules\n  name a file with --rules FILE",
            )
        },
    },
    Conflict {
        example: "CAPTURE --app null --rules RULES",
        refuses: |arguments| {
            when(
                is_without_records(arguments) && arguments.firewall.source.rules.is_some(),
                "--rules is for --app firewall, accounting and l7\n  omit --app or --rules",
            )
        },
    },
    Conflict {
        example: "CAPTURE --app null --active-timeout 60",
        refuses: |arguments| {
            let option = first_of(&[
                (arguments.active_timeout.is_some(), "--active-timeout"),
                (arguments.closed_timeout.is_some(), "--closed-timeout"),
            ])?;
            let rest = "other applications keep one record per flow";
            is_without_records(arguments)
                .then(|| format!("{option} is for --app accounting, l7 and firewall\n  {rest}"))
        },
    },
    Conflict {
        example: "CAPTURE --app tcp-tracker --flows flows.csv --fields tcp",
        refuses: |arguments| {
            when(
                is_without_records(arguments) && arguments.fields.is_some(),
                "--fields is for --app accounting, l7 and firewall\n  add --app accounting",
            )
        },
    },
    Conflict {
        example: "CAPTURE --app accounting --save-part a.part --closed-timeout 5",
        refuses: |arguments| {
            when(
                arguments.save_part.is_some() && arguments.closed_timeout.is_some(),
                "--save-part excludes --closed-timeout: a connection that closes across two parts cannot \
                 be merged without its packets",
            )
        },
    },
    Conflict {
        example: "CAPTURE --save-part a.part --app l7",
        refuses: |arguments| {
            let is_kept = is_without_records(arguments) || arguments.app == AppName::Accounting;
            when(
                arguments.save_part.is_some() && (!is_kept || arguments.tcb_cache.is_some()),
                "--save-part is for --app null, tcp-tracker and accounting\n  other applications' flows \
                 cannot be merged later",
            )
        },
    },
    Conflict {
        example: "CAPTURE --flows flows.csv --fragments",
        refuses: |arguments| {
            let is_arrow = arguments.format_of_flows() == Some(Format::Arrow);
            when(
                arguments.fragments && !(is_arrow && arguments.app == AppName::Accounting),
                "--fragments is for --app accounting and records in Arrow\n  add --flows-format arrow, or \
                 name a file .arrows",
            )
        },
    },
    Conflict {
        example: "CAPTURE --flows flows.ipfix --columns source",
        refuses: |arguments| {
            let format = arguments.format_of_flows().filter(|format| !format.has_columns())?;
            let path = arguments.flows.as_deref().filter(|_| arguments.columns.is_some())?;
            Some(format!(
                "--columns is for CSV, JSON lines, Parquet and Arrow; the columns of {}, which --flows {} \
                 writes, are fixed\n  use .csv, .jsonl, .parquet or .arrows, or omit --columns",
                format.name(),
                path.display()
            ))
        },
    },
    Conflict {
        example: "CAPTURE --flows flows.parquet --times iso",
        refuses: |arguments| {
            let is_text = matches!(arguments.format_of_flows(), Some(Format::Csv | Format::Jsonl));
            when(
                arguments.times == TimesName::Iso && !is_text,
                "--times iso is for --flows in CSV and JSON lines; other formats have times of their own\n  \
                 name a file .csv or .jsonl, or omit --times",
            )
        },
    },
    Conflict { example: "CAPTURE --flows flows.nf9 --fields dns", refuses: fields_without_place },
    Conflict {
        example: "CAPTURE --verify --layout pipeline --full drop",
        refuses: |arguments| {
            when(
                arguments.verify && arguments.full == Some(FullName::Drop),
                "--verify needs every packet, but --full drop loses some\n  use --full block",
            )
        },
    },
    Conflict {
        example: "- --verify",
        refuses: |arguments| {
            when(
                arguments.verify && is_read_once(arguments),
                "--verify reads the input twice, but a pipe can be read only once\n  save it to a file first",
            )
        },
    },
    Conflict {
        example: "--iface lo --verify",
        refuses: |arguments| {
            when(
                arguments.verify && arguments.live.iface.is_some(),
                "--verify reads the input twice, but packets arrive at an interface only once\n  save it \
                 to a file first",
            )
        },
    },
    Conflict {
        example: "CAPTURE --verify --loop",
        refuses: |arguments| {
            when(
                arguments.verify && arguments.forever && arguments.limit.is_none(),
                "--verify with --loop needs a --limit",
            )
        },
    },
    Conflict {
        example: "CAPTURE --layout inline --workers 2",
        refuses: |arguments| {
            when(
                arguments.layout == Some(LayoutName::Inline) && arguments.workers.is_some(),
                "--layout inline has no workers\n  omit --workers, or use another layout",
            )
        },
    },
    Conflict {
        example: "CAPTURE --save-part a.part --layout pipeline",
        refuses: |arguments| {
            let is_pipeline = arguments.layout == Some(LayoutName::Pipeline);
            (is_pipeline && arguments.is_part())
                .then(|| format!("{} is not for the pipeline\n  omit --layout", arguments.part_option()))
        },
    },
    Conflict {
        example: "CAPTURE --layout sharded --scheduler flowpin",
        refuses: |arguments| {
            let why =
                shards_excluded_by(arguments).filter(|_| arguments.layout == Some(LayoutName::Sharded))?;
            Some(format!("--layout sharded cannot be used: {why}\n  use --layout pipeline, or inline"))
        },
    },
    Conflict {
        example: "CAPTURE --save-part a.part --workers 2 --ring 64",
        refuses: |arguments| {
            let is_open = arguments.layout.is_none() && arguments.workers.is_some() && arguments.is_part();
            let why = pipeline_asked_by(arguments).filter(|_| is_open)?;
            Some(format!("--workers cannot be used: {why}\n  omit --workers"))
        },
    },
    Conflict {
        example: "CAPTURE --snaplen 100",
        refuses: |arguments| {
            let option = arguments.live.idle_option()?;
            Some(format!("{option} is for live captures: add --iface"))
        },
    },
    Conflict {
        example: "--iface lo --from +1",
        refuses: |arguments| {
            when(
                arguments.live.iface.is_some() && (arguments.from.is_some() || arguments.to.is_some()),
                "--from and --to are for captures, not for --iface",
            )
        },
    },
    Conflict {
        example: "CAPTURE --write -",
        refuses: |arguments| {
            let is_dash = |path: &Option<_>| path.as_deref() == Some(Path::new("-"));
            let option = first_of(&[
                (is_dash(&arguments.write), "--write"),
                (is_dash(&arguments.save_part), "--save-part"),
            ])?;
            Some(format!("{option} needs a file: standard output carries the report"))
        },
    },
];

/// Returns why the layout cannot be sharded.
pub(super) fn shards_excluded_by(arguments: &Replay) -> Option<&'static str> {
    first_of(&[
        (arguments.scheduler.is_some(), "--scheduler is for the pipeline"),
        (arguments.topology.is_some(), "--topology is for the pipeline"),
        (arguments.full.is_some(), "--full is for the pipeline"),
        (arguments.ring.is_some(), "--ring is for the pipeline"),
        (arguments.tcb_cache.is_some(), "a simulated cache sees the packets of all flows in one sequence"),
    ])
}

/// Returns why workers without a named layout are those of a pipeline. The sharded layout keeps
/// every order, but `--order` selects an order of the papers.
pub(super) fn pipeline_asked_by(arguments: &Replay) -> Option<&'static str> {
    let order = arguments.order.map(|_| "--order is for the pipeline");
    shards_excluded_by(arguments).or(order)
}

/// Refuses groups of fields that a format cannot hold. For `all`, one field that the format can
/// hold suffices.
fn fields_without_place(arguments: &Replay) -> Option<String> {
    let (fields, format) = (arguments.fields?, arguments.format_of_flows()?);
    let columns = all_columns();
    let has_place =
        |group: &Group| columns.iter().any(|column| column.group == *group && format.takes(column));
    let asked = || Group::FIELDS.into_iter().filter(|group| fields.groups().contains(*group));
    let without = asked().find(|group| !has_place(group));
    let group = without.filter(|_| !fields.is_all() || !asked().any(|group| has_place(&group)))?;
    let places: Vec<&str> =
        Group::FIELDS.iter().filter(|group| has_place(group)).map(|group| group.name()).collect();
    let places = if places.is_empty() {
        String::from("it can hold none of them")
    } else {
        format!("it can hold {}", places.join(", "))
    };
    Some(format!(
        "--fields {}: {} cannot hold these fields; {places}\n  use .csv, .jsonl or .parquet for all of \
         them",
        group.name(),
        format.name()
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The arguments of the verb alone, with its defaults.
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        replay: Replay,
    }

    fn parsed(options: &str) -> Replay {
        let words = ["replay"].into_iter().chain(options.split(' '));
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{options}: {error}")).replay
    }

    #[test]
    fn every_conflict_refuses_its_example_and_says_what_to_do() {
        for conflict in CONFLICTS {
            let arguments = parsed(conflict.example);
            let Some(text) = (conflict.refuses)(&arguments) else {
                panic!("{} is not refused", conflict.example);
            };
            let option = conflict.example.split(' ').find(|word| word.starts_with("--")).unwrap();
            assert!(text.starts_with("--"), "{text}: names no option first, as {option}");
            assert!(matches!(check(&arguments), Err(Failure::Usage(said)) if said == text), "{text}");
        }
    }

    #[test]
    fn each_half_of_a_conflict_is_accepted_by_itself() {
        for options in [
            "CAPTURE",
            "CAPTURE --app null",
            "CAPTURE --flows flows.csv --fields all",
            "CAPTURE --flows flows.ipfix --fields all",
            "CAPTURE --save-part a.part",
            "CAPTURE --verify --layout pipeline --full block",
            "CAPTURE --workers 2 --ring 64",
            "CAPTURE --scheduler adaptive-racy --threshold none",
            "CAPTURE --table dhash --signature 4 --major-location off",
            "CAPTURE --verify --loop --limit 9",
            "--iface lo --snaplen 100",
        ] {
            assert!(check(&parsed(options)).is_ok(), "{options}");
        }
    }
}
