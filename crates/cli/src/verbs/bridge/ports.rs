//! The wires of the workers: both interfaces, by the selected backend.

use flowloom::io::{
    IoError, NfqueueOptions, NfqueueWire, PacketOptions, PacketPort, Port, PortWire, TapPort, XdpMode,
    XdpOptions, XdpWire,
};
use flowloom::packet::wire::Wire;

use crate::args::bridge::{BackendName, Bridge, RefusalName};
use crate::exit::Failure;

/// The wire of one worker.
pub(super) type WorkerWire = Box<dyn Wire + Send>;

/// Size of a frame in the rings of `AF_XDP`, in bytes.
const FRAME_BYTES: u64 = 4096;

/// Returns the bytes of all rings. The kernel keeps the packets of queues.
pub(super) fn ring_bytes(arguments: &Bridge, ends: &Ends) -> u64 {
    if matches!(ends, Ends::Queue(_)) {
        return 0;
    }
    let each = match arguments.backend {
        BackendName::AfPacket => 2 * arguments.ring,
        // Receive and transmit rings of both interfaces share frames.
        BackendName::Xdp | BackendName::XdpGeneric => {
            4 * FRAME_BYTES * (arguments.ring / FRAME_BYTES).clamp(64, 1 << 16).next_power_of_two()
        }
    };
    arguments.workers as u64 * each
}

/// Where the frames come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Interfaces([String; 2]),
    /// The first of the workers' queues.
    Queue(u16),
}

/// The prefix of a queue of the kernel's firewall.
const QUEUE: &str = "queue:";

impl Ends {
    /// Reads the arguments.
    pub(super) fn from_arguments(arguments: &Bridge) -> Result<Self, Failure> {
        let usage = |text: String| Err(Failure::Usage(text));
        match (arguments.a.strip_prefix(QUEUE), &arguments.b) {
            (None, Some(b)) => Ok(Self::Interfaces([arguments.a.clone(), b.clone()])),
            (None, None) => {
                usage(format!("{} alone: a bridge joins two interfaces\n  name another", arguments.a))
            }
            (Some(_), Some(b)) => usage(format!(
                "{} and {b}: packets of a queue go back to the kernel\n  omit {b}",
                arguments.a
            )),
            (Some(number), None) => {
                if arguments.backend != BackendName::AfPacket || arguments.deny_with != RefusalName::Silent
                {
                    return usage(String::from(
                        "a queue has no --backend, and cannot send the answers of --deny-with\n  omit both; -j REJECT answers",
                    ));
                }
                let last = number.parse::<u16>().ok().and_then(|first| {
                    first.checked_add(u16::try_from(arguments.workers).ok()? - 1)?;
                    Some(Self::Queue(first))
                });
                last.map_or_else(
                    || {
                        usage(format!(
                            "queue:{number}: queues have numbers from 0 to 65535, one per worker"
                        ))
                    },
                    Ok,
                )
            }
        }
    }

    /// Returns the names of the ports.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Interfaces(names) => {
                names.iter().map(|name| name.strip_prefix(TAP).unwrap_or(name).to_owned()).collect()
            }
            Self::Queue(first) => vec![format!("{QUEUE}{first}")],
        }
    }
}

/// Opens the wires.
pub(super) fn open(arguments: &Bridge, ends: &Ends) -> Result<Vec<WorkerWire>, Failure> {
    let [a, b] = match ends {
        Ends::Interfaces(names) => names.each_ref().map(String::as_str),
        Ends::Queue(first) => {
            return queue_wires(arguments, *first).map_err(|error| Failure::Usage(error.to_string()));
        }
    };
    let has_tap = [a, b].iter().any(|interface| interface.starts_with(TAP));
    if has_tap && (arguments.workers > 1 || arguments.backend != BackendName::AfPacket) {
        return Err(Failure::Usage(String::from(
            "a tap interface has one queue, which the process reads\n  omit --workers and --backend",
        )));
    }
    let opened = match arguments.backend {
        BackendName::AfPacket => packet_wires(arguments, a, b),
        BackendName::Xdp => xdp_wires(arguments, [a, b], XdpMode::Native),
        BackendName::XdpGeneric => xdp_wires(arguments, [a, b], XdpMode::Generic),
    };
    opened.map_err(|error| Failure::Usage(error.to_string()))
}

fn queue_wires(arguments: &Bridge, first: u16) -> Result<Vec<WorkerWire>, IoError> {
    let options = NfqueueOptions { passes_when_full: arguments.fail_open, ..NfqueueOptions::default() };
    let open = |queue| Ok(Box::new(NfqueueWire::open(queue, &options)?) as WorkerWire);
    (first..=u16::MAX).take(arguments.workers).map(open).collect()
}

/// The prefix of the name of an interface that the process creates.
const TAP: &str = "tap:";

/// Opens the ports of an interface, one per worker.
fn group(arguments: &Bridge, interface: &str) -> Result<Vec<Box<dyn Port>>, IoError> {
    if let Some(name) = interface.strip_prefix(TAP) {
        return Ok(vec![Box::new(TapPort::open(name)?)]);
    }
    let ring_bytes = usize::try_from(arguments.ring).unwrap_or(usize::MAX);
    let options = PacketOptions { ring_bytes, ..PacketOptions::default() };
    let ports = PacketPort::open_group(interface, arguments.workers, &options)?;
    Ok(ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect())
}

fn packet_wires(arguments: &Bridge, a: &str, b: &str) -> Result<Vec<WorkerWire>, IoError> {
    let pairs = group(arguments, a)?.into_iter().zip(group(arguments, b)?);
    let wire = |(queue, (a, b))| Box::new(PortWire::new(vec![a, b], queue)) as WorkerWire;
    Ok((0..).zip(pairs).map(wire).collect())
}

fn xdp_wires(arguments: &Bridge, [a, b]: [&str; 2], mode: XdpMode) -> Result<Vec<WorkerWire>, IoError> {
    let ring_frames = u32::try_from(arguments.ring / FRAME_BYTES).unwrap_or(u32::MAX);
    let options = XdpOptions { mode, ring_frames };
    let workers = u32::try_from(arguments.workers).unwrap_or(u32::MAX);
    let wires = XdpWire::open(a, b, workers, &options)?;
    Ok(wires.into_iter().map(|wire| Box::new(wire) as WorkerWire).collect())
}
