//! `PACKAGE… -- TEST OPTIONS`: the arguments of verbs that run tests.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Splits packages from the options of the test program; without packages, the defaults of the verb
/// are used.
pub(crate) fn split<'a>(arguments: &'a [String], unless_named: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let named: Vec<&str> = arguments[..end].iter().map(String::as_str).collect();
    let options = arguments.iter().skip(end + 1).map(String::as_str).collect();
    (if named.is_empty() { unless_named.to_vec() } else { named }, options)
}

/// Prints a command and runs it for these packages, with these options of the test program.
pub(crate) fn run(command: &mut Command, packages: &[&str], options: &[&str]) -> Result<ExitCode> {
    for package in packages {
        command.args(["-p", package]);
    }
    command.arg("--").args(options);
    eprintln!("{command:?}");
    let status = command.status().context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_options_are_separated() {
        let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let all = ["a", "b"];
        assert_eq!(split(&[], &all), (all.to_vec(), vec![]));
        assert_eq!(split(&words("flowloom-cpu -- pages"), &all), (vec!["flowloom-cpu"], vec!["pages"]));
        assert_eq!(split(&words("-- --list"), &all), (all.to_vec(), vec!["--list"]));
    }
}
