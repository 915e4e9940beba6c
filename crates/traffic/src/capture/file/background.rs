//! Helper threads outside the engine, which run on any CPU that the process may use.
//!
//! A thread inherits the CPUs of the thread that starts it. The engine pins its input thread, and
//! captures are opened on that thread. Without its own CPU set, a read-ahead thread would share a
//! CPU with the walk that it serves.

use std::io;
use std::thread::{Builder, JoinHandle};

#[cfg(target_os = "linux")]
static CPUS: std::sync::OnceLock<Option<rustix::thread::CpuSet>> = std::sync::OnceLock::new();

/// Stores the CPUs of the calling thread for threads that start later. Only the first call counts.
pub(crate) fn remember_cpus() {
    #[cfg(target_os = "linux")]
    CPUS.get_or_init(|| rustix::thread::sched_getaffinity(None).ok());
}

/// Starts a thread on the stored CPUs.
pub(crate) fn spawn(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        #[cfg(target_os = "linux")]
        if let Some(Some(cpus)) = CPUS.get() {
            // If the process may no longer use the set, the inherited one remains.
            let _ = rustix::thread::sched_setaffinity(None, cpus);
        }
        body();
    })
}
