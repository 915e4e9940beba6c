//! Generates web server logs, and traces of accesses to connection state.

use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Instant;

use flowloom::tcb_cache::bounds::NextUses;
use flowloom::tcb_cache::model::logged::LogEntry;
use flowloom::tcb_cache::model::{Overlap, PacketModel, Surge, SurgeConfig};
use flowloom::tcb_cache::trace::oracle_general;
use flowloom::tcb_cache::{Access, Trace};

use crate::args::Common;
use crate::args::generate::Weblog;
use crate::args::simulate::tcb_cache::packet_model;
use crate::decompressed::plain_name;
use crate::exit::{Failure, Status, stdout_failure};
use crate::output::OutputFile;
use crate::render::generate::WeblogResult;
use crate::render::print;
use crate::verbs::simulate::tcb_cache::source::check_memory;

/// The first second of generated logs: 1 August 1995.
const BEGIN_MS: u64 = 807_235_200_000;
/// Size of a session's state in a trace, in bytes.
const STATE_BYTES: u32 = 64;

/// Formats of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFormat {
    Clf,
    Tsv,
    Csv,
    OracleGeneral,
}

impl LogFormat {
    fn from_path(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Clf);
        }
        let name = plain_name(path).to_ascii_lowercase();
        Ok(match name.rsplit_once('.') {
            Some((_, "log")) => Self::Clf,
            Some((_, "tsv")) => Self::Tsv,
            Some((_, "csv")) => Self::Csv,
            _ if name.contains("oraclegeneral") => Self::OracleGeneral,
            _ => {
                return Err(Failure::Usage(format!(
                    "the name {} does not determine the output format\n  use .log, .tsv, .csv or \
                     .oracleGeneral, followed by .gz or .zst to compress",
                    path.display()
                )));
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Clf => "clf",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::OracleGeneral => "oracle-general",
        }
    }
}

/// The data to write.
enum Made {
    Log(Vec<LogEntry>),
    Accesses(Vec<Access>, NextUses),
}

/// Runs the command.
pub(super) fn run(arguments: &Weblog, common: &Common) -> Result<Status, Failure> {
    let begun = Instant::now();
    let form = LogFormat::from_path(&arguments.output)?;
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let is_log = matches!(form, LogFormat::Clf | LogFormat::Tsv);
    let packets = packet_model(arguments.connection, arguments.view);
    if is_log && packets != PacketModel::default() {
        return Err(Failure::Usage(String::from(
            "a log has one line per request, independent of connections and packets\n  use --view and \
             --connection with .csv and .oracleGeneral",
        )));
    }
    let overlap = Overlap {
        sessions: arguments.overlap,
        accesses: usize::try_from(arguments.accesses).unwrap_or(usize::MAX),
        packets,
        ports: arguments.ports,
        seed: arguments.seed,
    };
    check_memory(arguments.accesses)?;
    let config = SurgeConfig { think_factor: arguments.think, ..SurgeConfig::default() };
    let mut source = Surge::new(config, arguments.seed);
    let (made, records, keys, span_ms) = if is_log {
        let log = overlap.make_log(&mut source, BEGIN_MS).map_err(|error| usage(&error))?;
        let mut clients: Vec<u32> = log.iter().map(|entry| entry.address).collect();
        clients.sort_unstable();
        clients.dedup();
        let span_ms = log.last().map_or(0, |entry| entry.time_ms - BEGIN_MS);
        let (records, keys) = (log.len(), clients.len());
        (Made::Log(log), records, keys, span_ms)
    } else {
        let accesses = overlap.make(&mut source).map_err(|error| usage(&error))?.accesses;
        let span_ms = accesses.last().map_or(0, |access| access.time_ms());
        let trace = Trace::new(accesses, 0);
        let uses = trace.next_uses(false).map_err(|error| usage(&error))?;
        let (records, keys) = (trace.accesses().len(), uses.first_uses_from(0));
        (Made::Accesses(trace.into_accesses(), uses), records, keys, span_ms)
    };
    let to_stdout = arguments.output.as_os_str() == "-";
    let written = if to_stdout {
        write(io::stdout().lock(), arguments, form, &made)
    } else {
        OutputFile::open_whole(&arguments.output).and_then(|file| {
            write(file.clone(), arguments, form, &made)?;
            file.finish()
        })
    };
    written.map_err(|error| {
        if to_stdout {
            stdout_failure(&error)
        } else {
            Failure::Output(format!("cannot write {}: {error}", arguments.output.display()))
        }
    })?;
    // With the log on standard output, no report may appear there.
    if !to_stdout {
        let result = WeblogResult {
            schema: "flowloom/generate-weblog/1",
            path: arguments.output.display().to_string(),
            form: form.name(),
            model: "s",
            overlap: arguments.overlap,
            seed: arguments.seed,
            records: records as u64,
            keys: keys as u64,
            span_s: span_ms as f64 / 1000.0,
            seconds: begun.elapsed().as_secs_f64(),
        };
        print(&result, common)?;
    }
    Ok(Status::Ok)
}

/// Writes everything with the compression that the extension of the path selects.
fn write(out: impl Write, arguments: &Weblog, form: LogFormat, made: &Made) -> io::Result<()> {
    let out = BufWriter::with_capacity(1 << 20, out);
    match arguments.output.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => {
            let mut packed = zstd::Encoder::new(out, 3)?;
            records(&mut packed, form, made)?;
            packed.finish()?.flush()
        }
        Some("gz") => {
            let mut packed = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            records(&mut packed, form, made)?;
            packed.finish()?.flush()
        }
        _ => {
            let mut out = out;
            records(&mut out, form, made)?;
            out.flush()
        }
    }
}

fn records(out: &mut impl Write, form: LogFormat, made: &Made) -> io::Result<()> {
    match made {
        Made::Log(log) => {
            if form == LogFormat::Tsv {
                writeln!(out, "host\tlogname\ttime\tmethod\turl\tresponse\tbytes")?;
            }
            for entry in log {
                let (host, bytes) = (Ipv4Addr::from_bits(entry.address), entry.reply_bytes);
                let seconds = entry.time_ms / 1000;
                if form == LogFormat::Tsv {
                    writeln!(out, "{host}\t-\t{seconds}\tGET\t/\t200\t{bytes}")?;
                } else {
                    let time = LogTime(seconds);
                    writeln!(out, "{host} - - [{time}] \"GET / HTTP/1.0\" 200 {bytes}")?;
                }
            }
        }
        Made::Accesses(accesses, uses) => {
            if form == LogFormat::Csv {
                writeln!(out, "time_ms,key,closes")?;
            }
            for (position, access) in accesses.iter().enumerate() {
                if form == LogFormat::Csv {
                    writeln!(
                        out,
                        "{},{:#x},{}",
                        access.time_ms(),
                        access.key(),
                        u8::from(access.closes())
                    )?;
                } else {
                    let next = uses.after(position);
                    let next = (next != NextUses::NEVER).then_some(u64::from(next));
                    out.write_all(&oracle_general::record(*access, STATE_BYTES, next))?;
                }
            }
        }
    }
    Ok(())
}

/// Seconds since 1970 in the format of logs; generated logs begin in 1995 and last less than a
/// year.
struct LogTime(u64);

impl std::fmt::Display for LogTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // Days since 1 March of the year 0, in eras of 400 years.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let name = MONTHS[(month as usize + 2) % 12];
        let year = era * 400 + year + u64::from(month >= 10);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{day:02}/{name}/{year}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_times_have_the_common_log_format() {
        for (seconds, text) in [
            (0, "01/Jan/1970:00:00:00 +0000"),
            (807_249_601, "01/Aug/1995:04:00:01 +0000"),
            (951_782_399, "28/Feb/2000:23:59:59 +0000"),
            (951_782_400, "29/Feb/2000:00:00:00 +0000"),
            (4_107_542_400, "01/Mar/2100:00:00:00 +0000"),
        ] {
            assert_eq!(LogTime(seconds).to_string(), text);
        }
        assert_eq!(LogTime(BEGIN_MS / 1000).to_string(), "01/Aug/1995:00:00:00 +0000");
    }

    #[test]
    fn file_name_selects_the_log_format() {
        for (name, form) in [
            ("a.log", LogFormat::Clf),
            ("a.log.gz", LogFormat::Clf),
            ("a.TSV.zst", LogFormat::Tsv),
            ("a.csv", LogFormat::Csv),
            ("a.oracleGeneral.bin.zst", LogFormat::OracleGeneral),
            ("-", LogFormat::Clf),
        ] {
            assert_eq!(LogFormat::from_path(Path::new(name)).unwrap(), form, "{name}");
        }
        assert!(LogFormat::from_path(Path::new("a.txt")).is_err());
    }
}
