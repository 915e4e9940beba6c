//! What a figure depends on beside the processor: memory, caches, compiler, day.

use std::fs::read_to_string;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The machine, the compiler and the day of a reproduction; what cannot be read is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Level, type and size of each cache of the first processor.
    pub caches: Vec<String>,
    /// Version of the compiler.
    pub compiler: &'static str,
    /// The day on which the run began, in UTC.
    pub date: String,
}

impl Machine {
    /// Reads the description of the machine.
    pub fn read() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            memory_bytes: memory_bytes(&read_to_string("/proc/meminfo").unwrap_or_default()),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            compiler: env!("FLOWLOOM_RUSTC"),
            date: date(seconds / 86_400),
        }
    }

    /// Returns the description in one line.
    pub fn line(&self) -> String {
        let gib = |bytes: u64| format!("{:.1} GiB of memory", bytes as f64 / f64::from(1 << 30));
        let parts = [self.memory_bytes.map(gib), Some(self.caches.join(", "))];
        let known = parts.into_iter().flatten().filter(|part| !part.is_empty());
        known.chain([self.compiler.to_owned(), self.date.clone()]).collect::<Vec<_>>().join(" · ")
    }
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the caches that a folder of the kernel describes.
fn caches(folder: &Path) -> Vec<String> {
    let index = |number| folder.join(format!("index{number}"));
    let described = |number| {
        let read = |name| Some(read_to_string(index(number).join(name)).ok()?.trim().to_owned());
        Some(format!("L{} {} {}", read("level")?, read("type")?.to_lowercase(), read("size")?))
    };
    (0..).map_while(described).collect()
}

/// Returns the date of a day that is numbered from 1970 on: years begin in March here, so that the
/// day that may be missing is the last one.
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{}-{month:02}-{day:02}", era * 400 + year + u64::from(month < 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let dates = [0, 59, 11_016, 19_782, 19_783, 47_540].map(date);
        assert_eq!(
            dates,
            ["1970-01-01", "1970-03-01", "2000-02-29", "2024-02-29", "2024-03-01", "2100-02-28"]
        );
    }

    #[test]
    fn missing_kernel_facts_are_none() {
        assert_eq!(memory_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!([memory_bytes(""), memory_bytes("MemTotal: many kB")], [None, None]);
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("index0");
        std::fs::create_dir(&first).unwrap();
        for (name, text) in [("level", "1\n"), ("type", "Data\n"), ("size", "32K\n")] {
            std::fs::write(first.join(name), text).unwrap();
        }
        assert_eq!(caches(folder.path()), ["L1 data 32K"]);
        let machine = Machine {
            memory_bytes: None,
            caches: Vec::new(),
            compiler: "rustc 1",
            date: String::from("2000-01-01"),
        };
        assert_eq!(machine.line(), "rustc 1 · 2000-01-01");
    }
}
