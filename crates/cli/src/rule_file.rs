//! Reading rules from a file, whichever form they have.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flowloom::classifier::load::{LoadError, LoadLimits, Located, classbench, iptables, toml};
use flowloom::classifier::{Rule, RuleId, RuleSet};

use crate::args::rules::RuleOptions;
use crate::exit::Failure;
use crate::render::some_of;
use crate::unpacked::{plain_name, unpack};

/// The form of a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    ClassBench,
    Toml,
    Iptables,
}

impl Form {
    /// Returns the form that a file seems to have: by its name, then by its first words.
    fn of(path: &Path, text: &str) -> Self {
        if Path::new(&plain_name(path)).extension().is_some_and(|extension| extension == "toml") {
            return Self::Toml;
        }
        match first_line(text) {
            Some((_, line)) if line.starts_with('*') => Self::Iptables,
            Some((_, line)) if line.starts_with("[[") => Self::Toml,
            _ => Self::ClassBench,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClassBench => "classbench",
            Self::Toml => "toml",
            Self::Iptables => "iptables",
        }
    }

    /// Returns what messages call it.
    fn title(self) -> &'static str {
        match self {
            Self::ClassBench => "a ClassBench filter file",
            Self::Toml => "TOML",
            Self::Iptables => "what iptables-save writes",
        }
    }
}

/// Behind an error in the first line of what has no other form: it may be something else altogether.
const FORMS: &str = "\n  a rule file is a ClassBench filter file, TOML, or what iptables-save writes";

/// Returns the first line that says something, and its number from one.
fn first_line(text: &str) -> Option<(usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.into_iter().find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Rules that were read.
#[derive(Debug)]
pub(crate) struct RuleFile {
    pub(crate) form: Form,
    pub(crate) set: RuleSet,
    /// The line of each rule, in the order of the file.
    lines: Vec<usize>,
}

impl RuleFile {
    /// Returns a rule's place among the rules of the file, from one, and the line that it begins in.
    pub(crate) fn place(&self, id: RuleId) -> Option<(u64, u64)> {
        let position = self.set.position(id)?;
        Some((u64::from(position) + 1, *self.lines.get(position as usize)? as u64))
    }

    /// Returns how many rules have a flags column that says something.
    pub(crate) fn with_flags(&self) -> u64 {
        let says = |rule: &&Rule| rule.flags.is_some_and(|flags| flags.mask != 0);
        self.set.rules().iter().filter(says).count() as u64
    }
}

/// Reads a text file, plain or packed, of at most so many bytes; `hint` says what it should be, where it is no text.
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

/// Reads the rules that options name.
pub(crate) fn read(options: &RuleOptions) -> Result<RuleFile, Failure> {
    let limits = LoadLimits::default();
    let path = &options.rules;
    let text = read_text(path, limits.bytes_max, FORMS)?;
    let form = Form::of(path, &text);
    if first_line(&text)
        .is_some_and(|(_, line)| ["-A ", "-P ", "-N "].iter().any(|begin| line.starts_with(begin)))
    {
        return Err(Failure::Input(format!(
            "{} names no table, as `iptables -S` does not: use what `iptables-save -t filter` writes",
            path.display()
        )));
    }
    if let Some(chain) = options.chain.as_deref().filter(|_| form != Form::Iptables) {
        return Err(Failure::Usage(format!(
            "--chain {chain}: {} is read as {}, which has no chains\n  leave --chain out",
            path.display(),
            form.title()
        )));
    }
    let chain = options.chain.as_deref().unwrap_or("INPUT");
    let located: Result<Vec<Located>, LoadError> = match form {
        Form::ClassBench => classbench::parse_located(&text, limits),
        Form::Toml => toml::parse_located(&text, limits),
        Form::Iptables => iptables::parse_located(&text, chain, limits),
    };
    let located = located.map_err(|error| {
        let is_guess =
            form == Form::ClassBench && first_line(&text).is_none_or(|(line, _)| error.line == line);
        let hint = if is_guess { FORMS } else { "" };
        Failure::Input(format!("{}{hint}", error.in_file(&path.display().to_string())))
    })?;
    if located.is_empty() {
        let hint = if form == Form::Iptables { no_chain(chain, &text) } else { String::new() };
        return Err(Failure::Input(format!("{} has no rules{hint}", path.display())));
    }
    let lines = located.iter().map(|located| located.line).collect();
    let rules = located.into_iter().map(|located| located.rule).collect();
    let set =
        RuleSet::new(rules).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    Ok(RuleFile { form, set, lines })
}

/// Says what became of a chain without rules, and which chains there are.
fn no_chain(chain: &str, text: &str) -> String {
    let chains = iptables::chains(text);
    if chains.is_empty() {
        return String::from("\n  the filter table has no chain; iptables-save -t filter writes it");
    }
    let is_there = chains.contains(&chain);
    format!(
        " in chain {chain}, which {}\n  --chain names another: {}",
        if is_there { "is empty" } else { "is not there" },
        some_of(&chains, ", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_apart() {
        let of = |name: &str, text: &str| Form::of(Path::new(name), text);
        assert_eq!((of("a.toml", ""), of("a.toml.zst", "")), (Form::Toml, Form::Toml));
        assert_eq!(of("a", "# x\n[[rule]]"), Form::Toml);
        assert_eq!(of("a", "# Generated by iptables-save\n*filter\n"), Form::Iptables);
        assert_eq!(of("a", "@1.2.3.4/8 "), Form::ClassBench);
    }
}
