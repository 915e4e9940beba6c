//! Interfaces that the process creates: frames that the host sends on one arrive here, and frames
//! sent here arrive at the host.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;

use crate::error::{Context, IoError};
use crate::port::{Offload, Port, PortFrame};
use crate::sys::socket;

/// Maximum size of a frame: an unsegmented packet, and its headers.
const FRAME_BYTES_MAX: usize = (64 << 10) + 256;
/// Number of frames that the kernel queues before the device.
const QUEUED_MAX: usize = 1000;

/// A tap interface.
///
/// Dropping the port removes the interface, unless it was made persistent before. Frames that the
/// host sends faster than they are received count as `tx_dropped` of the interface, not as missed.
///
/// # Examples
///
/// ```no_run
/// use flowloom_io::{Port, PortFrame, TapPort};
/// let port = TapPort::open("tap0")?;
/// let mut taken = Vec::new();
/// port.send(&[PortFrame::new(&[0; 60])], &mut taken);
/// # Ok::<(), flowloom_io::IoError>(())
/// ```
#[derive(Debug)]
pub struct TapPort {
    interface: String,
    device: File,
    buffers: Vec<Vec<u8>>,
    /// Sizes and offloads of the received frames.
    held: Vec<(usize, Offload)>,
    time_ns: u64,
    /// Number of frames to receive after the port is closed.
    left: Option<usize>,
}

impl TapPort {
    /// Creates an interface, or opens an existing one that no other process has open.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when the kernel has no tap devices, the name is invalid, or the
    /// permissions do not suffice.
    pub fn open(interface: &str) -> Result<Self, IoError> {
        let context = Context { interface, capability: "CAP_NET_ADMIN" };
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun");
        let device = opened.map_err(context.failed("open /dev/net/tun", ""))?;
        let remedy = "run modprobe tun; a name has at most 15 characters";
        socket::attach_tap(&device, interface).map_err(context.failed("create a tap interface", remedy))?;
        Ok(Self {
            interface: interface.to_owned(),
            device,
            buffers: Vec::new(),
            held: Vec::new(),
            time_ns: 0,
            left: None,
        })
    }
}

impl Port for TapPort {
    fn receive(&mut self, most: usize) -> Result<usize, IoError> {
        self.release();
        let most = most.min(self.left.unwrap_or(most));
        while self.held.len() < most {
            if self.buffers.len() == self.held.len() {
                self.buffers.push(vec![0; FRAME_BYTES_MAX]);
            }
            let mut header = [0; Offload::BYTES];
            let mut parts = [&mut header[..], &mut self.buffers[self.held.len()]].map(IoSliceMut::new);
            let Ok(read) = rustix::io::readv(&self.device, &mut parts) else { break };
            self.held.push((read.saturating_sub(Offload::BYTES), Offload::from_bytes(&header)));
        }
        if !self.held.is_empty() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.time_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        }
        self.left = self.left.map(|left| left - self.held.len());
        Ok(self.held.len())
    }

    fn frame(&self, index: usize) -> PortFrame<'_> {
        let (bytes, offload) = self.held[index];
        let frame = PortFrame::new(&self.buffers[index][..bytes]);
        PortFrame { time_ns: self.time_ns, offload, ..frame }
    }

    fn release(&mut self) {
        self.held.clear();
    }

    fn send(&self, frames: &[PortFrame<'_>], taken: &mut Vec<bool>) {
        taken.clear();
        taken.extend(frames.iter().map(|frame| {
            let parts = [&frame.offload.0[..], frame.bytes].map(IoSlice::new);
            rustix::io::writev(&self.device, &parts).is_ok()
        }));
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn missed(&mut self) -> u64 {
        0
    }

    fn close(&mut self) -> Result<(), IoError> {
        self.left = Some(QUEUED_MAX);
        Ok(())
    }

    /// An interface that is down comes up again later.
    fn recover(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn interface(&self) -> &str {
        &self.interface
    }
}
