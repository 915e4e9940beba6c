//! A hostile corpus for readers, defragmentation, decoder, table and application: whole real
//! captures, small captures truncated at every byte, and mutants of them.
//!
//! Nothing panics, no run takes a second, every packet is accounted for, and the process stays
//! small. The test is a separate process, so its peak memory is that of this test. By default a
//! part runs; the rest is
//!
//! ```console
//! $ cargo test --release -p flowloom --test hostile -- --ignored
//! ```

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod outcome;
mod seeds;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use outcome::{Run, Watchdog, check_memory};
use seeds::{Seed, Steps, seeds};

/// The tests run one at a time, because they measure one process.
static TURN: Mutex<()> = Mutex::new(());

/// Seeds of the corpus.
const SEEDS: usize = 200;

/// Returns the folder of real captures, or prints why there is none.
fn captures() -> Option<PathBuf> {
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        eprintln!("skipped: FLOWLOOM_DATA is not set (the folder of real captures)");
        return None;
    };
    Some(Path::new(&data).join("pcaps"))
}

fn corpus() -> Vec<Seed> {
    let seeds = seeds(captures().as_deref(), SEEDS);
    assert_eq!(seeds.len(), SEEDS);
    assert!(seeds.iter().all(|seed| !seed.bytes.is_empty() && seed.bytes.len() <= 4096));
    seeds
}

/// Truncates every seed at one byte in `stride`, with a different first byte per seed.
fn cut(stride: usize) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let watchdog = Watchdog::start();
    let mut run = Run::new();
    for (number, seed) in corpus().iter().enumerate() {
        for end in (number % stride..=seed.bytes.len()).step_by(stride) {
            watchdog.look(|| format!("{} cut at byte {end}", seed.name));
            run.check(&seed.bytes[..end], end);
        }
    }
    eprintln!("{run}");
    check_memory(&run);
}

/// Generates a number of mutants of every seed.
fn mutate(mutants: u64) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let watchdog = Watchdog::start();
    let mut run = Run::new();
    let seeds = corpus();
    for (number, seed) in seeds.iter().enumerate() {
        for mutant in 0..mutants {
            let mut steps = Steps::new((number as u64) << 32 | mutant);
            let bytes = seeds::mutant(seed, &seeds, &mut steps);
            watchdog.look(|| format!("{}, mutant {mutant}", seed.name));
            run.check(&bytes, usize::try_from(steps.next()).unwrap_or(0));
        }
    }
    eprintln!("{run}");
    check_memory(&run);
}

#[test]
fn chunk_of_cut_captures_is_harmless() {
    cut(61);
}

#[test]
fn chunk_of_mutated_captures_is_harmless() {
    mutate(40);
}

#[test]
#[ignore = "all cuts: minutes, see the top of this file"]
fn every_cut_capture_is_harmless() {
    cut(1);
}

#[test]
#[ignore = "all mutants: minutes, see the top of this file"]
fn every_mutated_capture_is_harmless() {
    mutate(2000);
}

#[test]
fn every_real_capture_is_harmless() {
    let Some(folder) = captures() else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let watchdog = Watchdog::start();
    let mut run = Run::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join("nasty")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(folder.join("dev_mix_ether.pcap.zst"));
    files.sort();
    assert_eq!(files.len(), 41);
    for path in &files {
        for choice in 0..4 {
            watchdog.look(|| path.display().to_string());
            run.check_file(path, choice);
        }
    }
    eprintln!("{run}");
    check_memory(&run);
}
