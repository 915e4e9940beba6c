//! Handles mapped files that another process truncates: their lost pages become zeros, and the walk
//! learns where the file ends.
//!
//! A read of a mapped page beyond the end of its file raises SIGBUS, which ends the process. This
//! handler looks the address up among the registered mappings, maps pages of zeros over everything
//! after the new end, and records the end. The read then continues, and the walk detects the loss
//! before it yields the packets.
//!
//! The handler calls `fstat`, `mmap`, `sigaction` and `raise` and accesses only atomics. All of
//! these may be used in a signal handler (on Linux `mmap` is a plain system call).
#![expect(unsafe_code, reason = "signal handler that maps pages; uses only atomics and system calls")]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// No byte is lost.
const NOTHING_LOST: u64 = u64::MAX;

/// What the handler needs. It is set before the handler is installed.
struct Installed {
    /// The previous action for the signal. The handler passes on faults at addresses outside all
    /// regions.
    before: libc::sigaction,
    page_bytes: usize,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// The regions, in a list that only grows, so that the handler may walk it at any time.
static REGIONS: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());

/// Serialises registrations. The handler never locks it.
static REGISTERING: Mutex<()> = Mutex::new(());

/// A registered mapping of a file. Regions are never freed; the next registration reuses an unused
/// one.
struct Region {
    /// Address of the first byte; 0 while the region is free.
    start: AtomicUsize,
    bytes: AtomicUsize,
    file: AtomicI32,
    /// The file offset of the first byte that is lost.
    lost_from: AtomicU64,
    /// Whether a page inside the file is lost because the storage failed.
    is_unreadable: AtomicBool,
    next: AtomicPtr<Region>,
}

/// A registered mapping. Dropping it ends the registration.
pub(crate) struct Registration(&'static Region);

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("lost_from", &self.lost_from()).finish()
    }
}

/// Installs the handler, once.
///
/// # Errors
///
/// Returns the system's error if it does not install the handler.
pub(crate) fn install() -> io::Result<()> {
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    if INSTALLED.get().is_some() {
        return Ok(());
    }
    // SAFETY: `sysconf` has no preconditions.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask and the default
    // action.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer for the new action only reads the old one, into a variable that
    // outlives the call.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    INSTALLED.get_or_init(|| Installed { before, page_bytes });
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    // On the alternate stack if the thread has one: the previous handler may need it for a stack
    // overflow.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is a valid action whose handler has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Registration {
    /// Registers the mapping of all of `file` in `bytes`. Returns `None` if the handler is not
    /// installed.
    ///
    /// The mapping is not written through. `bytes` and the file outlive the registration: all three
    /// are fields of [`Mapping`](crate::capture::map::Mapping), which drops the registration first.
    pub(crate) fn new(file: &File, bytes: &[u8]) -> Option<Self> {
        INSTALLED.get()?;
        let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = REGIONS.load(Ordering::Relaxed);
        // SAFETY: the list holds only leaked regions, which stay valid forever.
        while let Some(region) = unsafe { next.as_ref() } {
            if region.start.load(Ordering::Relaxed) == 0 {
                region.set(file, bytes);
                return Some(Self(region));
            }
            next = region.next.load(Ordering::Relaxed);
        }
        let region = Box::new(Region {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            file: AtomicI32::new(-1),
            lost_from: AtomicU64::new(NOTHING_LOST),
            is_unreadable: AtomicBool::new(false),
            next: AtomicPtr::new(REGIONS.load(Ordering::Relaxed)),
        });
        let region = Box::leak(region);
        region.set(file, bytes);
        // Release pairs with the Acquire in the handler: a handler that finds the region sees its
        // fields.
        REGIONS.store(region, Ordering::Release);
        Some(Self(region))
    }

    /// Returns the file offset of the first byte that is lost, if a read has found one.
    #[inline]
    pub(crate) fn lost_from(&self) -> Option<u64> {
        // Relaxed: a thread sees what a handler did on that thread, and finds pages that other
        // threads lost by its own reads.
        let offset = self.0.lost_from.load(Ordering::Relaxed);
        (offset != NOTHING_LOST).then_some(offset)
    }

    /// Simulates a fault at `address`.
    #[cfg(test)]
    pub(crate) fn lose(&self, address: usize) {
        let installed = INSTALLED.get().expect("registrations exist only if the handler is installed");
        assert!(self.0.replace(address, installed.page_bytes));
    }

    /// Returns whether a read has found a page inside the file that the storage does not deliver.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.0.is_unreadable.load(Ordering::Relaxed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The lock orders this before the next registration of the region.
        let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.start.store(0, Ordering::Release);
    }
}

impl Region {
    fn set(&self, file: &File, bytes: &[u8]) {
        self.bytes.store(bytes.len(), Ordering::Relaxed);
        self.file.store(file.as_raw_fd(), Ordering::Relaxed);
        self.lost_from.store(NOTHING_LOST, Ordering::Relaxed);
        self.is_unreadable.store(false, Ordering::Relaxed);
        // Release pairs with the Acquire in the handler: a handler that reads the address sees the
        // fields above.
        self.start.store(bytes.as_ptr().addr(), Ordering::Release);
    }

    /// Maps zeros over the lost pages if `address` lies in this region. Returns whether the read
    /// can continue.
    fn replace(&self, address: usize, page_bytes: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Relaxed);
        if start == 0 || address < start || address - start >= bytes.next_multiple_of(page_bytes) {
            return false;
        }
        let mut offset = (address - start) / page_bytes * page_bytes;
        let mut lost_from = offset as u64;
        // SAFETY: all-zero bytes are a valid `stat`, which the call fills in; it fails for a file
        // that is not open.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` outlives the call.
        let has_stat = unsafe { libc::fstat(self.file.load(Ordering::Relaxed), &raw mut stat) } == 0;
        if let (true, Ok(file_bytes)) = (has_stat, usize::try_from(stat.st_size))
            && file_bytes <= offset
        {
            // Everything from the end of the file on is lost. The kernel has cleared the rest of
            // the page that holds the end.
            offset = file_bytes.next_multiple_of(page_bytes);
            lost_from = file_bytes as u64;
        } else {
            self.is_unreadable.store(true, Ordering::Relaxed);
        }
        let lost_bytes = bytes.next_multiple_of(page_bytes) - offset;
        // SAFETY: the range consists of whole pages of a registered mapping (`offset` is at most
        // the faulting page, which is in it). Its owner only reads it, and keeps it mapped as long
        // as it is registered: the faulting read is one of the owner's. The pages replaced have no
        // contents that could be read, so no bytes change that were seen.
        let mapped = unsafe {
            libc::mmap(
                ptr::with_exposed_provenance_mut(start + offset),
                lost_bytes,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return false;
        }
        self.lost_from.fetch_min(lost_from, Ordering::Relaxed);
        true
    }
}

/// The handler of SIGBUS.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let Some(installed) = INSTALLED.get() else { return };
    // SAFETY: `errno` of this thread, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let is_replaced = code == libc::BUS_ADRERR && replace_lost_pages(address, installed.page_bytes);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if !is_replaced {
        pass_on(&installed.before, signal, info, context);
    }
}

fn replace_lost_pages(address: usize, page_bytes: usize) -> bool {
    // Acquire: pairs with the registration that put a region at the head of the list.
    let mut next = REGIONS.load(Ordering::Acquire);
    // SAFETY: the list holds only leaked regions, which stay valid forever.
    while let Some(region) = unsafe { next.as_ref() } {
        if region.replace(address, page_bytes) {
            return true;
        }
        next = region.next.load(Ordering::Relaxed);
    }
    false
}

/// Does what would happen without this handler.
fn pass_on(before: &libc::sigaction, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The signal is blocked while it is handled: it is delivered again on return and ends
            // the process. The kernel does not let a fault be ignored either.
            // SAFETY: `before` is the action that the system gave us, with its handler set to the
            // default.
            unsafe {
                let mut default = *before;
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                libc::raise(signal);
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the code that installed the handler promised this signature with SA_SIGINFO.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: the code that installed the handler promised this signature without
            // SA_SIGINFO.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;
    use crate::capture::map::Mapping;

    fn mapped(bytes: usize) -> (Mapping, File) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        (Mapping::new(file.try_clone().unwrap(), &[]).unwrap(), file)
    }

    #[test]
    fn each_mapping_reports_its_own_lost_pages() {
        install().unwrap();
        install().unwrap();
        for round in 0..20 {
            let (first, first_file) = mapped(100_000);
            let (second, second_file) = mapped(100_000);
            first_file.set_len(50_000).unwrap();
            assert_eq!(first.block().bytes()[99_999], 0, "round {round}");
            assert!(first.is_lost_before(50_001) && !first.is_lost_before(50_000));
            assert!(!second.is_lost_before(usize::MAX));
            second_file.set_len(0).unwrap();
            assert_eq!(second.block().bytes()[4096], 0);
            assert_eq!((first.left().bytes, second.left().bytes), (50_000, 0));
            assert!(!first.left().is_unreadable && !second.left().is_unreadable);
            assert_eq!(first.block().bytes()[49_999], 7, "what is left is untouched");
        }
    }

    #[test]
    fn a_fault_outside_of_all_mappings_ends_the_process_as_before() {
        const CHILD: &str = "a_fault_outside_of_all_mappings_ends_the_process_as_before";
        // The child process is this test with another argument.
        if std::env::args().any(|argument| argument == "--skip=none") {
            install().unwrap();
            let (_mapping, _file) = mapped(10_000);
            let file = tempfile::tempfile().unwrap();
            file.set_len(10_000).unwrap();
            // SAFETY: nothing writes through the mapping, and the fault at its lost page is the
            // subject of the test.
            let unknown = unsafe { memmap2::Mmap::map(&file) }.unwrap();
            file.set_len(0).unwrap();
            std::process::exit(i32::from(unknown[5000]));
        }
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{}::{CHILD}", module_path!().split_once("::").unwrap().1)])
            .args(["--skip=none", "--nocapture"])
            .output()
            .unwrap()
            .status;
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGBUS), "{status}");
    }
}
