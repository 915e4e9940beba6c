//! How many bytes the machine still has.

use std::fs;
use std::path::Path;

/// Returns the bytes that this process could still touch without harm, if the system tells.
///
/// The smaller of what the kernel calls available and what the control group of the process has left. For
/// refusing a configuration before it fails, not for accounting: the number is old when it is read.
pub fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text));
    let group = group_headroom();
    match (machine, group) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (known, None) | (None, known) => known,
    }
}

/// Reads the line `MemAvailable:  123 kB`.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns limit minus use of the process's control group, version 2 or 1; `None` if unlimited.
fn group_headroom() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let unified = Path::new("/sys/fs/cgroup").join(own);
    // A limit may sit on any ancestor; the tightest counts.
    let mut headroom = None::<u64>;
    for folder in unified.ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup")) {
        let left = left(folder, "memory.max", "memory.current");
        headroom = [headroom, left].into_iter().flatten().min();
    }
    let first = left(Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes");
    [headroom, first].into_iter().flatten().min()
}

fn left(folder: &Path, limit: &str, used: &str) -> Option<u64> {
    let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    Some(number(limit)?.saturating_sub(number(used)?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_available_line_is_read_in_bytes() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    4096 kB\n";
        assert_eq!(super::mem_available(text), Some(4 << 20));
        assert_eq!(super::mem_available("MemFree: 1 kB\n"), None);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn this_machine_has_some() {
        assert!(super::available_bytes().unwrap() > 1 << 20);
    }
}
