//! Captures a number of packets through libpcap, and prints their number and bytes.
//!
//! ```console
//! # cargo run -p flowloom-traffic --features live --example libpcap -- eth0 1000
//! ```

use std::error::Error;
use std::io::Write as _;

use flowloom_packet::{Fill, PacketBatch, PacketSource as _};
use flowloom_traffic::live::{LiveOptions, LiveSource};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, packets] = arguments.as_slice() else {
        return Err("usage: libpcap INTERFACE PACKETS".into());
    };
    let packets: u64 = packets.parse()?;
    let mut source = LiveSource::open(interface, &LiveOptions::default())?;
    let (mut batch, mut bytes, mut dropped) = (PacketBatch::new(), 0, 0);
    while source.packets() + dropped < packets {
        if source.next_batch(&mut batch)? == Fill::Packets {
            bytes += batch.packets.iter().map(|raw| u64::from(raw.wire_bytes)).sum::<u64>();
        }
        dropped += source.withheld().total();
    }
    writeln!(std::io::stdout(), "{} packets, {bytes} bytes, {dropped} dropped", source.packets())?;
    Ok(())
}
