//! A standard output that was closed when the process started (`>&-`).
//!
//! The standard library opens the null device in its place before `main`, so that results would
//! vanish, and `write` would succeed. This module runs earlier and opens the full device, to which
//! every write fails.
#![expect(unsafe_code, reason = "a function that the loader calls before `main`")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags};

/// Always `false` where no loader calls the function.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section contains pointers to functions with this signature, which the loader calls
// once, before other threads exist. The function only makes system calls and sets an atomic.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = replace;

#[cfg(target_os = "linux")]
extern "C" fn replace() {
    if rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok() {
        return;
    }
    IS_CLOSED.store(true, Ordering::Relaxed);
    // Without this device, the standard library opens the null device, and results vanish.
    let Ok(full) = rustix::fs::open("/dev/full", OFlags::WRONLY, Mode::empty()) else { return };
    if rustix::fd::AsRawFd::as_raw_fd(&full) == 1 {
        // It has the number of standard output, and stays open.
        std::mem::forget(full);
    } else {
        let _ = rustix::stdio::dup2_stdout(full);
    }
}

/// Returns an error if standard output was closed.
pub fn check() -> io::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed; > /dev/null discards it"));
    }
    Ok(())
}
