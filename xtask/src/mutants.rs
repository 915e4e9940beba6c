//! `cargo xtask mutants`: mutates a crate in seeded places, one at a time, and counts the mutants
//! that its tests notice.
//!
//! It runs on demand, not in CI: a mutant takes a build and a run of the crate's tests. This
//! program draws the sample, so that a seed selects the same mutants again; cargo-mutants creates
//! them and runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask mutants CRATE [--sample N] [--seed S] [--least PERCENT] [--features NAMES] [--file GLOB]

  CRATE       a package of the workspace: flowloom-packet
  --sample    number of mutants [200]
  --seed      seed that selects them [1]
  --least     percentage that the tests must notice for success [85]
  --features  features that its tests need: proptest for flowloom-packet
  --file      only mutants of files that match; may be repeated: --file 'crates/packet/src/decode/*.rs'

  Needs cargo-mutants (cargo install cargo-mutants). Prints the survivors, which are also in target/mutants/CRATE/mutants.out.";

/// Files that generate test inputs: a mutant there changes the test, not the product.
const STRATEGIES: &str = "**/strategies.rs";

struct Options {
    package: String,
    sample: usize,
    seed: u64,
    least: f64,
    features: Option<String>,
    /// Files to mutate; empty for all files of the package.
    files: Vec<String>,
}

/// The outcome of a sample.
#[derive(Debug, PartialEq)]
struct Score {
    caught: usize,
    timed_out: usize,
    survived: Vec<String>,
    unviable: usize,
}

impl Score {
    /// Returns the percentage of mutants that the tests noticed, out of those that compile.
    #[expect(clippy::cast_precision_loss, reason = "hundreds")]
    fn percent(&self) -> f64 {
        let noticed = self.caught + self.timed_out;
        100.0 * noticed as f64 / (noticed + self.survived.len()).max(1) as f64
    }
}

/// Draws the sample, runs it, and prints the survivors.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let Some(options) = parse(arguments)? else { return Ok(show(USAGE, arguments)) };
    let all = list(root, &options)?;
    let sample = sample(&all, options.sample, options.seed);
    eprintln!(
        "{} of the {} mutants of {}{}, seed {}",
        sample.len(),
        all.len(),
        options.package,
        if options.files.is_empty() { String::new() } else { format!(" in {}", options.files.join(", ")) },
        options.seed
    );
    let out = root.join("target").join("mutants").join(&options.package);
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut command = Command::new("cargo");
    command
        .args(["mutants", "--no-shuffle", "--colors", "never", "--exclude", STRATEGIES])
        .args(["--package", &options.package])
        // Documentation tests take longer than all others together and find few mutants.
        .args(["--cargo-test-arg=--lib", "--cargo-test-arg=--tests", "--timeout-multiplier", "5"])
        .arg("--output")
        .arg(&out)
        .current_dir(root);
    if let Some(features) = &options.features {
        command.args(["--features", features]);
    }
    for name in &sample {
        command.arg("--re").arg(format!("^{}$", escaped(name)));
    }
    // cargo-mutants fails if mutants survive, which is not a failure of the run.
    let status = command.status().context("cannot run cargo mutants")?;
    let score =
        read(&out.join("mutants.out")).with_context(|| format!("cargo mutants ended with {status}"))?;
    for name in &score.survived {
        eprintln!("survived  {name}");
    }
    eprintln!(
        "{}: {:.1} % noticed ({} by a test, {} by its time), {} survived, {} do not compile",
        options.package,
        score.percent(),
        score.caught,
        score.timed_out,
        score.survived.len(),
        score.unviable
    );
    Ok(if score.percent() >= options.least { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let Some((package, rest)) = arguments.split_first().filter(|(first, _)| !first.starts_with('-')) else {
        return Ok(None);
    };
    let mut options = Options {
        package: package.clone(),
        sample: 200,
        seed: 1,
        least: 85.0,
        features: None,
        files: Vec::new(),
    };
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value\n{USAGE}"))?;
        let wrong = || format!("{word} takes a number, not '{value}'");
        match word.as_str() {
            "--sample" => options.sample = value.parse().with_context(wrong)?,
            "--seed" => options.seed = value.parse().with_context(wrong)?,
            "--features" => options.features = Some(value.clone()),
            "--file" => options.files.push(value.clone()),
            "--least" => options.least = value.parse().with_context(wrong)?,
            _ => bail!("unknown option '{word}'\n{USAGE}"),
        }
    }
    Ok(Some(options))
}

/// Returns the names of all mutants of a package, or of its given files.
fn list(root: &Path, options: &Options) -> Result<Vec<String>> {
    let package = &options.package;
    let output = Command::new("cargo")
        .args(["mutants", "--list", "--colors", "never", "--exclude", STRATEGIES, "--package", package])
        .args(options.files.iter().flat_map(|file| ["--file", file]))
        .current_dir(root)
        .output()
        .context("cannot run cargo mutants\n  cargo install cargo-mutants")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo mutants --list failed: {error}");
    let mut names: Vec<String> = String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect();
    // One name may identify several mutants, which then run together.
    names.dedup();
    let among = if options.files.is_empty() {
        ""
    } else {
        " in these files; a name without a slash is one of any folder"
    };
    ensure!(!names.is_empty(), "{package} has no mutants{among}");
    Ok(names)
}

/// Draws a number of mutants, in the order of the list.
pub(crate) fn sample<T: Clone>(all: &[T], count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut keyed: Vec<(u64, usize)> = (0..all.len())
        .map(|at| {
            // SplitMix64, which gives the same numbers for a seed on every platform.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (z ^ (z >> 31), at)
        })
        .collect();
    keyed.sort_unstable();
    keyed.truncate(count);
    keyed.sort_unstable_by_key(|&(_, at)| at);
    keyed.into_iter().map(|(_, at)| all[at].clone()).collect()
}

/// Returns a pattern that matches exactly this text.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2);
    for letter in text.chars() {
        if !letter.is_alphanumeric() && !matches!(letter, ' ' | '_' | '/' | ':' | '"' | '\'' | '<' | '>') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Reads the results of cargo-mutants: one file of names per outcome.
fn read(folder: &Path) -> Result<Score> {
    let names = |file: &str| -> Result<Vec<String>> {
        let path: PathBuf = folder.join(file);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{} is missing", path.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    Ok(Score {
        caught: names("caught.txt")?.len(),
        timed_out: names("timeout.txt")?.len(),
        survived: names("missed.txt")?,
        unviable: names("unviable.txt")?.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_the_same_sample_again() {
        let all: Vec<String> = (0..1000).map(|i| format!("mutant {i}")).collect();
        let drawn = sample(&all, 200, 7);
        assert_eq!(drawn.len(), 200);
        assert_eq!(drawn, sample(&all, 200, 7));
        assert_ne!(drawn, sample(&all, 200, 8));
        assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(sample(&all, 5000, 7), all, "no more than there are");
    }

    #[test]
    fn names_become_patterns() {
        let name = "a/b.rs:24:9: replace f -> &[u8] with Vec::leak(vec![0])";
        assert_eq!(escaped(name), r"a/b\.rs:24:9: replace f \-> \&\[u8\] with Vec::leak\(vec\!\[0\]\)");
    }

    #[test]
    fn the_score_is_of_those_that_compile() {
        let score = Score { caught: 16, timed_out: 1, survived: vec![String::new(); 3], unviable: 9 };
        assert!((score.percent() - 85.0).abs() < 1e-9);
    }

    #[test]
    fn options_have_defaults() {
        let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let options = parse(&words("flowloom-packet --seed 9")).unwrap().unwrap();
        assert_eq!((options.package.as_str(), options.sample, options.seed), ("flowloom-packet", 200, 9));
        assert_eq!((options.features, options.files), (None, Vec::new()));
        let options = parse(&words("flowloom-packet --file a/*.rs --seed 2 --file b.rs")).unwrap().unwrap();
        assert_eq!((options.files, options.seed), (words("a/*.rs b.rs"), 2));
        assert!(parse(&words("flowloom-packet --file")).is_err());
        let options = parse(&words("flowloom-packet --features proptest")).unwrap().unwrap();
        assert_eq!(options.features.as_deref(), Some("proptest"));
        assert!(parse(&[]).unwrap().is_none());
        assert!(parse(&words("flowloom-packet --sample")).is_err());
    }
}
