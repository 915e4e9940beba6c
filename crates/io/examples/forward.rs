//! Passes frames between two interfaces without looking at them: the least that a bridge does.
//!
//! ```text
//! cargo run -p flowloom-io --example forward -- eth0 eth1 [xdp | xdp-generic]
//! ```

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use flowloom_io::{PacketOptions, PacketPort, PortWire, XdpMode, XdpOptions, XdpWire};
    use flowloom_packet::wire::{Decision, WIRE_BATCH, Wire};
    use std::time::Duration;

    let names: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, how @ ..] = &names[..] else { return Err("two interfaces are needed".into()) };
    let open = |name: &str| PacketPort::open(name, &PacketOptions::default());
    let xdp = |mode| XdpWire::open(a, b, 1, &XdpOptions { mode, ..XdpOptions::default() });
    let mut wire: Box<dyn Wire> = match how.first().map(String::as_str) {
        Some("xdp") => Box::new(xdp(XdpMode::Native)?.remove(0)),
        Some("xdp-generic") => Box::new(xdp(XdpMode::Generic)?.remove(0)),
        _ => Box::new(PortWire::new(vec![open(a)?, open(b)?], 0)),
    };
    loop {
        let frames = wire.receive()?;
        wire.settle(&[Decision::Pass; WIRE_BATCH][..frames])?;
        if frames == 0 {
            wire.wait(Duration::from_millis(100))?;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
