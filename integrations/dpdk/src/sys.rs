//! The calls to DPDK: all unsafe code of the crate.
#![expect(unsafe_code, reason = "DPDK is a C library")]

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// `struct rte_mbuf` and `struct rte_mempool`, which only DPDK reads.
enum Opaque {}

unsafe extern "C" {
    fn flowloom_dpdk_start(count: c_int, words: *mut *mut c_char) -> c_int;
    fn flowloom_dpdk_open(
        name: *const c_char,
        queues: u16,
        descriptors: u16,
        buffers: u32,
        port: *mut u16,
        pool: *mut *mut Opaque,
    ) -> c_int;
    fn flowloom_dpdk_receive(
        port: u16,
        queue: u16,
        frames: *mut *mut Opaque,
        most: u16,
        unusable: *mut u64,
    ) -> u16;
    fn flowloom_dpdk_bytes(frame: *const Opaque, length: *mut u32) -> *const u8;
    fn flowloom_dpdk_free(frames: *mut *mut Opaque, count: u32);
    fn flowloom_dpdk_copy(pool: *mut Opaque, bytes: *const u8, length: u32) -> *mut Opaque;
    fn flowloom_dpdk_send(port: u16, queue: u16, frames: *mut *mut Opaque, count: u16) -> u16;
    fn flowloom_dpdk_lost(port: u16) -> u64;
    fn flowloom_dpdk_close(port: u16, pool: *mut Opaque);
}

/// The result of the only initialisation.
static STARTED: Mutex<bool> = Mutex::new(false);

/// Initialises DPDK for the process.
pub(crate) fn start(words: &[&str]) -> io::Result<()> {
    let mut is_started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_started {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut owned = Vec::with_capacity(words.len());
    for word in words {
        owned.push(CString::new(*word)?.into_raw());
    }
    let count = c_int::try_from(owned.len()).map_err(io::Error::other)?;
    // SAFETY: `owned` has `count` pointers to texts that end with a zero byte. DPDK may reorder and
    // keep them, so they are never freed.
    let error = unsafe { flowloom_dpdk_start(count, owned.as_mut_ptr()) };
    std::mem::forget(owned);
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    *is_started = true;
    Ok(())
}

/// A started port.
#[derive(Debug)]
pub(crate) struct Device {
    port: u16,
    pool: NonNull<Opaque>,
}

// SAFETY: DPDK's pools of buffers and counters may be used by several threads at once.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Starts a port, and returns its queues.
    pub(crate) fn open(
        name: &str,
        queues: u16,
        descriptors: u16,
        buffers: u32,
    ) -> io::Result<Vec<Queue>> {
        let name = CString::new(name)?;
        let (mut port, mut pool) = (0, null_mut());
        // SAFETY: the text ends with a zero byte, and the call writes one value through each of the
        // last two pointers.
        let error = unsafe {
            flowloom_dpdk_open(name.as_ptr(), queues, descriptors, buffers, &raw mut port, &raw mut pool)
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let pool = NonNull::new(pool).ok_or(io::ErrorKind::OutOfMemory)?;
        let device = Arc::new(Self { port, pool });
        Ok((0..queues).map(|number| Queue { device: Arc::clone(&device), number }).collect())
    }

    /// Returns the number of frames that the port has lost since it was started.
    pub(crate) fn lost(&self) -> u64 {
        // SAFETY: the port is started.
        unsafe { flowloom_dpdk_lost(self.port) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the port is started. Every frame holds its queue's device, so no buffer of the
        // pool is in use.
        unsafe { flowloom_dpdk_close(self.port, self.pool.as_ptr()) }
    }
}

/// A queue of a port. Not `Clone`: only one thread at a time may receive or send on it.
#[derive(Debug)]
pub(crate) struct Queue {
    device: Arc<Device>,
    number: u16,
}

/// Received frames, which return to their pool on release.
#[derive(Debug)]
pub(crate) struct Burst {
    // Released before the device.
    frames: Vec<NonNull<Opaque>>,
    _device: Arc<Device>,
}

// SAFETY: buffers may be read and freed by another thread than the one that received them.
unsafe impl Send for Burst {}

impl Queue {
    /// Returns the port.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the number of the queue.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns a burst without frames.
    pub(crate) fn empty(&self) -> Burst {
        Burst { frames: Vec::new(), _device: Arc::clone(&self.device) }
    }

    /// Releases the frames of a burst and receives at most `most` others. Returns the number of
    /// frames that had to be discarded.
    pub(crate) fn receive(&mut self, burst: &mut Burst, most: u16) -> u64 {
        burst.release();
        let mut frames = vec![null_mut(); usize::from(most)];
        let mut unusable = 0;
        // SAFETY: the port is started and has this queue; `&mut self` shows that no other thread
        // receives on it. The call writes at most `most` pointers.
        let count = unsafe {
            flowloom_dpdk_receive(
                self.device.port,
                self.number,
                frames.as_mut_ptr(),
                most,
                &raw mut unusable,
            )
        };
        burst.frames.extend(frames[..usize::from(count)].iter().filter_map(|&frame| NonNull::new(frame)));
        unusable
    }

    /// Sends copies of frames, and returns how many of the first ones the port has accepted.
    pub(crate) fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        let mut copies = Vec::new();
        for bytes in frames {
            let Ok(length) = u32::try_from(bytes.len()) else { break };
            // SAFETY: the pool exists, and the bytes are readable for this length.
            let copy = unsafe { flowloom_dpdk_copy(self.device.pool.as_ptr(), bytes.as_ptr(), length) };
            if copy.is_null() {
                break;
            }
            copies.push(copy);
        }
        let count = u16::try_from(copies.len()).unwrap_or(u16::MAX);
        // SAFETY: the port is started and has this queue, `&mut self` shows that no other thread
        // sends on it, and `copies` has `count` frames that belong to this function.
        let sent =
            unsafe { flowloom_dpdk_send(self.device.port, self.number, copies.as_mut_ptr(), count) };
        let rest = &mut copies[usize::from(sent)..];
        // SAFETY: the port has not taken these frames. There are at most as many as were copied.
        unsafe { flowloom_dpdk_free(rest.as_mut_ptr(), u32::try_from(rest.len()).unwrap_or(0)) };
        sent.into()
    }
}

impl Burst {
    /// Returns the number of frames.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the bytes of a frame.
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        let mut length = 0;
        // SAFETY: the burst owns the frame until it is released, which needs `&mut self`. DPDK does
        // not write to a frame that it has handed over, and returns the bytes of its only buffer.
        unsafe {
            let bytes = flowloom_dpdk_bytes(self.frames[index].as_ptr(), &raw mut length);
            std::slice::from_raw_parts(bytes, length as usize)
        }
    }

    /// Returns the frames to their pool.
    pub(crate) fn release(&mut self) {
        let mut frames: Vec<*mut Opaque> = self.frames.drain(..).map(NonNull::as_ptr).collect();
        // SAFETY: the burst owns the frames and has just given them up. There are at most 65,535.
        unsafe { flowloom_dpdk_free(frames.as_mut_ptr(), u32::try_from(frames.len()).unwrap_or(0)) };
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.release();
    }
}
