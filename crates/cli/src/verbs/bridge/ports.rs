//! The wires of the workers: both interfaces, by the backend that was asked for.

use flowloom::io::{IoError, PacketOptions, PacketPort, PortWire, XdpMode, XdpOptions, XdpWire};
use flowloom::packet::wire::Wire;

use crate::args::bridge::{BackendName, Bridge};
use crate::exit::Failure;

/// The wire of one worker.
pub(super) type WorkerWire = Box<dyn Wire + Send>;

/// Opens the wires.
pub(super) fn open(arguments: &Bridge) -> Result<Vec<WorkerWire>, Failure> {
    let opened = match arguments.backend {
        BackendName::AfPacket => packet_wires(arguments),
        BackendName::Xdp => xdp_wires(arguments, XdpMode::Native),
        BackendName::XdpGeneric => xdp_wires(arguments, XdpMode::Generic),
    };
    opened.map_err(|error| Failure::Usage(error.to_string()))
}

fn packet_wires(arguments: &Bridge) -> Result<Vec<WorkerWire>, IoError> {
    let ring_bytes = usize::try_from(arguments.ring).unwrap_or(usize::MAX);
    let options = PacketOptions { ring_bytes, ..PacketOptions::default() };
    let open = |interface: &str| PacketPort::open_group(interface, arguments.workers, &options);
    let pairs = open(&arguments.a)?.into_iter().zip(open(&arguments.b)?);
    let wire = |(queue, (a, b))| Box::new(PortWire::new(vec![a, b], queue)) as WorkerWire;
    Ok((0..).zip(pairs).map(wire).collect())
}

fn xdp_wires(arguments: &Bridge, mode: XdpMode) -> Result<Vec<WorkerWire>, IoError> {
    /// Bytes of a frame in a ring.
    const FRAME_BYTES: u64 = 4096;
    let ring_frames = u32::try_from(arguments.ring / FRAME_BYTES).unwrap_or(u32::MAX);
    let options = XdpOptions { mode, ring_frames };
    let workers = u32::try_from(arguments.workers).unwrap_or(u32::MAX);
    let wires = XdpWire::open(&arguments.a, &arguments.b, workers, &options)?;
    Ok(wires.into_iter().map(|wire| Box::new(wire) as WorkerWire).collect())
}
