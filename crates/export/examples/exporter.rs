//! A flow exporter: accounts for the packets and bytes of flows in both directions, and sends the
//! records to a collector as NetFlow v9 over UDP.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::net::UdpSocket;
use std::time::Duration;

use flowloom_apps::Accounting;
use flowloom_apps::accounting::AccountingRecord;
use flowloom_apps::engine::flow_table::{LineHash, TableOptions};
use flowloom_apps::engine::scheduler::{DirectHash, WorkerCount};
use flowloom_apps::engine::{Control, EngineConfig, IdleTimeout, Layout, run};
use flowloom_export::{Netflow9Writer, RecordWriter, UdpCollector, UdpOptions};
use flowloom_traffic::synth::{Generated, Mix, MixConfig};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A collector; on a network, `connect` takes the address of one.
    let collector = UdpSocket::bind("127.0.0.1:0")?;
    collector.set_read_timeout(Some(Duration::from_millis(500)))?;
    let udp = UdpCollector::connect(collector.local_addr()?, UdpOptions::default())?;
    let sent = udp.counters();
    let mut writer = Netflow9Writer::new(udp, &AccountingRecord::schema())?;

    // `CaptureSet` reads captures instead, and `PacketPort` interfaces.
    let mix = MixConfig { flows: 300, packets: 20_000, ..MixConfig::default() };
    let mut source = Generated::new(Mix::new(mix)?);
    let timeout = IdleTimeout::from_ns(15_000_000_000);
    let config =
        EngineConfig { idle_timeout: Some(timeout), ..EngineConfig::new(Layout::Pipeline { workers: 2 }) };
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = TableOptions { timeouts: timeout.for_table(), ..TableOptions::for_flows(10_000) };
    let (table, app) = (|_| LineHash::try_new(&table), |_| Accounting::new(Some(60_000_000_000)));
    let report = run(&config, &mut source, &mut placement, table, app, &Control::default())?;
    let mut packets = 0;
    for flow in &report.flows {
        let record = AccountingRecord::new(&flow.key, &flow.state, flow.ended);
        packets += record.packets + record.reverse_packets;
        writer.write(&record.row())?;
    }
    writer.finish()?;

    let (mut datagrams, mut records, mut datagram) = (0, 0_u64, [0; 2048]);
    while datagrams < sent.sent() {
        let bytes = collector.recv(&mut datagram)?;
        assert!(bytes > 20 && datagram[..2] == [0, 9], "version 9");
        records += u64::from(u16::from_be_bytes([datagram[2], datagram[3]]));
        datagrams += 1;
    }
    println!(
        "{} flows of {packets} packets: {records} records in {datagrams} datagrams",
        report.flows.len()
    );
    assert_eq!(packets, report.processed());
    assert!(datagrams > 0 && records >= report.flows.len() as u64);
    Ok(())
}
