//! The CPUs that this process may use, and their relations.
//!
//! It is read once, at start. Otherwise two workers on the siblings of one physical core, or on
//! distant parts of a machine, would be noticed only in measurements. If the system reports
//! nothing, each allowed CPU counts as a separate core.

use core::fmt;
use core::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// One CPU (hardware thread) that the process may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The kernel's number of the CPU.
    pub id: u32,
    /// Numbers of the hardware threads of the same physical core, including this one, ascending.
    pub siblings: Vec<u32>,
    /// The package (socket), 0 if unknown.
    pub package: u32,
    /// Numbers of the CPUs that share the last-level cache, including this one, ascending.
    pub last_level_group: Vec<u32>,
}

/// Sizes of a CPU's caches in bytes; 0 if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheSizes {
    /// First-level data cache.
    pub level1_data_bytes: u64,
    /// Second-level cache.
    pub level2_bytes: u64,
    /// Third-level cache.
    pub level3_bytes: u64,
}

/// The CPUs of this process and their relations. The default is empty, for simulated machines that
/// are built field by field.
///
/// # Examples
///
/// ```no_run
/// let topology = flowloom_cpu::topology::Topology::read()?;
/// println!("{} on {} CPUs", topology.model, topology.cpus.len());
/// # Ok::<(), flowloom_cpu::topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// The processor's name, empty if unknown.
    pub model: String,
    /// The CPUs that are present and that the process may run on, by ascending number; at least one
    /// if the topology was read.
    pub cpus: Vec<Cpu>,
    /// The caches of the first CPU.
    pub caches: CacheSizes,
}

impl Topology {
    /// Reads the topology from the system.
    ///
    /// # Errors
    ///
    /// Returns [`TopologyError`] if the system describes the allowed CPUs in an unknown format.
    pub fn read() -> Result<Self, TopologyError> {
        Self::read_below(Path::new("/"))
    }

    /// Reads a topology from the `proc` and `sys` directories below `root`.
    fn read_below(root: &Path) -> Result<Self, TopologyError> {
        let devices = root.join("sys/devices/system/cpu");
        let mut cpus = Vec::new();
        for id in allowed(root)? {
            let folder = devices.join(format!("cpu{id}"));
            cpus.push(Cpu {
                id,
                siblings: list(folder.join("topology/thread_siblings_list"), id)?,
                package: text(folder.join("topology/physical_package_id")).parse().unwrap_or(0),
                last_level_group: match caches(&folder).into_iter().max_by_key(|cache| cache.level) {
                    Some(cache) => list(cache.folder.join("shared_cpu_list"), id)?,
                    None => vec![id],
                },
            });
        }
        let first = cpus.first().map_or(0, |cpu| cpu.id);
        let mut sizes = CacheSizes::default();
        for cache in caches(&devices.join(format!("cpu{first}"))) {
            match cache.level {
                1 => sizes.level1_data_bytes = cache.bytes,
                2 => sizes.level2_bytes = cache.bytes,
                3 => sizes.level3_bytes = cache.bytes,
                _ => {}
            }
        }
        Ok(Self { model: model(root), cpus, caches: sizes })
    }

    /// Returns one allowed CPU per physical core, ascending.
    pub fn one_per_core(&self) -> Vec<u32> {
        let mut taken = Vec::new();
        for cpu in &self.cpus {
            if !taken.iter().any(|other| cpu.siblings.contains(other)) {
                taken.push(cpu.id);
            }
        }
        taken
    }
}

/// Threads can be pinned to CPUs with numbers below this, with the methods of this workspace.
///
/// 0 if the system does not pin threads, or pins them only as a hint (macOS): a program must not
/// claim that it is pinned there.
pub const PINNABLE_CPUS: u32 = if cfg!(any(target_os = "linux", target_os = "android")) {
    1024
} else if cfg!(target_os = "freebsd") {
    128
} else if cfg!(windows) {
    // Number of bits in the mask of the first group of processors.
    usize::BITS
} else {
    0
};

/// Returns the numbers of the CPUs that the calling thread may run on, without their relations.
///
/// A process that pins threads should call it before it pins the first one, because threads inherit
/// their parent's mask.
///
/// # Errors
///
/// Returns the same errors as [`Topology::read`].
pub fn allowed_cpus() -> Result<Vec<u32>, TopologyError> {
    allowed(Path::new("/"))
}

/// Returns the processor's name, empty if unknown.
pub fn model_name() -> String {
    model(Path::new("/"))
}

fn allowed(root: &Path) -> Result<Vec<u32>, TopologyError> {
    // `self` would be the initial thread of the process, even if this thread may run elsewhere.
    let list = ["proc/thread-self/status", "proc/self/status"].into_iter().find_map(|status| {
        let status = text(root.join(status));
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::to_owned)
    });
    if let Some(list) = list {
        let mut cpus = parse_cpu_list(list.trim())?;
        // Without a mask for the thread, the list also contains CPUs that could be hot-plugged.
        let online = parse_cpu_list(&text(root.join("sys/devices/system/cpu/online")))?;
        if cpus.iter().any(|cpu| online.contains(cpu)) {
            cpus.retain(|cpu| online.contains(cpu));
        }
        if !cpus.is_empty() {
            return Ok(cpus);
        }
    }
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    Ok((0..CPU_LIMIT).take(count).collect())
}

/// Returns the processor's name.
fn model(root: &Path) -> String {
    // The kernel generates one paragraph per CPU while the file is read: the first one is
    // sufficient.
    let mut cpuinfo = Vec::new();
    if let Ok(file) = fs::File::open(root.join("proc/cpuinfo")) {
        let _ = file.take(4096).read_to_end(&mut cpuinfo);
    }
    let cpuinfo = String::from_utf8_lossy(&cpuinfo);
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map(|(_, name)| name.trim().to_owned()).unwrap_or_default()
}

struct Cache {
    folder: PathBuf,
    level: u32,
    bytes: u64,
}

/// Returns the data and unified caches of the CPU described in `folder`.
fn caches(folder: &Path) -> Vec<Cache> {
    let mut caches = Vec::new();
    for index in 0..16 {
        let folder = folder.join(format!("cache/index{index}"));
        let Ok(level) = text(folder.join("level")).parse() else { break };
        if text(folder.join("type")) != "Instruction" {
            let bytes = parse_size(&text(folder.join("size"))).unwrap_or(0);
            caches.push(Cache { folder, level, bytes });
        }
    }
    caches
}

/// Parses `32K`, `32M` or `32768`.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn list(path: PathBuf, own: u32) -> Result<Vec<u32>, TopologyError> {
    let cpus = parse_cpu_list(&text(path))?;
    Ok(if cpus.is_empty() { vec![own] } else { cpus })
}

/// A list of CPUs is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// A part between commas is neither a number nor a range of two numbers.
    NotANumber {
        /// The invalid part.
        part: String,
    },
    /// A range is descending.
    Backwards {
        /// Its first number.
        first: u32,
        /// Its last number.
        last: u32,
    },
    /// A number is not below [`CPU_LIMIT`].
    TooLarge {
        /// The number that is too large.
        cpu: u32,
    },
}

/// CPU numbers are below this limit; a longer list is an error rather than a real machine.
pub const CPU_LIMIT: u32 = 1 << 16;

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { part } => write!(f, "`{part}` is not a CPU number or a range such as 2-5"),
            Self::Backwards { first, last } => write!(f, "the range {first}-{last} is descending"),
            Self::TooLarge { cpu } => write!(f, "CPU {cpu} exceeds the limit of {CPU_LIMIT}"),
        }
    }
}

impl core::error::Error for TopologyError {}

/// Parses a list of CPUs in the kernel's format. The result is ascending and without duplicates,
/// independent of the order of the text.
///
/// # Errors
///
/// Returns [`TopologyError`], with the invalid part.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::topology::{format_cpu_list, parse_cpu_list};
/// assert_eq!(parse_cpu_list("2-5,8"), Ok(vec![2, 3, 4, 5, 8]));
/// assert_eq!(format_cpu_list(&[2, 3, 4, 5, 8]), "2-5,8");
/// ```
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, TopologyError> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let number = |digits: &str| {
            let number = digits.trim().parse().ok();
            // The standard library would also accept a plus sign.
            number
                .filter(|_| !part.contains('+'))
                .ok_or_else(|| TopologyError::NotANumber { part: part.to_owned() })
        };
        let (first, last): (u32, u32) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(TopologyError::Backwards { first, last });
        }
        if last >= CPU_LIMIT {
            return Err(TopologyError::TooLarge { cpu: last });
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Formats a list of CPUs as the kernel does; the inverse of [`parse_cpu_list`] for ascending
/// lists.
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|&(&cpu, expected)| cpu == expected).count();
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a `String` cannot fail.
        let _ = match run {
            1 => write!(text, "{first}"),
            _ => write!(text, "{first}-{}", rest[run - 1]),
        };
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_read_back_as_written() {
        for cpus in [vec![], vec![0], vec![0, 1], vec![0, 2, 3, 4, 9], vec![65_535]] {
            assert_eq!(parse_cpu_list(&format_cpu_list(&cpus)), Ok(cpus));
        }
        assert_eq!(parse_cpu_list(" 3, 0-1 ,1\n"), Ok(vec![0, 1, 3]));
        assert_eq!(format_cpu_list(&[0, 2, 3, 4, 9]), "0,2-4,9", "as the kernel does");
    }

    #[test]
    fn malformed_cpu_lists_are_refused() {
        assert_eq!(parse_cpu_list("1,x"), Err(TopologyError::NotANumber { part: "x".to_owned() }));
        assert_eq!(parse_cpu_list("1-"), Err(TopologyError::NotANumber { part: "1-".to_owned() }));
        assert_eq!(parse_cpu_list("0,+1"), Err(TopologyError::NotANumber { part: "+1".to_owned() }));
        assert_eq!(parse_cpu_list("0-+1"), Err(TopologyError::NotANumber { part: "0-+1".to_owned() }));
        assert_eq!(parse_cpu_list("5-2"), Err(TopologyError::Backwards { first: 5, last: 2 }));
        assert_eq!(parse_cpu_list("0-4294967295"), Err(TopologyError::TooLarge { cpu: u32::MAX }));
        let said = ["1,x", "5-2", "65536"].map(|text| parse_cpu_list(text).unwrap_err().to_string());
        for (said, named) in said.iter().zip(["`x`", "5-2", "65536"]) {
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(parse_size("32K"), Some(32 << 10));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("7"), Some(7));
        assert_eq!(parse_size(""), None);
    }

    #[cfg(not(miri))]
    #[test]
    fn a_system_that_reports_nothing_still_has_a_cpu() {
        let topology = Topology::read_below(Path::new("/nonexistent")).unwrap();
        assert!(!topology.cpus.is_empty());
        assert_eq!(topology.cpus[0].siblings, [topology.cpus[0].id]);
        assert_eq!(topology.caches, CacheSizes::default());
    }

    #[cfg(not(miri))]
    #[test]
    fn cpus_that_are_offline_are_not_allowed() {
        let status = ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-127\n");
        for (name, online, expected) in [
            ("some", "0-1,4\n", vec![0, 1, 4]),
            ("hidden", "", (0..128).collect()),
            ("elsewhere", "200-201\n", (0..128).collect()),
        ] {
            let files = [status, ("sys/devices/system/cpu/online", online)];
            let cpus = crate::system_files::with_files(name, &files, allowed);
            assert_eq!(cpus, Ok(expected), "{name}");
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_machine_matches_its_files() {
        let cpu = |id: u32, siblings, package, level3| {
            let path = |name: &str| format!("sys/devices/system/cpu/cpu{id}/{name}");
            let mut files = vec![
                (path("topology/thread_siblings_list"), siblings),
                (path("topology/physical_package_id"), package),
            ];
            // The first level has an instruction cache in addition to the data cache.
            for (index, level, kind, size, shared) in [
                (0, "1", "Data", "48K", siblings),
                (1, "1", "Instruction", "32K", siblings),
                (2, "2", "Unified", "2M", siblings),
                (3, "3", "Unified", "33792K", level3),
            ] {
                let cache = |name: &str| path(&format!("cache/index{index}/{name}"));
                files.extend([(cache("level"), level), (cache("type"), kind), (cache("size"), size)]);
                files.push((cache("shared_cpu_list"), shared));
            }
            files
        };
        let mut files = vec![
            ("proc/self/status".to_owned(), "Cpus_allowed_list:\t1-3\n"),
            ("sys/devices/system/cpu/online".to_owned(), "0-3\n"),
            ("proc/cpuinfo".to_owned(), "processor\t: 0\nmodel name\t: Loom 7: a\nmodel name\t: b\n"),
        ];
        for (id, siblings, package, level3) in
            [(0, "0,2", "0", "0,2"), (1, "1,3", "1", "1,3"), (2, "0,2", "0", "0,2"), (3, "1,3", "1", "1,3")]
        {
            files.extend(cpu(id, siblings, package, level3));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let topology = crate::system_files::with_files("machine", &files, Topology::read_below).unwrap();
        assert_eq!(topology.model, "Loom 7: a");
        let cpu = |id, group: [u32; 2], package| Cpu {
            id,
            siblings: group.into(),
            package,
            last_level_group: group.into(),
        };
        assert_eq!(topology.cpus, [cpu(1, [1, 3], 1), cpu(2, [0, 2], 0), cpu(3, [1, 3], 1)]);
        let caches =
            CacheSizes { level1_data_bytes: 48 << 10, level2_bytes: 2 << 20, level3_bytes: 33 << 20 };
        assert_eq!(topology.caches, caches);
        assert_eq!(topology.one_per_core(), [1, 2]);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn allowed_cpus_are_those_of_the_calling_thread() {
        let before = allowed_cpus().unwrap();
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus: Vec<u32> = (0..1024).filter(|&cpu| set.is_set(cpu as usize)).collect();
        assert_eq!(before, cpus, "as the kernel says in its other way");
        for cpu in cpus {
            std::thread::spawn(move || {
                let mut one = rustix::thread::CpuSet::new();
                one.set(cpu as usize);
                rustix::thread::sched_setaffinity(None, &one).unwrap();
                assert_eq!(allowed_cpus(), Ok(vec![cpu]));
            })
            .join()
            .unwrap();
        }
        assert_eq!(allowed_cpus(), Ok(before), "the others may run where they might");
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn this_machine_has_a_topology() {
        let topology = Topology::read().unwrap();
        for cpu in &topology.cpus {
            assert!(cpu.siblings.contains(&cpu.id));
            assert!(cpu.last_level_group.contains(&cpu.id));
        }
        assert!(!topology.one_per_core().is_empty());
        assert_eq!(model_name(), topology.model);
    }
}
