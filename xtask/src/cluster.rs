//! `cargo xtask cluster`: compares flows of captures on a Spark cluster with one run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::program::{build, exit_code, finish, succeeds};

/// Generates captures, cuts them at random bytes, reads them on a local cluster of two executors
/// while executors are killed, and compares all records by DuckDB and all counters with one run of
/// flowloom; then with damaged captures, with three taps that overlap in time, with captures in S3
/// (moto), and with a job that parses in Python. Then it runs the page of the book. All packages
/// come from PyPI, and a JRE from the distribution where there is none, into target/cluster; what
/// cannot be installed is named and left out. About five minutes on two cores.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 300)]
    captures: u64,
    /// Packets of all captures together.
    #[arg(long, default_value_t = 600_000)]
    packets: u64,
    /// Seed of the traffic and the cuts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Makes the virtual environment.
    #[arg(long, default_value = "python3")]
    python: String,
}

/// What the check installs.
const PACKAGES: [&str; 5] = ["pyspark>=4,<5", "pyarrow>=18", "pandas>=2.2,<3", "duckdb>=1", "dpkt>=1.9"];
/// What parts of the check need, which run where it can be installed.
const ENGINES: [&str; 3] = ["datafusion>=43", "chdb>=3", "moto[server]>=5"];
/// The package of Debian and Ubuntu that has a JRE.
const JRE: &str = "openjdk-17-jre-headless";

/// Builds the command, installs what the check needs, and runs it.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let Options { captures, packets, seed, python } = options;
    let numbers = [("--captures", captures), ("--packets", packets), ("--seed", seed)];
    let rest: Vec<String> =
        numbers.iter().flat_map(|(option, number)| [(*option).to_owned(), number.to_string()]).collect();
    let flowloom = build(root, &["-p", "flowloom-cli", "--bin", "flowloom"])?;
    let folder = root.join("target/cluster");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let interpreter = environment(&folder, python, &PACKAGES)?;
    for engine in ENGINES {
        if environment(&folder, python, &[engine]).is_err() {
            eprintln!("{engine} cannot be installed from PyPI: what needs it is left out");
        }
    }
    let path = java(&folder)?;
    let work = folder.join("work");
    if work.exists() {
        std::fs::remove_dir_all(&work).with_context(|| format!("cannot empty {}", work.display()))?;
    }
    std::fs::create_dir(&work)?;
    let package = root.join("integrations/spark");
    let is_right = |program: &str, work: &Path, rest: &[String]| -> Result<bool> {
        let mut check = Command::new(&interpreter);
        check.arg(package.join(program)).arg("--binary").arg(&flowloom).arg("--work").arg(work);
        check.args(rest).env("PYTHONPATH", package.join("src")).env("PATH", &path);
        check.env("PYSPARK_PYTHON", &interpreter).env("SPARK_LOCAL_IP", "127.0.0.1").current_dir(work);
        succeeds(&mut check)
    };
    let is_equal = is_right("cluster.py", &work, &rest)?;
    let guide = work.join("guide");
    std::fs::create_dir(&guide)?;
    let page = root.join("docs/spark.md").display().to_string();
    let holds = is_right("guide.py", &guide, &[String::from("--page"), page])?;
    Ok(exit_code(is_equal && holds))
}

/// Returns the Python of an environment in a folder with these packages, which it makes.
pub(crate) fn environment(folder: &Path, python: &str, packages: &[&str]) -> Result<PathBuf> {
    let environment = folder.join("python");
    let interpreter = environment.join("bin/python");
    if !interpreter.exists() {
        finish(Command::new(python).args(["-m", "venv"]).arg(&environment))?;
    }
    let mut install = Command::new(&interpreter);
    finish(
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages),
    )?;
    Ok(interpreter)
}

/// Returns a search path that has `java`.
fn java(folder: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|place| place.join("java").is_file()) {
        return Ok(path);
    }
    let jre = folder.join("jre");
    if !jre.exists() {
        finish(Command::new("apt-get").args(["download", JRE]).current_dir(folder))?;
        let files = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
        let package = files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "deb"));
        let package = package.with_context(|| format!("apt-get has not brought {JRE}"))?;
        finish(Command::new("dpkg-deb").arg("-x").arg(package).arg(&jre))?;
    }
    let homes = std::fs::read_dir(jre.join("usr/lib/jvm"))?.flatten().map(|entry| entry.path().join("bin"));
    let bin = homes.into_iter().find(|bin| bin.join("java").is_file());
    let bin = bin.with_context(|| format!("{JRE} has no java below {}", jre.display()))?;
    Ok(std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)))?)
}
