//! Threads beside the engine's: they run on any CPU that the process may use.
//!
//! A thread inherits the CPUs of the one that starts it. The engine pins its input thread, and
//! captures are opened on that thread: without a CPU set of its own, a read-ahead thread would
//! share one CPU with the walk it serves.

use std::io;
use std::thread::{Builder, JoinHandle};

#[cfg(target_os = "linux")]
static CPUS: std::sync::OnceLock<Option<rustix::thread::CpuSet>> = std::sync::OnceLock::new();

/// Keeps the CPUs that the calling thread may use for threads that start later. The first call
/// counts.
pub(super) fn remember_cpus() {
    #[cfg(target_os = "linux")]
    CPUS.get_or_init(|| rustix::thread::sched_getaffinity(None).ok());
}

/// Starts a thread on the CPUs that were remembered.
pub(super) fn spawn(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        #[cfg(target_os = "linux")]
        if let Some(Some(cpus)) = CPUS.get() {
            // Where the set was taken away since, the inherited one is used.
            let _ = rustix::thread::sched_setaffinity(None, cpus);
        }
        body();
    })
}
