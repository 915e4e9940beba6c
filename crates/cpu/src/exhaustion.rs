//! Ends a process whose memory is exhausted with an exit status instead of an abort.
//!
//! Rust aborts when an allocation fails that its caller cannot do without. The allocator of this
//! module records that an allocation has failed; a handler of the abort's signal then writes a line
//! and ends the process. The handler calls `write`, `_exit`, `signal` and `raise` and accesses only
//! atomics, all of which a signal handler may do.
#![expect(unsafe_code, reason = "an allocator, and a signal handler that uses only system calls")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The size of the last allocation that failed; 0 before the first.
static FAILED_BYTES: AtomicUsize = AtomicUsize::new(0);
static STATUS: AtomicI32 = AtomicI32::new(0);

/// The system's allocator, which records failures for [`exit_when_exhausted`].
///
/// # Examples
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: flowloom_cpu::exhaustion::Allocator = flowloom_cpu::exhaustion::Allocator;
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

#[inline]
fn recorded(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() {
        FAILED_BYTES.store(bytes, Ordering::Relaxed);
    }
    pointer
}

// SAFETY: every method passes its arguments to the system's allocator and returns its result.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are those of the system's allocator.
        recorded(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        recorded(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        recorded(unsafe { System.realloc(pointer, layout, bytes) }, bytes)
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Lets all threads allocate from one heap if the addresses of the process are limited to less than
/// 4 GiB: glibc reserves 64 MiB of addresses for each further heap. Call it before other threads
/// start.
pub fn share_heap_where_addresses_are_few() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` outlives the call.
        let is_known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
        if is_known && limit.rlim_cur < 4 << 30 {
            // SAFETY: mallopt takes the lock of the heap and stores one aligned word. A thread that
            // allocates at the same time reads the word before or after it, and either is valid:
            // the number only decides whether the thread gets a heap of its own.
            unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        }
    }
}

/// Ends the process with this exit status, rather than by a signal, when it aborts after an
/// allocation has failed. It needs [`Allocator`] as the global allocator. Other aborts stay.
///
/// # Errors
///
/// Returns the system's error if it does not install the handler.
pub fn exit_when_exhausted(status: i32) -> io::Result<()> {
    STATUS.store(status, Ordering::Relaxed);
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask and the default
    // action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_abort as *const () as usize;
    // SAFETY: `action` is a valid action whose handler has the signature of one without
    // SA_SIGINFO.
    let installed = unsafe { libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut()) };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_abort(signal: libc::c_int) {
    if FAILED_BYTES.load(Ordering::Relaxed) == 0 {
        // SAFETY: both functions may be called in a handler. The second delivers the signal again
        // when this handler returns, now with its default action.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    let text = b"error: the memory that the process may use is exhausted\n  \
        raise the limit (ulimit -v, control group)\n";
    // SAFETY: the text is valid for its length. `_exit` may be called in a handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(STATUS.load(Ordering::Relaxed));
    }
}
