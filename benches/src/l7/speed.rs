//! Compares the scanner with vectorscan, on the same patterns and the same payload.
//!
//! Vectorscan has two suitable modes: whole buffers (block mode), and streams that are passed piece
//! by piece. The scanner is compared with each mode on the same work: the pattern with the lowest
//! number that matches in a buffer, or in a stream at its end. Answers are compared before any
//! time. A pattern that vectorscan cannot compile is omitted on both sides, and named. The scanner
//! must agree with a search for one expression after another. Buffers for which vectorscan does not
//! agree, at most one in a hundred, are omitted from the timed work and counted.

use std::path::PathBuf;

use anyhow::{Result, bail};
use flowloom::dpi::reference::Rescanner;
use flowloom::dpi::{MatchState, Origin, Pattern, ScanState, Scanner, Transport, builtin};
use flowloom_measure::rows::{RatioRow, ResultRow};
use flowloom_measure::{Rounds, Samples};

use super::payloads::{Payloads, collect, slice};
use crate::goal::{Clock, JudgedReport, JudgedResult, JudgedRow};
#[cfg(has_vectorscan)]
use crate::peers::vectorscan::Vectorscan;

/// The size of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of rounds.
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
    /// Captures, or directories of captures [`pcaps` below `FLOWLOOM_DATA`].
    #[arg(long = "capture", value_name = "PATH")]
    pub captures: Vec<PathBuf>,
}

/// Unanchored patterns, to measure their cost; all built-in patterns are anchored.
const FLOATING: [(&str, &str); 12] = [
    ("any-http", r"HTTP/1\.[01] [1-5][0-9][0-9] "),
    ("any-upgrade", r"(?i:upgrade: websocket)"),
    ("any-ssh", r"SSH-[12]\.[0-9]"),
    ("any-torrent", r"BitTorrent protocol"),
    ("any-sip", r"SIP/2\.0 [1-6][0-9][0-9] "),
    ("any-rtsp", r"RTSP/1\.0 [1-5][0-9][0-9] "),
    ("any-smtp", r"\r\n250[ -][!-~]+ "),
    ("any-imap", r"\* OK IMAP4"),
    ("any-xmpp", r"<stream:stream "),
    ("any-sql", r"(?i:select [a-z0-9_*, ]+ from )"),
    ("any-elf", r"\x7fELF[\x01\x02]\x01\x01"),
    ("any-mz", r"MZ..[\x01-\x04]\x00\x00\x00"),
];

/// Converts an expression to the syntax of PCRE, in which `$` also matches before a final line
/// break.
#[cfg(any(has_vectorscan, test))]
fn for_vectorscan(regex: &str) -> String {
    let (mut out, mut escaped, mut class) = (String::with_capacity(regex.len() + 8), false, false);
    for c in regex.chars() {
        match c {
            '$' if !escaped && !class => out.push_str("\\z"),
            '[' if !escaped => class = true,
            ']' if !escaped => class = false,
            _ => {}
        }
        if c != '$' || escaped || class {
            out.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    out
}

/// The answers of one scanning method, for comparison; `u32::MAX` means no pattern.
type Answers = Vec<u32>;

fn id_of(found: Option<flowloom::dpi::Match>) -> u32 {
    found.map_or(u32::MAX, |found| u32::from(found.pattern.0))
}

fn ours_whole(scanner: &Scanner, transport: Transport, bytes: &[u8], bounds: &[[u64; 2]], out: &mut [u32]) {
    for (out, &at) in out.iter_mut().zip(bounds) {
        *out = id_of(scanner.scan_whole(transport, slice(bytes, at)));
    }
}

fn ours_streams(scanner: &Scanner, payloads: &Payloads, out: &mut [u32]) {
    for (out, first) in out.iter_mut().zip(payloads.first.windows(2)) {
        let (mut state, mut found) = (ScanState::default(), MatchState::default());
        for &at in pieces_of(payloads, first) {
            scanner.feed(Transport::Tcp, &mut state, &mut found, slice(&payloads.bytes, at));
        }
        *out = match scanner.outcome(Transport::Tcp, &state, found, Origin::UNKNOWN, 0) {
            flowloom::dpi::Outcome::Matched(found) => id_of(Some(found)),
            _ => u32::MAX,
        };
    }
}

#[expect(clippy::cast_possible_truncation, reason = "indexes of a list in memory")]
fn pieces_of<'a>(payloads: &'a Payloads, first: &[u64]) -> &'a [[u64; 2]] {
    &payloads.pieces[first[0] as usize..first[1] as usize]
}

fn checksum(answers: &[u32]) -> u64 {
    answers.iter().fold(0, |sum, &answer| sum.rotate_left(5) ^ u64::from(answer))
}

/// Removes the patterns that vectorscan cannot compile, and returns their names.
#[cfg(has_vectorscan)]
fn both_know(patterns: Vec<Pattern>, missing: &mut Vec<String>) -> Vec<Pattern> {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for pattern in patterns {
        if Vectorscan::new(&[(0, for_vectorscan(&pattern.regex()))], true).is_ok() {
            kept.push(pattern);
        } else {
            left.push(pattern.name);
        }
    }
    if !left.is_empty() {
        missing.push(format!("patterns that vectorscan cannot compile: {}", left.join(", ")));
    }
    kept
}

#[cfg(has_vectorscan)]
fn rival(patterns: &[Pattern], transport: Transport, streaming: bool) -> Result<Vectorscan> {
    let list: Vec<(u32, String)> = (0..)
        .zip(patterns)
        .filter(|(_, pattern)| pattern.transports.has(transport))
        .map(|(id, pattern)| (id, for_vectorscan(&pattern.regex())))
        .collect();
    Vectorscan::new(&list, streaming)
        .map_err(|bad| anyhow::anyhow!("vectorscan cannot compile pattern {bad}"))
}

/// Adds the rows to a report. Returns the missing ones.
///
/// # Errors
///
/// Returns an error if a capture cannot be read, or vectorscan's answers differ.
pub fn run(options: &Options, report: &mut JudgedReport) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let payloads = collect(&options.captures)?;
    if payloads.streams.is_empty() || payloads.datagrams.is_empty() {
        bail!("the captures contain no TCP data or no datagrams");
    }
    #[cfg(not(has_vectorscan))]
    missing.push(String::from("vectorscan: not installed when this was built (libvectorscan-dev)"));
    let mut with_floating = builtin();
    with_floating.extend(FLOATING.iter().map(|(name, regex)| Pattern::new(name, regex)));
    for (set, patterns) in [("builtin", builtin()), ("builtin and 12 floating", with_floating)] {
        #[cfg(has_vectorscan)]
        let patterns = both_know(patterns, &mut missing);
        let full = Full { scanner: Scanner::new(&patterns)?, rescanner: Rescanner::new(&patterns)? };
        // Vectorscan has no conditions, so answers are compared for the expressions alone.
        let patterns: Vec<Pattern> = patterns.into_iter().map(Pattern::without_conditions).collect();
        let scanner = Scanner::new(&patterns)?;
        let rescanner = Rescanner::new(&patterns)?;
        let full = &full;
        for (work, transport) in [("TCP buffers", Transport::Tcp), ("datagrams", Transport::Udp)] {
            let work = format!("{set}, {work}");
            let job =
                Job { work, transport, patterns: &patterns, scanner: &scanner, full, payloads: &payloads };
            measure_whole(&job, &rescanner, options, report, &mut missing)?;
        }
        let work = format!("{set}, TCP in pieces");
        let transport = Transport::Tcp;
        let job =
            Job { work, transport, patterns: &patterns, scanner: &scanner, full, payloads: &payloads };
        streams(&job, options, report, &mut missing)?;
    }
    Ok(missing)
}

/// The patterns with their conditions; this scanner is timed.
struct Full {
    scanner: Scanner,
    rescanner: Rescanner,
}

/// A kind of work.
struct Job<'a> {
    work: String,
    transport: Transport,
    patterns: &'a [Pattern],
    /// The scanner of the expressions alone.
    scanner: &'a Scanner,
    full: &'a Full,
    payloads: &'a Payloads,
}

fn measure_whole(
    job: &Job<'_>,
    rescanner: &Rescanner,
    options: &Options,
    report: &mut JudgedReport,
    missing: &mut Vec<String>,
) -> Result<()> {
    let Job { work, transport, scanner, full, payloads, .. } = job;
    let (transport, bytes) = (*transport, &payloads.bytes[..]);
    #[cfg_attr(not(has_vectorscan), expect(unused_mut, reason = "without the rival all buffers stay"))]
    let mut bounds = match transport {
        Transport::Tcp => payloads.streams.clone(),
        Transport::Udp => payloads.datagrams.clone(),
    };
    let expected: Answers =
        bounds.iter().map(|&at| id_of(rescanner.first(transport, slice(bytes, at)))).collect();
    let mut ours: Answers = vec![0; bounds.len()];
    ours_whole(scanner, transport, bytes, &bounds, &mut ours);
    check_answers(work, &ours, &expected)?;
    #[cfg(has_vectorscan)]
    let mut vectorscan = rival(job.patterns, transport, false)?;
    #[cfg(has_vectorscan)]
    {
        let mut theirs: Answers = vec![0; bounds.len()];
        vectorscan.blocks(bytes, &bounds, &mut theirs)?;
        let keep = agreeing(work, &theirs, &expected, missing)?;
        let mut keep = keep.iter();
        bounds.retain(|_| keep.next().copied().unwrap_or(true));
    }
    let _ = (job.patterns, &missing);
    let (total, bounds) = (Payloads::total(&bounds), &bounds[..]);
    let mut answers: Answers = vec![0; bounds.len()];
    ours_whole(scanner, transport, bytes, bounds, &mut answers);
    let alone = checksum(&answers);
    let expected: Answers =
        bounds.iter().map(|&at| id_of(full.rescanner.first(transport, slice(bytes, at)))).collect();
    let mut rounds = Rounds::new(options.rounds).variant_with_lap("flowloom", move |lap| {
        lap.time(|| ours_whole(&full.scanner, transport, bytes, bounds, &mut answers));
        // With conditions, the answers differ from vectorscan's, and are checked separately.
        if answers == expected { alone } else { !alone }
    });
    #[cfg(has_vectorscan)]
    {
        let mut theirs: Answers = vec![0; bounds.len()];
        rounds = rounds.variant("vectorscan, block", move || {
            match vectorscan.blocks(bytes, bounds, &mut theirs) {
                Ok(()) => checksum(&theirs),
                Err(_) => 0,
            }
        });
    }
    rounds = rounds.variant("one expression after the other", || {
        bounds.iter().fold(0_u64, |sum, &at| {
            let id = id_of(rescanner.first(transport, slice(bytes, at)));
            sum.rotate_left(5) ^ u64::from(id)
        })
    });
    judge(work, total, &rounds.run()?.samples, report)
}

fn streams(
    job: &Job<'_>,
    options: &Options,
    report: &mut JudgedReport,
    missing: &mut Vec<String>,
) -> Result<()> {
    let Job { work, scanner, full, payloads, .. } = job;
    let mut expected: Answers = vec![0; payloads.streams.len()];
    ours_whole(scanner, Transport::Tcp, &payloads.bytes, &payloads.streams, &mut expected);
    let mut ours: Answers = vec![0; payloads.streams.len()];
    ours_streams(scanner, payloads, &mut ours);
    check_answers(work, &ours, &expected)?;
    let _ = (job.patterns, &missing);
    let alone = checksum(&ours);
    let whole: Answers = payloads
        .streams
        .iter()
        .map(|&at| id_of(full.rescanner.first(Transport::Tcp, slice(&payloads.bytes, at))))
        .collect();
    #[cfg_attr(not(has_vectorscan), expect(unused_mut, reason = "without the rival there is one variant"))]
    let mut rounds = Rounds::new(options.rounds).variant_with_lap("flowloom", move |lap| {
        lap.time(|| ours_streams(&full.scanner, payloads, &mut ours));
        if ours == whole { alone } else { !alone }
    });
    #[cfg(has_vectorscan)]
    {
        let mut vectorscan = rival(job.patterns, Transport::Tcp, true)?;
        let mut theirs: Answers = vec![0; payloads.streams.len()];
        vectorscan.streams(&payloads.bytes, &payloads.pieces, &payloads.first, &mut theirs)?;
        let keep = agreeing(work, &theirs, &expected, missing)?;
        // A stream for which its answer differs is scanned and timed by both, and its answer is
        // replaced by the correct one.
        let put_right: Vec<(usize, u32)> =
            (0..keep.len()).filter(|&i| !keep[i]).map(|i| (i, expected[i])).collect();
        rounds = rounds.variant("vectorscan, streams", move || {
            match vectorscan.streams(&payloads.bytes, &payloads.pieces, &payloads.first, &mut theirs) {
                Ok(()) => {
                    for &(at, answer) in &put_right {
                        theirs[at] = answer;
                    }
                    checksum(&theirs)
                }
                Err(_) => 0,
            }
        });
    }
    judge(work, Payloads::total(&payloads.streams), &rounds.run()?.samples, report)
}

fn check_answers(work: &str, answers: &[u32], expected: &[u32]) -> Result<()> {
    let differ = answers.iter().zip(expected).filter(|(a, b)| a != b).count();
    if differ > 0 {
        bail!("{work}: the scanner's answers differ for {differ} of {} buffers", answers.len());
    }
    Ok(())
}

/// Returns the buffers for which vectorscan's answer equals that of the other variants.
#[cfg(has_vectorscan)]
fn agreeing(work: &str, theirs: &[u32], expected: &[u32], missing: &mut Vec<String>) -> Result<Vec<bool>> {
    let keep: Vec<bool> = theirs.iter().zip(expected).map(|(a, b)| a == b).collect();
    let differ = keep.iter().filter(|&&same| !same).count();
    if differ * 100 > keep.len() {
        bail!("{work}: vectorscan's answers differ for {differ} of {} buffers", keep.len());
    }
    if differ > 0 {
        missing.push(format!(
            "{work}: for {differ} of {} buffers, vectorscan's answers differ from those of the scanner \
             and of the individual expressions",
            keep.len()
        ));
    }
    Ok(keep)
}

fn judge(work: &str, bytes: u64, samples: &[Samples], report: &mut JudgedReport) -> Result<()> {
    let [ours, rivals @ ..] = samples else { bail!("a variant has no samples") };
    for sample in samples {
        report.results.push(JudgedResult::new(ResultRow::new(work, bytes, bytes, sample), None));
    }
    for rival in rivals {
        let row = RatioRow::new(work, bytes, rival, ours).with_items(bytes, &rival.cpu_ns, &ours.cpu_ns);
        let goal = rival.name.starts_with("vectorscan").then_some(1.0);
        report.ratios.push(JudgedRow::new(row, Clock::Cpu, goal));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_ends_use_the_syntax_of_pcre() {
        assert_eq!(for_vectorscan(r"^a$|[$]\$($|b)"), r"^a\z|[$]\$(\z|b)");
    }
}
