//! Privileges that a long-lived process gives up once its ports are open: its user, its
//! capabilities, access to most of the file system, and unneeded system calls.
//!
//! The calling thread gives them up. Threads that it starts later inherit the restrictions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_gid, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::exit::Failure;

/// The user to switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confinement {
    user: Option<(u32, u32)>,
    /// Capabilities that the process needs to the end.
    keeps: CapabilitySet,
}

impl Confinement {
    /// Looks up the user.
    pub(crate) fn from_user(user: Option<&str>) -> Result<Self, Failure> {
        let keeps = CapabilitySet::empty();
        let Some(name) = user else { return Ok(Self { user: None, keeps }) };
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (known, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            (known == name).then(|| Some((uid.parse().ok()?, gid.parse().ok()?))).flatten()
        });
        match found {
            Some(user) => Ok(Self { user: Some(user), keeps }),
            None => Err(Failure::Usage(format!(
                "--user {name}: /etc/passwd has no such user\n  create one with useradd --system {name}"
            ))),
        }
    }

    /// Keeps a capability.
    pub(crate) fn keeping(self, keeps: CapabilitySet) -> Self {
        Self { keeps, ..self }
    }
}

fn failed(what: &str, error: &dyn Display) -> Failure {
    Failure::Usage(format!("cannot {what}: {error}\n  --keep-privileges runs without giving anything up"))
}

/// Gives up all privileges except reading in these folders.
pub(crate) fn apply<'a>(
    confinement: &Confinement,
    read: impl Iterator<Item = &'a Path>,
) -> Result<(), Failure> {
    if let Some((uid, gid)) = confinement.user {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_keep_capabilities(!confinement.keeps.is_empty())
            .and_then(|()| set_thread_groups(&[]))
            .and_then(|()| set_thread_gid(gid))
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid))
            .map_err(|error| failed("switch to the user", &error))?;
    }
    let (kept, none) = (confinement.keeps, CapabilitySet::empty());
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
        .map_err(|error| failed("give up capabilities", &error))?;
    set_no_new_privs(true).map_err(|error| failed("give up new privileges", &error))?;
    landlocked(read).map_err(|error| failed("give up the file system", &error))?;
    let filter = filter().map_err(|error| failed("build the filter of system calls", &error))?;
    seccompiler::apply_filter(&filter).map_err(|error| failed("filter system calls", &error))
}

/// Restricts file access to reading in these folders and in the folders of system information. Has
/// no effect on a kernel without Landlock.
fn landlocked<'a>(read: impl Iterator<Item = &'a Path>) -> Result<(), landlock::RulesetError> {
    let access = ABI::V3;
    let here = |path: &'a Path| if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let own = ["/proc", "/sys", "/etc"].into_iter().map(Path::new);
    // A collector that comes back is looked up again. Often this file is a link.
    let resolver = std::fs::canonicalize("/etc/resolv.conf").ok();
    let resolver = resolver.iter().filter_map(|path| path.parent());
    let folders: Vec<&Path> = read.map(here).chain(own).chain(resolver).collect();
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(access))?
        .create()?
        .add_rules(path_beneath_rules(folders, AccessFs::from_read(access)))?
        .restrict_self()
        .map(drop)
}

/// Returns a filter that permits the system calls for forwarding frames, reading rules and writing
/// records. Other calls fail with `EPERM`.
fn filter() -> Result<BpfProgram, Box<dyn std::error::Error>> {
    const ALLOWED: &[libc::c_long] = &[
        // Frames and records.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_ppoll,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_shutdown,
        libc::SYS_ioctl,
        libc::SYS_fcntl,
        // The page of statistics, and the service manager.
        libc::SYS_accept4,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_pipe2,
        libc::SYS_eventfd2,
        libc::SYS_dup3,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        // Reloading of rules, and closing of record files.
        libc::SYS_openat,
        libc::SYS_close,
        libc::SYS_lseek,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_readlinkat,
        libc::SYS_getcwd,
        libc::SYS_getdents64,
        libc::SYS_ftruncate,
        libc::SYS_fsync,
        // Memory.
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_mincore,
        // Threads, signals and time.
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_futex,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_tgkill,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_yield,
        libc::SYS_prctl,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_getrandom,
        libc::SYS_uname,
        libc::SYS_sysinfo,
        libc::SYS_prlimit64,
    ];
    // Older calls that only some processors have.
    #[cfg(target_arch = "x86_64")]
    const OLDER: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_stat, libc::SYS_lstat, libc::SYS_open];
    #[cfg(not(target_arch = "x86_64"))]
    const OLDER: &[libc::c_long] = &[];
    let calls: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let not_permitted = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let here = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(calls, not_permitted, SeccompAction::Allow, here)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_user_is_named() {
        assert_eq!(
            Confinement::from_user(Some("root")).unwrap(),
            Confinement { user: Some((0, 0)), keeps: CapabilitySet::empty() }
        );
        assert_eq!(Confinement::from_user(None).unwrap().user, None);
        let failure = Confinement::from_user(Some("weaver-of-nothing")).unwrap_err();
        assert!(failure.text().starts_with("--user weaver-of-nothing: "), "{}", failure.text());
    }

    #[test]
    fn confined_thread_can_only_read_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("rules"), tempfile::NamedTempFile::new().unwrap());
        std::fs::write(&inside, "a").unwrap();
        // The limits are those of one thread; the other threads of this process continue without
        // them.
        let confined = std::thread::spawn({
            let folder = folder.path().to_path_buf();
            move || {
                apply(&Confinement::from_user(None).unwrap(), [folder.as_path()].into_iter()).unwrap();
                assert_eq!(std::fs::read_to_string(&inside).unwrap(), "a");
                let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
                assert!(std::fs::write(&inside, "b").is_err_and(denied));
                assert!(std::process::Command::new("/bin/true").status().is_err_and(denied));
                let worked = std::thread::spawn(|| vec![1_u64; 1 << 20].iter().sum::<u64>()).join();
                assert_eq!(worked.unwrap(), 1 << 20);
                std::fs::read(outside.path()).is_err_and(denied)
            }
        });
        let is_locked = confined.join().unwrap();
        let has_landlock = std::fs::read_to_string("/sys/kernel/security/lsm")
            .is_ok_and(|modules| modules.contains("landlock"));
        assert!(is_locked || !has_landlock);
    }
}
