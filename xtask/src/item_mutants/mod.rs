//! `cargo xtask item-mutants`: mutates the papers' algorithms, and counts the mutants that the
//! items of `reproduce` notice, and those that the crate's tests notice.
//!
//! A copy of the workspace gets all mutants of a sample [at once](sites), chosen at run time, so
//! that a sample costs one build. An item notices a mutant if its verdict changes, a value leaves
//! its band, or it fails. Results are kept after each mutant; a second run with the same sample
//! continues.

mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{is_help, show};
use sites::Site;

const USAGE: &str =
    "usage: cargo xtask item-mutants [--only CRATE] [--sample N] [--seed S] [--least PERCENT] [--list]

  --only    flow-table, classifier, tcb-cache or scheduler [all four]
  --sample  number of mutants per crate [40]
  --seed    seed that selects them [1]
  --least   percentage that items and tests must notice for success [90]
  --list    print the mutants of the sample, and run none

  Mutates the papers' algorithms in a copy below target/item-mutants. Prints the share that is
  noticed, with its 95 % interval, the items that notice, and the survivors.";

/// A crate, the folders and files of its papers' algorithms, and the papers with items about them.
struct Subject {
    name: &'static str,
    files: &'static [&'static str],
    papers: &'static [&'static str],
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "flow-table",
        files: &["dhash", "sighash", "baseline", "conflict.rs"],
        papers: &["dhash", "flownp"],
    },
    Subject { name: "classifier", files: &["aggrecuts", "hicuts.rs"], papers: &["flownp"] },
    Subject {
        name: "tcb-cache",
        files: &["banked", "fully_associative", "index", "geometry.rs", "clock.rs", "simulator.rs"],
        papers: &["tcbcache"],
    },
    Subject {
        name: "scheduler",
        files: &[
            "placement/adaptive.rs",
            "placement/tree.rs",
            "placement/hrw_2009.rs",
            "placement/hrw_flat.rs",
            "placement/hrw_tree.rs",
            "pull/last_flow_bundle.rs",
            "pull/packet_handoff.rs",
        ],
        papers: &["hrwtree", "lfb"],
    },
];

/// The module of a mutated crate by which its mutants ask whether they are chosen.
const CHOICE: &str = "
#[doc(hidden)]
pub mod mutant {
    extern crate std;
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    pub fn is(number: u32) -> bool {
        let read = || std::env::var(\"FLOWLOOM_MUTANT\").ok()?.parse().ok();
        *CHOSEN.get_or_init(|| read().unwrap_or(0)) == number
    }
}
";

struct Options {
    only: Option<String>,
    sample: usize,
    seed: u64,
    least: f64,
    is_list: bool,
}

/// A file of a crate, and its sites.
struct Mutable {
    path: PathBuf,
    source: String,
    sites: Vec<Site>,
}

/// A drawn mutant: its file and site by position.
struct Drawn {
    number: u32,
    file: usize,
    site: usize,
}

/// What noticed a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Items(Vec<String>),
    Tests,
    None,
    DoesNotCompile,
}

/// Draws, builds and runs the mutants.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let options = parse(arguments)?;
    let chosen = |subject: &&Subject| options.only.as_deref().is_none_or(|only| only == subject.name);
    let (mut all, mut names) = (Vec::new(), BTreeMap::<String, usize>::new());
    for subject in SUBJECTS.iter().filter(chosen) {
        for (about, outcome) in judge(root, subject, &options)? {
            if let Outcome::Items(items) = &outcome {
                for item in items {
                    *names.entry(item.clone()).or_default() += 1;
                }
            }
            all.push((about, outcome));
        }
    }
    if options.is_list {
        return Ok(ExitCode::SUCCESS);
    }
    for (item, count) in names {
        eprintln!("{count:4} noticed by {item}");
    }
    let viable = all.iter().filter(|(_, outcome)| *outcome != Outcome::DoesNotCompile).count();
    let by_items = all.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Items(_))).count();
    let by_tests = all.iter().filter(|(_, outcome)| *outcome == Outcome::Tests).count();
    for (about, _) in all.iter().filter(|(_, outcome)| *outcome == Outcome::None) {
        eprintln!("survived  {about}");
    }
    eprintln!("items        {}", share(by_items, viable));
    eprintln!("and tests    {}", share(by_items + by_tests, viable));
    #[expect(clippy::cast_precision_loss, reason = "hundreds")]
    let percent = 100.0 * (by_items + by_tests) as f64 / viable.max(1) as f64;
    Ok(if percent >= options.least { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { only: None, sample: 40, seed: 1, least: 90.0, is_list: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--list" {
            options.is_list = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word} needs a value\n{USAGE}"))?;
        let wrong = || format!("{word} takes a number, not '{value}'");
        match word.as_str() {
            "--only" => options.only = Some(value.clone()),
            "--sample" => options.sample = value.parse().with_context(wrong)?,
            "--seed" => options.seed = value.parse().with_context(wrong)?,
            "--least" => options.least = value.parse().with_context(wrong)?,
            _ => bail!("unknown option '{word}'\n{USAGE}"),
        }
    }
    if let Some(only) = &options.only {
        ensure!(SUBJECTS.iter().any(|subject| subject.name == only), "no subject '{only}'\n{USAGE}");
    }
    Ok(options)
}

/// Returns a share of mutants with its 95 % interval by Wilson's formula.
#[expect(clippy::cast_precision_loss, reason = "hundreds")]
fn share(part: usize, whole: usize) -> String {
    let (n, z) = (whole.max(1) as f64, 1.96_f64);
    let p = part as f64 / n;
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let [low, high] = [middle - half, middle + half].map(|end| end * 100.0);
    format!("{part} of {whole}, {:.1} % [{low:.1} … {high:.1}]", p * 100.0)
}

/// Runs a crate's sample, and returns each mutant's description and outcome.
fn judge(root: &Path, subject: &Subject, options: &Options) -> Result<Vec<(String, Outcome)>> {
    let base = Path::new("crates").join(subject.name).join("src");
    let mut files = Vec::new();
    for path in rust_files(root, &base, subject.files)? {
        let source = std::fs::read_to_string(root.join(&path))?;
        let sites = sites::sites(&source).with_context(|| path.display().to_string())?;
        files.push(Mutable { path, source, sites });
    }
    let places: Vec<(usize, usize)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, one)| (0..one.sites.len()).map(move |site| (file, site)))
        .collect();
    let drawn: Vec<Drawn> = (1..)
        .zip(crate::mutants::sample(&places, options.sample, options.seed))
        .map(|(number, (file, site))| Drawn { number, file, site })
        .collect();
    let about = |one: &Drawn| {
        let (file, site) = (&files[one.file], &files[one.file].sites[one.site]);
        format!("{}:{}: {}", file.path.display(), site.line, site.describe(&file.source))
    };
    eprintln!("{}: {} of {} mutants, seed {}", subject.name, drawn.len(), places.len(), options.seed);
    if options.is_list {
        for one in &drawn {
            eprintln!("{}", about(one));
        }
        return Ok(Vec::new());
    }
    let folder = root.join("target").join("item-mutants");
    let kept = folder.join(format!("{}-{}-{}.tsv", subject.name, options.seed, options.sample));
    let mut known = known(&kept);
    let tree = copy(root, &folder)?;
    let (programs, broken) = build(&tree, subject, &files, &drawn)?;
    let runner = Runner { programs: &programs, papers: subject.papers };
    let (plain, time) = runner.items(0, Duration::from_secs(600));
    let plain = plain.context("the unchanged items do not run")?;
    let limit = time * 5 + Duration::from_secs(20);
    let mut results = Vec::new();
    for one in &drawn {
        let about = about(one);
        let outcome = match known.remove(&about) {
            Some(outcome) => outcome,
            None if broken.contains(&one.number) => Outcome::DoesNotCompile,
            None => runner.outcome(one.number, &plain, limit),
        };
        eprintln!("{}  {about}", words(&outcome));
        results.push((about, outcome));
        let text = results.iter().fold(String::new(), |mut text, (about, outcome)| {
            let _ = writeln!(text, "{}\t{about}", words(outcome));
            text
        });
        std::fs::write(&kept, text)?;
    }
    Ok(results)
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Items(items) => format!("items {}", items.join(",")),
        Outcome::Tests => "tests".into(),
        Outcome::None => "survived".into(),
        Outcome::DoesNotCompile => "does not compile".into(),
    }
}

/// Reads the results of an earlier run.
fn known(path: &Path) -> BTreeMap<String, Outcome> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let outcome = |word: &str| match word {
        "tests" => Outcome::Tests,
        "survived" => Outcome::None,
        "does not compile" => Outcome::DoesNotCompile,
        _ => Outcome::Items(word.trim_start_matches("items ").split(',').map(str::to_owned).collect()),
    };
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(word, about)| (about.to_owned(), outcome(word)))
        .collect()
}

/// Returns the Rust files of folders and files below `base`.
pub(crate) fn rust_files(root: &Path, base: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = BTreeSet::new();
    for name in names {
        let output = Command::new("git").arg("ls-files").arg(base.join(name)).current_dir(root).output()?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(!text.is_empty(), "{} has no files", base.join(name).display());
        let files_of = text.lines().map(PathBuf::from);
        files.extend(files_of.filter(|path| path.extension().is_some_and(|ending| ending == "rs")));
    }
    Ok(files.into_iter().collect())
}

/// Copies the files of the workspace; a file that did not change keeps its time, so that it is not
/// built again.
pub(crate) fn copy(root: &Path, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    let output =
        Command::new("git").args(["ls-files", "-co", "--exclude-standard"]).current_dir(root).output()?;
    for name in String::from_utf8(output.stdout)?.lines() {
        put(&tree.join(name), &std::fs::read(root.join(name)).unwrap_or_default())?;
    }
    Ok(tree)
}

pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Programs of a build: the one that prints verdicts, and the crate's tests.
struct Programs {
    verdicts: PathBuf,
    tests: Vec<PathBuf>,
    folder: PathBuf,
}

/// Builds the mutants, without those that do not compile, whose numbers it returns.
fn build(
    tree: &Path,
    subject: &Subject,
    files: &[Mutable],
    drawn: &[Drawn],
) -> Result<(Programs, BTreeSet<u32>)> {
    let folder = tree.join("crates").join(subject.name);
    let root_file = folder.join("src").join("lib.rs");
    let plain = std::fs::read_to_string(&root_file)?;
    put(&root_file, (plain + CHOICE).as_bytes())?;
    let package = format!("flowloom-{}", subject.name);
    let mut broken = BTreeSet::new();
    // Each attempt leaves out the mutants that the compiler rejects; removing one may show others.
    for _ in 0..12 {
        for (at, file) in files.iter().enumerate() {
            let of_file = drawn.iter().filter(|one| one.file == at && !broken.contains(&one.number));
            let mut chosen: Vec<(u32, &Site)> =
                of_file.map(|one| (one.number, &file.sites[one.site])).collect();
            chosen.sort_by_key(|(_, site)| (site.range.start, std::cmp::Reverse(site.range.end)));
            put(&tree.join(&file.path), sites::with_mutants(&file.source, &chosen).as_bytes())?;
        }
        let items = cargo(tree, &["build", "-p", "flowloom-repro", "--example", "verdicts"])?;
        let tests = cargo(tree, &["test", "--no-run", "-p", &package, "--lib", "--tests"])?;
        let rejected: BTreeSet<u32> = items.rejected.union(&tests.rejected).copied().collect();
        match items.programs.last() {
            Some(verdicts) if !tests.programs.is_empty() && rejected.is_empty() => {
                // Another build would replace the example.
                let kept = tree.with_file_name(format!("verdicts-{}", subject.name));
                std::fs::copy(verdicts, &kept)?;
                let programs = Programs { verdicts: kept, tests: tests.programs, folder };
                return Ok((programs, broken));
            }
            _ if rejected.is_subset(&broken) => {
                bail!("the copy does not compile: {}", items.errors + &tests.errors)
            }
            _ => broken.extend(rejected),
        }
    }
    bail!("too many mutants do not compile")
}

/// The result of a build.
#[derive(Default)]
struct Built {
    programs: Vec<PathBuf>,
    /// Mutants on the lines of errors.
    rejected: BTreeSet<u32>,
    errors: String,
}

fn cargo(tree: &Path, words: &[&str]) -> Result<Built> {
    let mut command = Command::new("cargo");
    command.args(words).args(["--locked", "--message-format=json"]).current_dir(tree).stderr(Stdio::null());
    // Cargo does not tell apart the crates of two copies in one folder.
    command.env("CARGO_TARGET_DIR", tree.with_file_name("build"));
    let output = command.output().context("cannot run cargo")?;
    let mut built = Built::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(program) = message["executable"].as_str() {
            built.programs.push(PathBuf::from(program));
        }
        if message["message"]["level"] == "error" {
            built.errors.push_str(message["message"]["rendered"].as_str().unwrap_or_default());
            for span in message["message"]["spans"].as_array().into_iter().flatten() {
                let file = tree.join(span["file_name"].as_str().unwrap_or_default());
                let line = span["line_start"].as_u64().and_then(|line| usize::try_from(line).ok());
                built.rejected.extend(line.and_then(|line| mutant_at(&file, line)));
            }
        }
    }
    if !output.status.success() {
        built.programs.clear();
    }
    Ok(built)
}

/// Returns the number of the last mutant that begins on a line or above it.
fn mutant_at(file: &Path, line: usize) -> Option<u32> {
    let text = std::fs::read_to_string(file).ok()?;
    let lines: Vec<&str> = text.lines().take(line).collect();
    let (_, after) = lines.iter().rev().find_map(|line| line.split_once("mutant::is("))?;
    after.split_once(')')?.0.parse().ok()
}

/// Runs items and tests with a mutant.
struct Runner<'a> {
    programs: &'a Programs,
    papers: &'a [&'a str],
}

impl Runner<'_> {
    fn outcome(&self, number: u32, plain: &str, limit: Duration) -> Outcome {
        let items = match self.items(number, limit).0 {
            Some(text) => differing(plain, &text),
            None => vec![String::from("(time or crash)")],
        };
        if !items.is_empty() {
            return Outcome::Items(items);
        }
        // Few random cases notice most mutants; the others get as many as the tests ask for.
        let passes = [Some("32"), None].into_iter().all(|cases| {
            self.programs.tests.iter().all(|test| {
                let mut command = limited(test);
                command.current_dir(&self.programs.folder);
                if let Some(cases) = cases {
                    command.env("PROPTEST_CASES", cases);
                }
                run_within(&mut command, number, Duration::from_secs(300)).is_some()
            })
        });
        if passes { Outcome::None } else { Outcome::Tests }
    }

    /// Returns what the items print, and how long they took; `None` if they crash or take too long.
    fn items(&self, number: u32, limit: Duration) -> (Option<String>, Duration) {
        let start = Instant::now();
        let mut command = limited(&self.programs.verdicts);
        let printed = run_within(command.args(self.papers), number, limit);
        (printed, start.elapsed())
    }
}

/// Returns a command with a limit of memory: a mutant may ask for all of it.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 8000000; exec \"$0\" \"$@\""]).arg(program);
    command
}

/// Runs a program with a mutant, and returns what it prints; `None` if it fails or takes too long.
fn run_within(command: &mut Command, number: u32, limit: Duration) -> Option<String> {
    let mut child = command
        .env("FLOWLOOM_MUTANT", number.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut pipe = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut pipe, &mut text);
        text
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let text = String::from_utf8(reader.join().ok()?).ok()?;
    status.filter(std::process::ExitStatus::success).map(|_| text)
}

/// Returns the items whose lines differ.
fn differing(plain: &str, mutated: &str) -> Vec<String> {
    let known: BTreeSet<&str> = plain.lines().collect();
    let lines = mutated.lines().filter(|line| !known.contains(line));
    lines.filter_map(|line| Some(line.split_once('\t')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_intervals() {
        assert_eq!(share(38, 40), "38 of 40, 95.0 % [83.5 … 98.6]");
        assert_eq!(share(4, 4), "4 of 4, 100.0 % [51.0 … 100.0]");
    }

    #[test]
    fn an_item_notices_by_verdict_band_or_failure() {
        let plain = "a/x\tagrees; outside: \na/y\t-; outside: ";
        assert_eq!(differing(plain, plain), Vec::<String>::new());
        assert_eq!(differing(plain, "a/x\tdiffers; outside: \na/y\t-; outside: rate"), ["a/x", "a/y"]);
        assert_eq!(differing(plain, "a/x\tpanics\na/y\t-; outside: "), ["a/x"]);
    }

    #[test]
    fn outcomes_read_back() {
        let folder = std::env::temp_dir().join(format!("item-mutants-{}", std::process::id()));
        let outcomes = [
            Outcome::Items(vec!["a/x".into(), "a/y".into()]),
            Outcome::Tests,
            Outcome::None,
            Outcome::DoesNotCompile,
        ];
        let lines: Vec<String> = outcomes.iter().map(|one| format!("{}\t{one:?}", words(one))).collect();
        std::fs::write(&folder, lines.join("\n")).unwrap();
        let known = known(&folder);
        std::fs::remove_file(&folder).unwrap();
        assert!(outcomes.iter().all(|one| known[&format!("{one:?}")] == *one));
    }

    #[test]
    fn options_are_checked() {
        let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let options = parse(&words("--only classifier --sample 5 --list")).unwrap();
        assert_eq!(
            (options.only.as_deref(), options.sample, options.is_list),
            (Some("classifier"), 5, true)
        );
        assert!(parse(&words("--only engine")).is_err());
        assert!(parse(&words("--sample")).is_err());
    }
}
