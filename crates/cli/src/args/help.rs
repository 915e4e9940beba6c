//! The arrangement of help texts: commands by purpose, and the options of `replay` under headings.
//! `-h` shows the everyday options, `--help` all.

use clap::Command;

use crate::render::fit::{terminal_width, wrapped};

/// The commands of each group.
const VERBS: [(&str, &[&str]); 5] = [
    ("Every day", &["replay", "top", "extract", "inspect", "classify", "rules", "merge"]),
    ("Live interfaces", &["bridge", "send"]),
    ("Measuring", &["doctor", "bench", "compare"]),
    ("Research", &["simulate", "reproduce", "generate"]),
    ("Other", &["schema", "completions", "man", "help"]),
];

/// An option: its name, and whether `-h` shows it.
type Shown = (&'static str, bool);

/// The options of `replay` under their headings.
const REPLAY: [(&str, &[Shown]); 7] = [
    (
        "Input",
        &[
            ("inputs", true),
            ("iface", true),
            ("filter", true),
            ("from", true),
            ("to", true),
            ("limit", true),
            ("bytes", false),
            ("decap", true),
            ("decap_depth", false),
            ("defrag", true),
            ("dedup", false),
            ("sample", false),
            ("concat", false),
            ("tag_type", false),
            ("tunnel", false),
            ("esp_null", false),
            ("esp_spi", false),
            ("errors_by_flow", false),
            ("ignore_vlan", false),
            ("speed", false),
            ("passes", false),
            ("forever", false),
            ("strict", false),
            ("promiscuous", false),
            ("snaplen", false),
            ("kernel_buffer", false),
            ("no_mmap", false),
            ("unpack_max", false),
            ("unpack_ratio_max", false),
        ],
    ),
    (
        "Flows and records",
        &[
            ("app", true),
            ("timeout", true),
            ("active_timeout", true),
            ("closed_timeout", false),
            ("flows", true),
            ("columns", true),
            ("times", false),
            ("by_file", false),
            ("fields", true),
            ("record_filter", true),
            ("flows_format", false),
            ("sort", false),
            ("patterns", false),
            ("l7_packets", false),
            ("flows_max", false),
            ("table_flows", false),
            ("memory", false),
        ],
    ),
    (
        "Firewall",
        &[
            ("rules", true),
            ("chain", false),
            ("family", false),
            ("sets", false),
            ("addresses", false),
            ("rules_table", false),
            ("in", false),
            ("out", false),
            ("assume", false),
            ("unmatched", false),
            ("no_action", false),
            ("per_packet", false),
            ("strict_tcp", false),
            ("watch_rules", false),
            ("rules_algorithm", false),
            ("rules_memory", false),
            ("top_rules", false),
        ],
    ),
    (
        "Output",
        &[
            ("format", true),
            ("quiet", true),
            ("color", false),
            ("save", true),
            ("write", true),
            ("verify", false),
            ("listen", false),
            ("listen_publicly", false),
            ("save_part", false),
            ("part", false),
            ("fragments", false),
            ("packets", false),
            ("packets_of", false),
        ],
    ),
    ("Threads", &[("workers", true), ("layout", false), ("cores", false), ("no_pin", false)]),
    (
        "Pipeline",
        &[
            ("scheduler", false),
            ("threshold", false),
            ("topology", false),
            ("order", false),
            ("full", false),
            ("ring", false),
        ],
    ),
    (
        "Research",
        &[
            ("table", false),
            ("signature", false),
            ("major_location", false),
            ("tcb_cache", false),
            ("tcb_policy", false),
            ("l7_rescan", false),
            ("seed", false),
            ("isa", false),
            ("hugepages", false),
        ],
    ),
];

/// The column at which the purposes of commands begin.
const ABOUT_AT: usize = 15;

/// Arranges the help of the command.
pub(crate) fn arranged(command: Command) -> Command {
    let mut groups = String::new();
    let width = terminal_width().unwrap_or(usize::MAX);
    for (heading, verbs) in VERBS {
        groups.extend([heading, ":\n"]);
        for name in verbs {
            let verb = command.get_subcommands().find(|verb| verb.get_name() == *name);
            let about = verb.and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| String::from("Print this, or the help of a command"));
            let lines = wrapped(&about, width.saturating_sub(ABOUT_AT));
            let lines: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
            let about = lines.join(&format!("\n{:ABOUT_AT$}", ""));
            groups.extend([format!("  {name:<12} "), about, String::from("\n")]);
        }
        groups.push('\n');
    }
    command
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{options}}{{after-help}}"
        ))
        .mut_subcommand("replay", |replay| {
            replay.mut_args(|arg| {
                let id = arg.get_id().to_string();
                for (heading, options) in REPLAY {
                    if let Some((_, is_shown)) = options.iter().find(|(name, _)| *name == id) {
                        let arg = if arg.is_positional() { arg } else { arg.help_heading(heading) };
                        return arg.hide_short_help(!is_shown);
                    }
                }
                arg
            })
        })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Arguments;

    #[test]
    fn every_command_has_a_group_and_every_option_of_replay_a_heading() {
        let command = Arguments::command();
        let grouped: Vec<&str> = VERBS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        for verb in command.get_subcommands() {
            assert!(grouped.contains(&verb.get_name()), "{} has no group", verb.get_name());
        }
        for name in grouped.iter().filter(|name| **name != "help") {
            assert!(command.find_subcommand(name).is_some(), "there is no verb {name}");
        }
        let mut built = command;
        built.build();
        let replay = built.find_subcommand("replay").unwrap();
        let options: Vec<&str> =
            REPLAY.iter().flat_map(|(_, options)| options.iter().map(|(name, _)| *name)).collect();
        for arg in replay.get_arguments() {
            let id = arg.get_id().as_str();
            assert!(matches!(id, "help" | "version") || options.contains(&id), "{id} has no heading");
        }
        for name in &options {
            assert!(replay.get_arguments().any(|arg| arg.get_id() == name), "there is no option {name}");
        }
        let shown = REPLAY.iter().flat_map(|(_, options)| options.iter()).filter(|(_, is_shown)| *is_shown);
        assert!(shown.count() <= 24, "the default help is short");
    }
}
