//! Reading rules from a file, whichever form they have.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flowloom::apps::firewall::Enforcement;
use flowloom::classifier::load::{self, Form, LoadOptions, cisco, ipset, iptables, nft};
use flowloom::classifier::policy::{Families, Field, Knowledge, Policy};
use flowloom::classifier::{Rule, RuleId, RuleSet};

use crate::args::Common;
use crate::args::rules::{EnforceOptions, FamilyName, FileOptions, RuleOptions};
use crate::exit::Failure;
use crate::render::{counted, some_of, warn};
use crate::unpacked::{plain_name, unpack};

/// Behind an error in the first line of what has no other form: it may be something else
/// altogether.
const FORMS: &str = "\n  a rule file is a ClassBench filter file, TOML, access lists of Cisco, network policies of\n  Kubernetes, or what iptables-save or nft list ruleset writes";

/// Returns the first line that says something, and its number from one.
fn first_line(text: &str) -> Option<(usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.into_iter().find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Rules that were read.
#[derive(Debug)]
pub(crate) struct RuleFile {
    pub(crate) form: Form,
    pub(crate) policy: Policy,
    /// The chain that packets enter, where the form has chains.
    chain: Option<String>,
}

impl RuleFile {
    /// Returns the number of a rule of the file, from one, and the line that it begins in.
    pub(crate) fn place(&self, id: RuleId) -> (u64, u64) {
        let index = self.policy.source_index(id);
        (index as u64 + 1, self.policy.sources().get(index).map_or(0, |source| source.line as u64))
    }

    /// Returns how many rules the file has.
    pub(crate) fn rules(&self) -> u64 {
        self.policy.sources().len() as u64
    }

    /// Returns the boxes of all rules.
    pub(crate) fn set(&self) -> &RuleSet {
        self.policy.set()
    }

    /// Returns how many rules ask for more than addresses, ports and protocol.
    pub(crate) fn with_tests(&self) -> u64 {
        self.policy.with_tests() as u64
    }

    /// Returns how many rules have a flags column of ClassBench that says something.
    pub(crate) fn with_flags(&self) -> u64 {
        let says = |rule: &&Rule| rule.flags.is_some_and(|flags| flags.mask != 0);
        self.set().rules().iter().filter(says).count() as u64
    }

    /// Says what was passed over.
    pub(crate) fn warn_of_notes(&self, common: &Common) {
        /// Notes that are shown.
        const SHOWN: usize = 5;
        let notes = self.policy.notes();
        if notes.is_empty() {
            return;
        }
        let mut lines: Vec<String> =
            notes.iter().take(SHOWN).map(|note| format!("\n  line {}: {}", note.line, note.text)).collect();
        if notes.len() > SHOWN {
            lines.push(format!("\n  and {} more", notes.len() - SHOWN));
        }
        let count = counted(notes.len() as u64, "line");
        warn(&format!("{count} of the rules decide nothing and are passed over{}", lines.concat()), common);
    }

    /// Returns what enforcing the rules needs besides packets, or the rules that cannot be decided
    /// with it. `interface` returns the name of the interface that the packets were captured on; it
    /// is asked where a rule needs it and no option says it.
    pub(crate) fn enforcement(
        &self,
        options: &EnforceOptions,
        known: Knowledge,
        interface: &dyn Fn() -> Option<String>,
    ) -> Result<Enforcement, Failure> {
        /// Rules that an error lists.
        const LISTED: usize = 10;
        // Some chains see packets before or behind the interfaces.
        let none = |chains: [&str; 2]| {
            let is_one = |chain: &str| chains.iter().any(|name| name.eq_ignore_ascii_case(chain));
            self.chain.as_deref().is_some_and(is_one).then(String::new)
        };
        let input = options.input.clone().or_else(|| none(["OUTPUT", "POSTROUTING"]));
        let output = options.output.clone().or_else(|| none(["INPUT", "PREROUTING"]));
        let known = Knowledge { input: input.is_some(), output: output.is_some(), ..known };
        let mut missing = self.policy.undecidable(known);
        // A capture is taken where packets come in, but of chains that packets enter without an
        // interface, where they leave.
        let mut captured = |side: &mut Option<String>, field: Field| {
            if side.is_none() && missing.iter().any(|one| one.field == field) {
                *side = interface();
                missing.retain(|one| one.field != field || side.is_none());
            }
        };
        let (mut input, mut output) = (input, output);
        if input.as_deref() == Some("") {
            captured(&mut output, Field::Output);
        } else {
            captured(&mut input, Field::Input);
        }
        if let Some(assume) = options.assume {
            return Ok(Enforcement { input, output, assume: assume.assume() });
        }
        if missing.is_empty() {
            return Ok(Enforcement { input, output, ..Enforcement::default() });
        }
        let mut lines: Vec<String> = missing
            .iter()
            .take(LISTED)
            .map(|one| {
                let line = self.policy.sources().get(one.source).map_or(0, |source| source.line);
                format!("\n  line {line}: {}", one.text)
            })
            .collect();
        if missing.len() > LISTED {
            lines.push(format!("\n  and {} more", missing.len() - LISTED));
        }
        let asks = |field| missing.iter().any(|one| one.field == field);
        let mut remedies = Vec::new();
        if asks(Field::Input) {
            remedies.push("--in NAME says which interface packets come in by");
        }
        if asks(Field::Output) {
            remedies.push("--out NAME says which interface they leave by");
        }
        remedies.push("--assume no-match or --assume match decides all of them");
        Err(Failure::Usage(format!(
            "{} cannot be decided from packets alone: unknown interface, state, limit or the like{}\n  {}",
            counted(missing.len() as u64, "condition"),
            lines.concat(),
            remedies.join("; ")
        )))
    }
}

/// Says which interface the packets were taken to come in or leave by, where no option named it.
pub(crate) fn warn_of_interface(options: &EnforceOptions, found: &Enforcement, common: &Common) {
    let sides = [
        (&options.input, &found.input, "come in", "--in"),
        (&options.output, &found.output, "leave", "--out"),
    ];
    for (asked, found, does, option) in sides {
        if let (None, Some(name)) = (asked, found.as_deref().filter(|name| !name.is_empty())) {
            let text = format!("packets {does} by {name}, as the capture says; {option} names another");
            warn(&text, common);
        }
    }
}

/// Returns the options for a loader.
fn load_options(options: &FileOptions, table: Option<&String>) -> Result<LoadOptions, Failure> {
    let mut asked = LoadOptions {
        table: table.cloned(),
        chain: options.chain.clone(),
        families: options.family.map(|family| match family {
            FamilyName::Ipv4 => Families::V4,
            FamilyName::Ipv6 => Families::V6,
        }),
        ..LoadOptions::default()
    };
    if let Some(path) = &options.sets {
        let text = read_text(path, asked.limits.bytes_max, "")?;
        asked.sets = ipset::parse(&text, asked.limits)
            .map_err(|errors| Failure::Input(errors.in_file(&path.display().to_string())))?;
    }
    if let Some(path) = &options.addresses {
        asked.addresses = Some(read_text(path, asked.limits.bytes_max, "")?);
    }
    Ok(asked)
}

/// Reads a text file, plain or packed, of at most so many bytes; `hint` says what it should be,
/// where it is no text.
pub(crate) fn read_text(path: &Path, bytes_max: usize, hint: &str) -> Result<String, Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::Input(format!("cannot read {}: {error}", path.display()));
    let mut bytes = Vec::new();
    let input =
        if path.as_os_str() == "-" { unpack(io::stdin()) } else { File::open(path).and_then(unpack) };
    let limit = bytes_max as u64 + 1;
    input
        .and_then(|input| input.take(limit).read_to_end(&mut bytes))
        .map_err(|error| unreadable(&error))?;
    if bytes.len() > bytes_max {
        let text = format!("more than {bytes_max} bytes; split the file");
        return Err(unreadable(&text));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        unreadable(&format!("no text: byte {place} is not UTF-8{hint}"))
    })?;
    // What some editors put in front of a text.
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Refuses rules and packets that are both to come from standard input.
pub(crate) fn check_inputs(rules: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let is_stdin = |path: &Path| path.as_os_str() == "-";
    if is_stdin(rules) && inputs.iter().any(|input| is_stdin(input)) {
        return Err(Failure::Usage(String::from("rules and packets cannot both come from standard input")));
    }
    Ok(())
}

/// Returns the form of the rules that options name.
pub(crate) fn form_of(options: &RuleOptions) -> Result<Form, Failure> {
    let text = read_text(&options.rules, LoadOptions::default().limits.bytes_max, FORMS)?;
    Ok(Form::of(&plain_name(&options.rules), &text))
}

/// Reads the rules that options name.
pub(crate) fn read(options: &RuleOptions) -> Result<RuleFile, Failure> {
    let path = &options.rules;
    let asked = load_options(&options.file, options.table.as_ref())?;
    let text = read_text(path, asked.limits.bytes_max, FORMS)?;
    let form = Form::of(&plain_name(path), &text);
    if !form.has_chains() {
        for (option, value) in [("--chain", &asked.chain), ("--table", &asked.table)] {
            if let Some(value) = value {
                return Err(Failure::Usage(format!(
                    "{option} {value}: {} is read as {}, which has no chains\n  leave {option} out",
                    path.display(),
                    form.title()
                )));
            }
        }
    }
    if form != Form::Kubernetes && asked.addresses.is_some() {
        return Err(Failure::Usage(format!(
            "--addresses: {} is read as {}, which has addresses of its own\n  leave --addresses out",
            path.display(),
            form.title()
        )));
    }
    let policy = load::load(&text, form, &asked).map_err(|errors| {
        let is_guess = form == Form::ClassBench
            && first_line(&text)
                .is_none_or(|(line, _)| errors.errors.iter().any(|error| error.line == line));
        let hint = if is_guess { FORMS } else { "" };
        Failure::Input(format!("{}{hint}", errors.in_file(&path.display().to_string())))
    })?;
    let chain = form.has_chains().then(|| {
        asked.chain.clone().unwrap_or_else(|| {
            String::from(match form {
                Form::Nft => "input",
                Form::Kubernetes => "cluster",
                _ => "INPUT",
            })
        })
    });
    if policy.is_empty() {
        let hint = match (&chain, form) {
            (Some(chain), Form::Nft) => {
                let others = nft::chains(&text);
                format!(" in chain or hook {chain}\n  --chain names another: {}", some_of(&others, ", "))
            }
            (Some(_), Form::Cisco) => {
                format!(
                    "\n  --chain names one of its access lists: {}",
                    some_of(&cisco::lists(&text), ", ")
                )
            }
            (Some(_), Form::Kubernetes) => String::from("\n  no object is a NetworkPolicy"),
            (Some(chain), _) => no_chain(chain, asked.table.as_deref().unwrap_or("filter"), &text),
            (None, _) => String::new(),
        };
        return Err(Failure::Input(format!("{} has no rules{hint}", path.display())));
    }
    Ok(RuleFile { form, policy, chain })
}

/// Says what became of a chain without rules, and which chains there are.
fn no_chain(chain: &str, table: &str, text: &str) -> String {
    let chains = iptables::chains(text, table);
    if chains.is_empty() {
        return format!("\n  the {table} table has no chain; iptables-save -t {table} writes it");
    }
    let is_there = chains.contains(&chain);
    format!(
        " in chain {chain}, which {}\n  --chain names another: {}",
        if is_there { "is empty" } else { "is not there" },
        some_of(&chains, ", ")
    )
}
