//! The command line: one file per command.

pub(crate) mod bridge;
pub(crate) mod classify;
pub(crate) mod extract;
pub(crate) mod firewall;
pub(crate) mod help;
pub(crate) mod inspect;
pub(crate) mod live;
pub(crate) mod merge;
pub(crate) mod record_input;
pub(crate) mod replay;
pub(crate) mod schema;
pub(crate) mod send;
pub(crate) mod shell;
pub(crate) mod top;

pub(crate) use flowloom_command::args::*;
pub(crate) use flowloom_lab::args::{bench, compare, generate, reproduce, simulate};

use std::ffi::OsString;
use std::io::{self, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ColorChoice, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::exit::{Failure, stdout_failure};

/// Flow records, protocol labels and firewall verdicts from captures and interfaces.
#[derive(Debug, Parser)]
#[command(name = "flowloom", version, max_term_width = 106)]
#[command(after_help = "\
Examples:
  flowloom inspect edge.pcapng.zst              summarise a capture
  flowloom replay edge.pcapng.zst               account for every packet
  flowloom replay edge.pcap --save run          with report.html: charts, figures and data
  flowloom top edge.pcap --by conversation      the largest conversations
  flowloom replay - --format json < edge.pcap   read a pipe, write JSON
  flowloom simulate schedule --model many       schedulers on a simulated machine
  flowloom bench table --flows 64k,1M           compare flow tables by size
  flowloom bridge eth0 eth1 --rules acl.toml    run a transparent firewall
  flowloom reproduce dhash                      reproduce a paper's tables and figures
  flowloom generate trace -o t.pcap --seed 7    the same bytes on every machine

Exit status:
  0 success   1 a check failed   2 usage error   3 input unreadable   4 input truncated or corrupt, with --strict
  5 output unwritable   6 the engine stopped on a fault   7 memory exhausted   130 interrupted")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,

    #[command(flatten)]
    pub(crate) common: Common,
}

impl Arguments {
    /// Reads the command line. Returns nothing if it asks for help or the version, which this
    /// function prints. If the command line is invalid, prints the error and ends the process.
    pub(crate) fn read() -> Result<Option<Self>, Failure> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let command = with_negative_numbers(help::arranged(Self::command())).color(color_choice(&words));
        let matches = command.clone().try_get_matches_from(&words);
        match matches.and_then(|matches| Self::from_arg_matches(&matches)) {
            Ok(arguments) => Ok(Some(arguments)),
            Err(error) if error.use_stderr() => explained(error, &command, &words).exit(),
            Err(text) => {
                let printed = text.print().and_then(|()| io::stdout().flush());
                printed.map(|()| None).map_err(|error| stdout_failure(&error))
            }
        }
    }
}

/// Options of other programs, and what does here what they do there.
const ELSEWHERE: [(&str, &str); 15] = [
    ("-r", "name the capture without an option"),
    ("--read", "name the capture without an option"),
    ("-w", "name the file with --write (replay) or -o (extract)"),
    ("-Y", "select packets with --filter, and records with --where"),
    ("-f", "select packets with --filter, and records with --where"),
    ("-i", "name the interface with --iface, in replay"),
    ("-c", "limit the packets with --limit"),
    (
        "-z",
        "top sums by conversation, host, port or protocol; replay --fields tcp has what tcp.analysis has",
    ),
    ("-T", "choose columns of records with replay --flows - --columns"),
    ("-e", "choose columns of records with replay --flows - --columns"),
    ("--output", "name the file with --flows for records, or --write for packets"),
    ("--from", "replay, top and extract take --from and --to"),
    ("--to", "replay, top and extract take --from and --to"),
    ("--json", "use --format json for the result, and --flows FILE.jsonl for records"),
    ("--csv", "use --format csv for the result, and --flows FILE.csv for records"),
];

/// Says what to do with a file that stands where a command should, or with an option of another
/// program, and adds the values listed in the help to an error about a missing argument.
fn explained(mut error: clap::Error, command: &Command, words: &[OsString]) -> clap::Error {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && std::path::Path::new(word).exists()
    {
        let tips = [("inspect", "summarises"), ("replay", "counts the flows of")];
        let tips = tips.map(|(verb, what)| format!("`flowloom {verb} {word}` {what} it").into());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.into()));
        error.remove(ContextKind::SuggestedSubcommand);
    }
    if error.kind() == ErrorKind::UnknownArgument {
        // An option is not meant as a value.
        error.remove(ContextKind::Suggested);
        let known = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) => {
                ELSEWHERE.iter().find(|(name, _)| option == name || option.split('=').next() == Some(name))
            }
            _ => None,
        };
        if let Some((_, tip)) = known {
            error.remove(ContextKind::SuggestedArg);
            // It has the option that clap suggests.
            error.remove(ContextKind::Usage);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*tip).into()]));
        }
    }
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) if error.kind() == ErrorKind::MissingRequiredArgument => {
            missing
        }
        _ => return error,
    };
    let mut verb = command;
    for word in words.iter().filter_map(|word| word.to_str()) {
        verb = verb.find_subcommand(word).unwrap_or(verb);
    }
    let name = |arg: &Arg| match (arg.get_long(), arg.get_value_names()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some([name, ..])) => name.to_string(),
        (None, _) => arg.get_id().to_string().to_uppercase(),
    };
    // The value of a missing option may have the name of an argument.
    let is_missing = |name: &str| {
        missing.iter().any(|form| match form.split_once(' ') {
            Some((option, _)) if option.starts_with("--") => option == name,
            _ => form.split(['<', '>', '|', ' ']).any(|part| part == name),
        })
    };
    let tips = verb.get_arguments().filter(|arg| is_missing(&name(arg))).filter_map(|arg| {
        if arg.get_id() == "flows" {
            let tip = "add --flows FILE, or --flows - for standard output: these options are about records";
            return Some(tip.into());
        }
        let help = arg.get_help()?;
        Some(format!("{}  {help}", name(arg)).into())
    });
    let tips: Vec<clap::builder::StyledStr> = tips.collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Returns the colour setting of a command line, which errors need before clap has parsed the line.
fn color_choice(words: &[OsString]) -> ColorChoice {
    let options = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let (mut choice, mut before) = (ColorChoice::Auto, "");
    for word in options {
        let value = word.strip_prefix("--color=").or((before == "--color").then_some(word));
        choice = match value.map(|value| Color::from_str(value, false)) {
            Some(Ok(Color::Auto)) => ColorChoice::Auto,
            Some(Ok(Color::Always)) => ColorChoice::Always,
            Some(Ok(Color::Never)) => ColorChoice::Never,
            Some(Err(_)) | None => choice,
        };
        before = word;
    }
    choice
}

/// Lets options accept negative numbers, so that each option reports the error itself instead of
/// treating the number as an option.
fn with_negative_numbers(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let takes_one = arg.get_action().takes_values() && !arg.is_positional();
            arg.allow_negative_numbers(takes_one)
        })
        .mut_subcommands(with_negative_numbers)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Write flow records of captures or an interface, and account for every packet
    Replay(Box<replay::Replay>),
    /// Forward frames between two interfaces, with rules and flow records: a transparent firewall
    Bridge(Box<bridge::Bridge>),
    /// Send the packets of captures through an interface
    Send(send::Send),
    /// Merge the results of runs on parts of an input
    Merge(merge::Merge),
    /// Show the hosts, pairs, ports, protocols or conversations with the most traffic
    Top(Box<top::Top>),
    /// Write the packets of selected flows to a capture
    Extract(Box<extract::Extract>),
    /// Summarise the contents of a capture
    Inspect(inspect::Inspect),
    /// Show the rules that packets match
    Classify(Box<classify::Classify>),
    /// Analyse a rule set: useless rules, sizes, why a header matches
    #[command(subcommand)]
    Rules(rules::Rules),
    /// Generate a capture, a rule set or headers
    #[command(subcommand)]
    Generate(generate::Generate),
    /// Simulate schedulers on many threads, ways to keep packet order, or a small cache of
    /// connection state
    #[command(subcommand)]
    Simulate(simulate::Simulate),
    /// Benchmark parts of Flowloom, and whole programs, side by side
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Reproduce the papers' tables and figures
    Reproduce(reproduce::Reproduce),
    /// Compare two saved results of replay, bench or reproduce
    Compare(compare::Compare),
    /// Check whether this machine gives meaningful measurements
    Doctor,
    /// Print the JSON schema of a result
    Schema(schema::SchemaOf),
    /// Print a completion script for a shell
    Completions(shell::Completions),
    /// Write manual pages into a directory
    Man(shell::Man),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `check` for each option that takes a value, with the words that lead to it.
    fn each_option(command: &Command, verbs: &[String], check: &mut impl FnMut(&[String], &Arg)) {
        for option in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            check(verbs, option);
        }
        for verb in command.get_subcommands() {
            each_option(verb, &[verbs, &[verb.get_name().to_owned()]].concat(), check);
        }
    }

    #[test]
    fn every_option_describes_its_own_value() {
        // The message of the standard library for text that is not a number or address.
        let of_the_library = ["invalid", "cannot parse", "number too", "malformed"];
        let mut refused = 0;
        each_option(
            &with_negative_numbers(Arguments::command()),
            &["flowloom".to_owned()],
            &mut |verbs, option| {
                for value in ["abc", "", "-7", "1.5", "99999999999999999999999"] {
                    let given =
                        option.get_long().map_or(value.to_owned(), |name| format!("--{name}={value}"));
                    let words = verbs.iter().cloned().chain([given.clone()]);
                    let command = with_negative_numbers(Arguments::command());
                    let Err(error) = command.try_get_matches_from(words) else { continue };
                    if error.kind() != ErrorKind::ValueValidation {
                        continue;
                    }
                    refused += 1;
                    let said = error.to_string();
                    let reason = said.lines().next().and_then(|line| line.rsplit_once(">': ")).unwrap().1;
                    assert!(
                        of_the_library.iter().all(|words| !reason.contains(words)),
                        "{verbs:?} {given}: {said}"
                    );
                }
            },
        );
        assert!(refused > 200, "{refused} values were refused");
    }
}
