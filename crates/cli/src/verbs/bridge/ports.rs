//! The wires of the workers: both interfaces, by the selected backend.

use flowloom::io::{
    IoError, PacketOptions, PacketPort, Port, PortWire, TapPort, XdpMode, XdpOptions, XdpWire,
};
use flowloom::packet::wire::Wire;

use crate::args::bridge::{BackendName, Bridge};
use crate::exit::Failure;

/// The wire of one worker.
pub(super) type WorkerWire = Box<dyn Wire + Send>;

/// Opens the wires.
pub(super) fn open(arguments: &Bridge) -> Result<Vec<WorkerWire>, Failure> {
    let has_tap = [&arguments.a, &arguments.b].iter().any(|interface| interface.starts_with(TAP));
    if has_tap && (arguments.workers > 1 || arguments.backend != BackendName::AfPacket) {
        return Err(Failure::Usage(String::from(
            "a tap interface has one queue, which the process reads\n  omit --workers and --backend",
        )));
    }
    let opened = match arguments.backend {
        BackendName::AfPacket => packet_wires(arguments),
        BackendName::Xdp => xdp_wires(arguments, XdpMode::Native),
        BackendName::XdpGeneric => xdp_wires(arguments, XdpMode::Generic),
    };
    opened.map_err(|error| Failure::Usage(error.to_string()))
}

/// The prefix of the name of an interface that the process creates.
const TAP: &str = "tap:";

/// Returns the names of both interfaces.
pub(super) fn names(arguments: &Bridge) -> [String; 2] {
    [&arguments.a, &arguments.b].map(|name| name.strip_prefix(TAP).unwrap_or(name).to_owned())
}

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

fn packet_wires(arguments: &Bridge) -> Result<Vec<WorkerWire>, IoError> {
    let pairs = group(arguments, &arguments.a)?.into_iter().zip(group(arguments, &arguments.b)?);
    let wire = |(queue, (a, b))| Box::new(PortWire::new(vec![a, b], queue)) as WorkerWire;
    Ok((0..).zip(pairs).map(wire).collect())
}

fn xdp_wires(arguments: &Bridge, mode: XdpMode) -> Result<Vec<WorkerWire>, IoError> {
    /// Size of a frame in a ring, in bytes.
    const FRAME_BYTES: u64 = 4096;
    let ring_frames = u32::try_from(arguments.ring / FRAME_BYTES).unwrap_or(u32::MAX);
    let options = XdpOptions { mode, ring_frames };
    let workers = u32::try_from(arguments.workers).unwrap_or(u32::MAX);
    let wires = XdpWire::open(&arguments.a, &arguments.b, workers, &options)?;
    Ok(wires.into_iter().map(|wire| Box::new(wire) as WorkerWire).collect())
}
