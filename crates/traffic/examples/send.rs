//! Sends the packets of a capture out of an interface a number of times, as fast as the interface
//! takes them.
//!
//! ```console
//! # cargo run -p flowloom-traffic --features live --example send -- veth0 edge.pcap 10
//! ```

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use flowloom_packet::{Fill, PacketBatch, PacketSource as _};
use flowloom_traffic::capture::{CaptureOptions, CaptureSet, Input, SetOptions};
use pcap::Capture;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, path, passes] = arguments.as_slice() else {
        return Err("usage: send INTERFACE CAPTURE TIMES".into());
    };
    let options =
        SetOptions { capture: CaptureOptions::default(), passes: passes.parse()?, ..SetOptions::default() };
    let mut source = CaptureSet::open(&[Input::Path(PathBuf::from(path))], options)?;
    let mut sender = Capture::from_device(interface.as_str())?.open()?;
    let mut batch = PacketBatch::new();
    let (mut sent, mut refused) = (0_u64, 0_u64);
    while source.next_batch(&mut batch)? == Fill::Packets {
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            // The interface refuses a frame that is longer than its limit.
            match sender.sendpacket(raw.bytes_in(block.bytes())) {
                Ok(()) => sent += 1,
                Err(_) => refused += 1,
            }
        }
    }
    writeln!(std::io::stdout(), "sent {sent} refused {refused}")?;
    Ok(())
}
