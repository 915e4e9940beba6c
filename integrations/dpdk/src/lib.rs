//! Ports of DPDK. Each is a source and a sink of frames for one queue, as the ports of
//! `flowloom-io` are.
//!
//! DPDK copies nothing when it receives; a port copies a frame that it sends. Where there is no
//! card, DPDK's driver `net_af_packet` makes a port of an interface of Linux.
//!
//! # Examples
//!
//! ```no_run
//! use flowloom_dpdk::DpdkPort;
//! use flowloom_io::PortWire;
//!
//! flowloom_dpdk::start(&[
//!     "--no-pci",
//!     "--vdev=net_af_packet0,iface=eth0",
//!     "--vdev=net_af_packet1,iface=eth1",
//! ])?;
//! let mut a = DpdkPort::open("net_af_packet0", 1)?;
//! let mut b = DpdkPort::open("net_af_packet1", 1)?;
//! let wire = PortWire::new(vec![a.remove(0), b.remove(0)], 0);
//! # Ok::<(), flowloom_io::IoError>(())
//! ```

mod sys;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use flowloom_io::{IoError, Port, PortFrame};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use sys::{Burst, Device, Queue};

/// Number of frames that a queue holds in each direction.
const DESCRIPTORS: u16 = 1024;
/// Number of buffers per queue: those of both directions, and of the burst that is read.
const BUFFERS_PER_QUEUE: u32 = 4 * DESCRIPTORS as u32;
/// Time between two looks at a port on which no frame arrives, in nanoseconds.
const POLL_NS: i64 = 50_000;
/// Number of bursts that are received after a port is closed.
const BURSTS_AFTER_CLOSE: u32 = 64;

/// Initialises DPDK with the arguments of its environment abstraction layer, without the name of a
/// program: <https://doc.dpdk.org/guides/linux_gsg/linux_eal_parameters.html>.
///
/// # Errors
///
/// Returns [`IoError::Failed`] when DPDK rejects the arguments or cannot get memory, and when it
/// was initialised before. DPDK prints its reason to standard error.
pub fn start(arguments: &[&str]) -> Result<(), IoError> {
    let words: Vec<&str> = std::iter::once("flowloom").chain(arguments.iter().copied()).collect();
    sys::start(&words).map_err(failed("dpdk", "initialise DPDK"))
}

fn failed(interface: &str, what: &'static str) -> impl FnOnce(std::io::Error) -> IoError {
    let interface = interface.to_owned();
    move |error| IoError::Failed { interface, what, error }
}

/// One queue of a port.
///
/// DPDK has no descriptor to wait on for most cards. [`descriptor`](Port::descriptor) is a timer of
/// 50 µs, so a port without traffic is polled 20,000 times a second.
///
/// The last queue to be dropped closes the port.
#[derive(Debug)]
pub struct DpdkPort {
    name: String,
    queue: RefCell<Queue>,
    burst: Burst,
    timer: OwnedFd,
    time_ns: u64,
    /// The number of lost frames that has been reported, and that of discarded ones.
    lost: u64,
    unusable: u64,
    /// Number of bursts to receive after the port is closed.
    left: Option<u32>,
}

impl DpdkPort {
    /// Starts a port, and returns its queues. Its name is an address on the bus, such as
    /// `0000:03:00.0`, or that of a `--vdev`.
    ///
    /// # Errors
    ///
    /// Returns [`IoError::Failed`] when there is no such port, it has fewer queues, or there is not
    /// enough memory for its buffers.
    pub fn open(name: &str, queues: u16) -> Result<Vec<Self>, IoError> {
        let buffers = BUFFERS_PER_QUEUE * u32::from(queues);
        let opened = Device::open(name, queues, DESCRIPTORS, buffers).map_err(failed(name, "open the port"))?;
        let with_timer = |queue: Queue| {
            let timer = timer().map_err(|error| failed(name, "create a timer")(error.into()))?;
            let burst = queue.empty();
            Ok(Self {
                name: name.to_owned(),
                queue: RefCell::new(queue),
                burst,
                timer,
                time_ns: 0,
                lost: 0,
                unusable: 0,
                left: None,
            })
        };
        opened.into_iter().map(with_timer).collect()
    }
}

/// Returns a descriptor that becomes readable again and again.
fn timer() -> rustix::io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let often = Timespec { tv_sec: 0, tv_nsec: POLL_NS };
    let spec = Itimerspec { it_interval: often, it_value: often };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
    Ok(timer)
}

impl Port for DpdkPort {
    fn receive(&mut self, most: usize) -> Result<usize, IoError> {
        if self.left == Some(0) {
            self.burst.release();
            return Ok(0);
        }
        self.left = self.left.map(|left| left - 1);
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        self.unusable += self.queue.get_mut().receive(&mut self.burst, most);
        if self.burst.len() == 0 {
            // The timer becomes unreadable until it expires again.
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        } else {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.time_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        }
        Ok(self.burst.len())
    }

    fn frame(&self, index: usize) -> PortFrame<'_> {
        PortFrame { time_ns: self.time_ns, ..PortFrame::new(self.burst.bytes(index)) }
    }

    fn release(&mut self) {
        self.burst.release();
    }

    fn send(&self, frames: &[PortFrame<'_>], taken: &mut Vec<bool>) {
        let sent = self.queue.borrow_mut().send(&mut frames.iter().map(|frame| frame.bytes));
        taken.clear();
        taken.extend((0..frames.len()).map(|index| index < sent));
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    fn missed(&mut self) -> u64 {
        let mut missed = std::mem::take(&mut self.unusable);
        let queue = self.queue.get_mut();
        // The counter is that of the port; its first queue reports it.
        if queue.number() == 0 {
            let lost = queue.device().lost();
            missed += lost.saturating_sub(self.lost);
            self.lost = lost;
        }
        missed
    }

    /// DPDK cannot stop one queue alone, so a closed port receives a bounded number of further
    /// bursts.
    fn close(&mut self) -> Result<(), IoError> {
        self.left = Some(BURSTS_AFTER_CLOSE);
        Ok(())
    }

    fn recover(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn interface(&self) -> &str {
        &self.name
    }
}
