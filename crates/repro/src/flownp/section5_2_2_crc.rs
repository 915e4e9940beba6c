//! Distribution by a CRC of the five-tuple and by the destination address [FLOWNP §5.2.2].

use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, decode};
use flowloom::scheduler::placement::modulo::crc_of;
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/section5_2_2_crc",
    place: "§5.2.2",
    claim: "a CRC of the five-tuple spreads packets much better than the destination's address",
    numbers: "none: §5.2.2 states an order",
    fidelity: &[Fidelity::Measured],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

const QUEUES: usize = 64;

/// Packets per queue, with three hashes.
struct Loads {
    crc: Vec<u64>,
    destination: Vec<u64>,
    keyed: Vec<u64>,
    packets: u64,
}

impl Loads {
    fn add(&mut self, key: &FlowKey, destination: u32, hasher: &FlowHasher) {
        self.packets += 1;
        self.crc[crc_of(key) as usize % QUEUES] += 1;
        self.destination[destination as usize % QUEUES] += 1;
        self.keyed[((u64::from(hasher.hash(key).worker) * QUEUES as u64) >> 32) as usize] += 1;
    }
}

fn variation(counts: &[u64]) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let squares: f64 = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum();
    (squares / counts.len() as f64).sqrt() / mean.max(1.0)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let Some(folder) = context.data_file("pcaps") else {
        return Ok(Outcome::new(Agreement::cannot_run(
            "it takes real captures: name a directory with `--data`, or set `FLOWLOOM_DATA`",
        )));
    };
    let inputs = [Input::from_argument(&folder)];
    let mut source =
        CaptureSet::open(&inputs, SetOptions::default()).map_err(ItemError::during("opening captures"))?;
    let hasher = FlowHasher::with_seed(context.seed);
    let none = || vec![0; QUEUES];
    let mut loads = Loads { crc: none(), destination: none(), keyed: none(), packets: 0 };
    let most = context.scale.pick(50_000, 1_000_000, u64::MAX);
    let mut batch = PacketBatch::new();
    while loads.packets < most {
        context.check_stop()?;
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            // A capture that is corrupt in the middle has been read up to that point.
            Ok(Fill::End) | Err(_) => break,
        }
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            let bytes = raw.bytes_in(block.bytes());
            let Ok(headers) = decode(raw.link, bytes, DecodeOptions::default()) else { continue };
            let destination = match headers.tuple().destination {
                std::net::IpAddr::V4(address) => address.to_bits(),
                std::net::IpAddr::V6(address) => (address.to_bits() & 0xFFFF_FFFF) as u32,
            };
            loads.add(&headers.key, destination, &hasher);
        }
    }
    if loads.packets == 0 {
        return Ok(Outcome::new(Agreement::cannot_run("the captures have no packet with a flow")));
    }
    let (crc, destination, keyed) =
        (variation(&loads.crc), variation(&loads.destination), variation(&loads.keyed));
    let points = |counts: &[u64]| {
        counts.iter().enumerate().map(|(at, &count)| (at as f64, count as f64)).collect::<Vec<_>>()
    };
    Ok(Outcome::new(Agreement::from_check(
        crc < destination,
        "on these captures too; a keyed hash spreads as a CRC does, and cannot be aimed at one queue",
        "not on these captures: their largest flows decide, with any hash",
    ))
    .value(Value::new("variation of queues by destination", "", destination))
    .value(Value::new("variation of queues by CRC", "", crc))
    .value(Value::new("variation of queues by keyed hash", "", keyed))
    .value(Value::new("keyed over CRC", "", keyed / crc).band(0.3, 3.0))
    .chart(
        Chart::new("Packets of each queue", Axis::linear("queue"), Axis::linear("packets"))
            .with(Series::points("destination", points(&loads.destination)))
            .with(Series::points("CRC", points(&loads.crc)))
            .with(Series::points("keyed", points(&loads.keyed))),
    )
    .note(format!("{} packets of real captures over {QUEUES} queues", loads.packets)))
}
