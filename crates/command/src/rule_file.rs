//! Reading rules from a file in any format.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flowloom::apps::firewall::{CaptureSide, Enforcement};
use flowloom::classifier::{Rule, RuleId, RuleSet};
use flowloom::rules::firewall::{Families, Field, Knowledge, Policy};
use flowloom::rules::load::{self, LoadOptions, RuleFormat, cisco, ipset, iptables, nft};
use flowloom::traffic::capture::Format;

use crate::args::Common;
use crate::args::rules::{EnforceOptions, FamilyName, FileOptions, RuleOptions};
use crate::decompressed::{plain_name, unpack};
use crate::exit::Failure;
use crate::interface::Captured;
use crate::render::{counted, some_of, warn};

/// Appended to an error in the first line of a file of no known format, which may not contain rules
/// at all.
const FORMS: &str = "\n  a rule file is a ClassBench filter file, TOML, Cisco access lists, \
    Kubernetes\n  network policies, or the output of iptables-save or nft list ruleset";

/// Returns the first line with content, and its number from one.
fn first_line(text: &str) -> Option<(usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.into_iter().find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A parsed rule file.
#[derive(Debug)]
pub struct RuleFile {
    pub form: RuleFormat,
    pub policy: Policy,
    /// The chain that packets enter, in formats with chains.
    chain: Option<String>,
    /// The chains with rules beside a chain that was not chosen and has only its policy.
    others: Vec<&'static str>,
    /// The chain was not named, and no other has rules.
    is_only_chain: bool,
}

impl RuleFile {
    /// Returns the number of a rule in the file, from one, and its first line.
    pub fn place(&self, id: RuleId) -> (u64, u64) {
        let index = self.policy.source_index(id);
        (index as u64 + 1, self.policy.sources().get(index).map_or(0, |source| source.line as u64))
    }

    /// Returns how many rules the file has.
    pub fn rules(&self) -> u64 {
        self.policy.sources().len() as u64
    }

    /// Returns the boxes of all rules.
    pub fn set(&self) -> &RuleSet {
        self.policy.set()
    }

    /// Returns how many rules have conditions beyond addresses, ports and protocol.
    pub fn with_tests(&self) -> u64 {
        self.policy.with_tests() as u64
    }

    /// Returns how many rules have a ClassBench flags column that restricts packets.
    pub fn with_flags(&self) -> u64 {
        let says = |rule: &&Rule| rule.flags.is_some_and(|flags| flags.mask != 0);
        self.set().rules().iter().filter(says).count() as u64
    }

    /// Warns of rules and chains that were left out.
    pub fn warn_of_notes(&self, common: &Common) {
        /// Maximum number of notes to print.
        const SHOWN: usize = 5;
        if let (Some(chain), true) = (&self.chain, self.is_only_chain) {
            warn(&format!("chain {chain} is used: no other has rules"), common);
        }
        if let (Some(chain), [_, ..]) = (&self.chain, &self.others[..]) {
            let others = self.others.join(", ");
            warn(
                &format!(
                    "chain {chain} has only its policy, and there are rules in {others}\n  choose with --chain"
                ),
                common,
            );
        }
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
        let has = if notes.len() == 1 { "has" } else { "have" };
        warn(&format!("{count} of the rules {has} no effect on the verdicts{}", lines.concat()), common);
    }

    /// Returns the information that the rules need besides packets, or an error with the rules that
    /// remain undecided. `captured` returns the interfaces that captured the packets. It is called
    /// only if a rule needs a name and no option sets it.
    pub fn enforcement(
        &self,
        options: &EnforceOptions,
        known: Knowledge,
        captured: &dyn Fn() -> Option<Captured>,
    ) -> Result<Enforcement, Failure> {
        /// Maximum number of rules in an error.
        const LISTED: usize = 10;
        // Some chains see packets before an incoming or after an outgoing interface is known.
        let hook = self.policy.hooks().first().map(|hook| hook.name.as_str());
        let none = |hooks: [&str; 2]| {
            let is_one = |hook: &str| self.form.has_chains() && hooks.contains(&hook);
            hook.is_some_and(is_one).then(String::new)
        };
        let input = options.input.clone().or_else(|| none(["output", "postrouting"]));
        let output = options.output.clone().or_else(|| none(["input", "prerouting"]));
        let known = Knowledge {
            input: known.input || input.is_some(),
            output: known.output || output.is_some(),
            ..known
        };
        let mut missing = self.policy.undecidable(known);
        // A capture is taken where packets come in. Chains that packets enter without an interface
        // see them where they leave.
        let mut found = Enforcement { input, output, ..Enforcement::default() };
        let (name, side, field) = if found.input.as_deref() == Some("") {
            (&mut found.output, CaptureSide::Output, Field::Output)
        } else {
            (&mut found.input, CaptureSide::Input, Field::Input)
        };
        if name.is_none()
            && missing.iter().any(|one| one.field == field)
            && let Some(captured) = captured()
        {
            match captured {
                Captured::ByOne(interface) => *name = Some(String::from(interface)),
                Captured::BySeveral => found.captured = Some(side),
            }
            missing.retain(|one| one.field != field);
        }
        if let Some(assume) = options.assume {
            found.assume = Some(assume.assume());
            return Ok(found);
        }
        if missing.is_empty() {
            return Ok(found);
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
            remedies.push("--in NAME sets the interface by which packets enter");
        }
        if asks(Field::Output) {
            remedies.push("--out NAME sets the interface by which they leave");
        }
        remedies.push("--assume no-match or --assume match decides all of them");
        Err(Failure::Usage(format!(
            "{} cannot be decided from packets alone (unknown interface, state, limit or similar){}\n  \
             {}",
            counted(missing.len() as u64, "condition"),
            lines.concat(),
            remedies.join("; ")
        )))
    }
}

/// Prints the interface that was assumed, if no option sets it.
pub fn warn_of_interface(options: &EnforceOptions, found: &Enforcement, common: &Common) {
    let sides = [
        (&options.input, &found.input, "come in", "--in"),
        (&options.output, &found.output, "leave", "--out"),
    ];
    for (asked, found, does, option) in sides {
        if let (None, Some(name)) = (asked, found.as_deref().filter(|name| !name.is_empty())) {
            let text = format!(
                "packets {does} by {name}, according to the capture; {option} sets \
                another"
            );
            warn(&text, common);
        }
    }
    if let Some(side) = found.captured {
        let (does, option) = match side {
            CaptureSide::Input => ("comes in", "--in"),
            CaptureSide::Output => ("leaves", "--out"),
        };
        let text = format!(
            "each packet {does} by the interface that captured it; {option} sets one for \
            all packets"
        );
        warn(&text, common);
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

/// Reads a text file, plain or compressed, of at most `bytes_max` bytes. `hint` is appended to the
/// error if the file is not text.
pub fn read_text(path: &Path, bytes_max: usize, hint: &str) -> Result<String, Failure> {
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
        let bytes = error.as_bytes();
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return unreadable(&"it is UTF-16; convert it: iconv -f UTF-16 -t UTF-8");
        }
        if Format::detect(bytes).is_some() {
            return unreadable(&format!("it is a capture, not text{hint}"));
        }
        let line = bytes[..place].split(|byte| *byte == b'\n').count();
        unreadable(&format!("not text: byte {place}, in line {line}, is not UTF-8{hint}"))
    })?;
    // A byte order mark, which some editors write.
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Refuses rules and packets that both come from standard input.
pub fn check_inputs(rules: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let is_stdin = |path: &Path| path.as_os_str() == "-";
    if is_stdin(rules) && inputs.iter().any(|input| is_stdin(input)) {
        return Err(Failure::Usage(String::from("rules and packets cannot both come from standard input")));
    }
    Ok(())
}

/// Returns the format of the rules that options name.
pub fn form_of(options: &RuleOptions) -> Result<RuleFormat, Failure> {
    let text = read_text(&options.rules, LoadOptions::default().limits.bytes_max, FORMS)?;
    Ok(RuleFormat::detect(&plain_name(&options.rules), &text))
}

/// Reads the rules that options name.
pub fn read(options: &RuleOptions) -> Result<RuleFile, Failure> {
    read_of(options, "--table")
}

/// Reads the rules that options name, for a command whose option for their table has this name.
pub fn read_of(options: &RuleOptions, table_option: &str) -> Result<RuleFile, Failure> {
    let path = &options.rules;
    let mut asked = load_options(&options.file, options.table.as_ref())?;
    let text = read_text(path, asked.limits.bytes_max, FORMS)?;
    let form = RuleFormat::detect(&plain_name(path), &text);
    let only = if asked.chain.is_none() { only_chain(form, &asked, &text) } else { None };
    let is_only_chain = only.is_some();
    if let Some(only) = &only {
        let is_nft = form == RuleFormat::Nft;
        asked.chain = Some(if is_nft { String::from("hook forward") } else { only.clone() });
    } else if let (RuleFormat::Iptables, Some(chain)) = (form, &mut asked.chain) {
        // The name of a built-in chain, as nftables writes it.
        let chains = iptables::chains(&text, asked.table.as_deref().unwrap_or("filter"));
        let alike = chains.iter().find(|name| name.eq_ignore_ascii_case(chain));
        if let Some(alike) = alike.filter(|_| !chains.contains(&chain.as_str())) {
            *chain = (*alike).to_owned();
        }
    }
    if !form.has_chains() {
        for (option, value) in [("--chain", &asked.chain), (table_option, &asked.table)] {
            if let Some(value) = value {
                return Err(Failure::Usage(format!(
                    "{option} {value}: {} is read as {}, which has no chains\n  omit {option}",
                    path.display(),
                    form.title()
                )));
            }
        }
    }
    if form != RuleFormat::Kubernetes && asked.addresses.is_some() {
        return Err(Failure::Usage(format!(
            "--addresses: {} is read as {}, which contains addresses\n  omit --addresses",
            path.display(),
            form.title()
        )));
    }
    let policy = load::load(&text, form, &asked).map_err(|errors| {
        let is_guess = form == RuleFormat::ClassBench
            && first_line(&text)
                .is_none_or(|(line, _)| errors.errors.iter().any(|error| error.line == line));
        let hint = if is_guess { FORMS } else { "" };
        Failure::Input(format!("{}{hint}", errors.in_file(&path.display().to_string())))
    })?;
    let chain = form.has_chains().then(|| {
        only.or_else(|| asked.chain.clone()).unwrap_or_else(|| {
            String::from(match form {
                RuleFormat::Nft => "input",
                RuleFormat::Kubernetes => "cluster",
                _ => "INPUT",
            })
        })
    });
    if policy.is_empty() {
        let hint = match (&chain, form) {
            (Some(chain), RuleFormat::Nft) => {
                let others = nft::chains(&text);
                let is_said = chain.starts_with("hook ") || chain.starts_with("chain ");
                let what = if is_said { "" } else { "chain or hook " };
                format!(" in {what}{chain}\n  --chain names another: {}", some_of(&others, ", "))
            }
            (Some(_), RuleFormat::Cisco) => {
                format!(
                    "\n  --chain names one of its access lists: {}",
                    some_of(&cisco::lists(&text), ", ")
                )
            }
            (Some(_), RuleFormat::Kubernetes) => String::from("\n  no object is a NetworkPolicy"),
            (Some(chain), _) => no_chain(chain, asked.table.as_deref().unwrap_or("filter"), &text),
            (None, _) => String::new(),
        };
        return Err(Failure::Input(format!("{} has no rules{hint}", path.display())));
    }
    let mut others = Vec::new();
    if form == RuleFormat::Iptables && asked.chain.is_none() {
        others = iptables::chains_with_rules(&text, asked.table.as_deref().unwrap_or("filter"));
        if others.iter().any(|other| Some(*other) == chain.as_deref()) {
            others.clear();
        }
    }
    Ok(RuleFile { form, policy, chain, others, is_only_chain })
}

/// Returns the chain for packets that pass through, if no other has rules and none is asked for. A
/// chain for packets of the host itself says nothing about these.
fn only_chain(form: RuleFormat, asked: &LoadOptions, text: &str) -> Option<String> {
    match form {
        RuleFormat::Iptables => {
            let chains = iptables::chains_with_rules(text, asked.table.as_deref().unwrap_or("filter"));
            (chains == ["FORWARD"]).then(|| String::from("FORWARD"))
        }
        RuleFormat::Nft => match &nft::base_chains(text)[..] {
            [(chain, hook)] if hook == "forward" => Some(chain.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns an error about a chain without rules, with the chains that exist.
fn no_chain(chain: &str, table: &str, text: &str) -> String {
    let chains = iptables::chains(text, table);
    if chains.is_empty() {
        return format!("\n  the {table} table has no chain; iptables-save -t {table} writes it");
    }
    let is_there = chains.contains(&chain);
    format!(
        " in chain {chain}, which {}\n  --chain names another: {}",
        if is_there { "is empty" } else { "does not exist" },
        some_of(&chains, ", ")
    )
}
