//! Determines how many bytes of memory the machine has left.

use std::fs;
use std::path::Path;

/// Returns how many bytes this process can still use safely, if the system reports them.
///
/// The minimum of three numbers: the memory that the kernel calls available; the remainder of the
/// process's control group, not counting inactive page cache, which the kernel can reclaim; and the
/// unused addresses of the process, which are few if addresses have 32 bits or `ulimit -v` limits
/// them. Use it to reject a
/// configuration before it fails, not for accounting: the number is outdated when it is read.
pub fn available_bytes() -> Option<u64> {
    available_below(Path::new("/"))
}

/// Returns how many addresses this process may still map, if the system reports them: a mapped file
/// takes addresses, and they are few where they have 32 bits or `ulimit -v` limits them.
pub fn unmapped_addresses() -> Option<u64> {
    addresses_left(Path::new("/"), usize::MAX as u64)
}

/// Reads the `proc` and `sys` directories below `root`.
fn available_below(root: &Path) -> Option<u64> {
    let machine = mem_available(&text(&root.join("proc/meminfo")));
    [machine, group_headroom(root), addresses_left(root, usize::MAX as u64)].into_iter().flatten().min()
}

/// Returns how many of `all` addresses are unmapped and may be mapped.
fn addresses_left(root: &Path, all: u64) -> Option<u64> {
    let limits = text(&root.join("proc/self/limits"));
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    let limit = limit.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let all = all.min(limit.unwrap_or(u64::MAX));
    let used = kilobytes(&text(&root.join("proc/self/status")), "VmSize:")?;
    Some(all.saturating_sub(used))
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Reads the line `MemAvailable:  123 kB`.
fn mem_available(meminfo: &str) -> Option<u64> {
    kilobytes(meminfo, "MemAvailable:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// File names of one version of control groups: limit, usage, and inactive page cache.
struct Names {
    limit: &'static str,
    used: &'static str,
    reclaimable: &'static str,
}

const FIRST: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const SECOND: Names = Names { limit: "memory.max", used: "memory.current", reclaimable: "inactive_file" };

/// Returns the limit minus the usage of the process's control groups, versions 2 and 1; `None` if
/// unlimited.
fn group_headroom(root: &Path) -> Option<u64> {
    let groups = text(&root.join("proc/self/cgroup"));
    // A line is `number:controllers:/path`; the controllers are empty in version 2.
    let own = |controller: &str| {
        let mut groups = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(":/"));
        groups.find_map(|(list, path)| list.split(',').any(|name| name == controller).then_some(path))
    };
    let hierarchies = [
        ("sys/fs/cgroup", own(""), SECOND),
        // If both versions are in use.
        ("sys/fs/cgroup/unified", own(""), SECOND),
        ("sys/fs/cgroup/memory", own("memory"), FIRST),
    ];
    let tightest = hierarchies.into_iter().filter_map(|(mount, own, names)| {
        let mount = root.join(mount);
        let group = mount.join(own.unwrap_or_default());
        // A limit may be set on any ancestor; the tightest one counts. In a container, the path may
        // be that of the host, and only the mount exists.
        let folders = group.ancestors().take_while(|folder| folder.starts_with(&mount));
        folders.filter_map(|folder| group_remaining(folder, &names)).min()
    });
    tightest.min()
}

fn group_remaining(folder: &Path, names: &Names) -> Option<u64> {
    let number = |name| text(&folder.join(name)).trim().parse::<u64>().ok();
    let (limit, used) = (number(names.limit)?, number(names.used)?);
    let stat = text(&folder.join("memory.stat"));
    let counts = |line: &str| line.strip_prefix(names.reclaimable)?.trim().parse::<u64>().ok();
    let reclaimable = stat.lines().find_map(counts).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(miri))]
    #[test]
    fn tightest_cgroup_limit_applies_and_file_pages_count_as_free() {
        let available = |name, files: &[_]| crate::system_files::with_files(name, files, available_below);
        let meminfo = ("proc/meminfo", "MemAvailable: 100 kB\n");
        assert_eq!(available("none", &[meminfo]), Some(102_400));
        let second = [
            meminfo,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "40000\n"),
            ("sys/fs/cgroup/a/memory.max", "50000\n"),
            ("sys/fs/cgroup/a/memory.current", "49000\n"),
        ];
        assert_eq!(available("second", &second), Some(1000));
        // Reading a capture charges its pages to the group, and the kernel reclaims them when other
        // memory is needed.
        let read = ("sys/fs/cgroup/a/memory.stat", "anon 9000\ninactive_file 39000\nactive_file 1000\n");
        assert_eq!(available("read", &[&second[..], &[read]].concat()), Some(40_000));
        let first = [
            meminfo,
            ("proc/self/cgroup", "5:cpu,cpuacct:/\n4:hugetlb,memory:/box\n1:name=systemd:/\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "70000\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "60000\n"),
            ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "60000\n"),
            ("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 7\ntotal_inactive_file 20000\n"),
        ];
        assert_eq!(available("first", &first), Some(20_000));
        // Version 1 in a container: the path is the host's, and the mount is the container's own
        // group.
        let inside = [
            meminfo,
            ("proc/self/cgroup", "4:memory:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "60000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "50000\n"),
        ];
        assert_eq!(available("inside", &inside), Some(10_000));
    }

    #[cfg(not(miri))]
    #[test]
    fn addresses_in_use_reduce_the_address_space_left() {
        let files = [("proc/self/status", "VmPeak:\t 9000000 kB\nVmSize:\t 3145728 kB\n")];
        let left =
            |all| crate::system_files::with_files("addresses", &files, |root| addresses_left(root, all));
        assert_eq!(left(u64::from(u32::MAX)), Some((1 << 30) - 1));
        assert_eq!(left(1 << 20), Some(0));
        let limit = "Max address space         3221225473          unlimited            bytes\n";
        let limited = [files[0], ("proc/self/limits", limit)];
        let left = |root: &Path| addresses_left(root, u64::MAX);
        assert_eq!(crate::system_files::with_files("limit", &limited, left), Some(1));
        assert_eq!(addresses_left(Path::new("/nonexistent"), 7), None, "the system does not tell");
    }

    #[test]
    fn mem_available_is_converted_to_bytes() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    4096 kB\n";
        assert_eq!(mem_available(text), Some(4 << 20));
        assert_eq!(mem_available("MemFree: 1 kB\n"), None);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn this_machine_has_available_memory() {
        assert!(available_bytes().unwrap() > 1 << 20);
    }
}
