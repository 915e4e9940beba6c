//! Turns a capture or a model into jobs.

use std::collections::HashMap;
use std::net::IpAddr;

use flowloom::cpu::memory;
use flowloom::flow_key::FlowKey;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, decode};
use flowloom::scheduler::registry::DigestKind;
use flowloom::scheduler::sim::models::{Model, Traffic};
use flowloom::scheduler::sim::workload::{JOBS_MAX, Job, WORK_MAX};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

use crate::args::Common;
use crate::args::simulate::traffic::{ModelName, TrafficOptions};
use crate::exit::{Failure, check_decodable};
use crate::progress::label;
use crate::render::warn_of;

/// Jobs and their name.
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) traffic: Traffic,
}

/// Maximum memory per packet of a model, in bytes: a job, a copy for the other order, and the notes
/// of a scheduler.
const MODEL_BYTES: u64 = 64;
/// Maximum memory per packet of a capture, in bytes: the same while a list doubles, and a separate
/// flow.
const CAPTURE_BYTES: u64 = 256;

/// Refuses packets that do not fit into the free memory.
fn check_memory(packets: u64, each_bytes: u64, available: Option<u64>) -> Result<(), Failure> {
    let needed = packets * each_bytes;
    match available {
        Some(available) if needed > available => Err(Failure::Usage(format!(
            "{packets} packets take about {needed} bytes, but {available} are free\n  use a smaller \
             --packets"
        ))),
        _ => Ok(()),
    }
}

/// Returns the requested jobs.
pub(super) fn offer(options: &TrafficOptions, common: &Common) -> Result<Offer, Failure> {
    let Some(model) = options.model else {
        if options.inputs.is_empty() {
            return Err(Failure::Usage(String::from(
                "traffic is required: FILE, captures or directories, or --model NAME\n  --help lists the models",
            )));
        }
        return from_captures(options, common);
    };
    let model = match model {
        ModelName::Dominant => Model::Dominant,
        ModelName::Many => Model::Many,
        ModelName::Balanced => Model::Balanced,
        ModelName::L7 => Model::L7 { elephant_permille: 0 },
        ModelName::L7Elephant => Model::L7 { elephant_permille: 50 },
        ModelName::Zipf => Model::Zipf { flows: 5000, exponent_permille: 1000 },
        ModelName::Bursts => Model::Bursts,
        ModelName::Elephants => Model::Elephants,
        ModelName::Attack => Model::Attack,
    };
    let packets = options.packets.unwrap_or_else(|| u64::from(model.packets()));
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    check_memory(u64::from(packets).min(JOBS_MAX as u64), MODEL_BYTES, memory::available_bytes())?;
    let traffic =
        model.generate(packets, options.seed).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Offer { name: format!("model {}", model.name()), traffic })
}

fn from_captures(options: &TrafficOptions, common: &Common) -> Result<Offer, Failure> {
    let inputs: Vec<Input> = options.inputs.iter().map(|path| Input::from_argument(path)).collect();
    let mut source = CaptureSet::open(&inputs, SetOptions::default())?;
    let decoding = DecodeOptions::new().with_decap(options.decap);
    let most = options.packets.unwrap_or(JOBS_MAX as u64).min(JOBS_MAX as u64) as usize;
    let mut traffic = Traffic { jobs: Vec::new(), keys: Vec::new(), servers: Vec::new() };
    let mut numbers: HashMap<FlowKey, u32> = HashMap::new();
    let mut batch = PacketBatch::new();
    let available = memory::available_bytes();
    while traffic.jobs.len() < most {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => break,
            Err(error) => {
                check_decodable(traffic.jobs.len() as u64, &error)?;
                return Err(Failure::Input(error.to_string()));
            }
        }
        check_memory((traffic.jobs.len() + batch.packets.len()) as u64, CAPTURE_BYTES, available)?;
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            let bytes = raw.bytes_in(block.bytes());
            let Ok(headers) = decode(raw.link, bytes, decoding) else { continue };
            let flow = *numbers.entry(headers.key).or_insert_with(|| {
                traffic.keys.push(headers.key);
                // The destination of the flow's first packet.
                traffic.servers.push(match headers.tuple().destination {
                    IpAddr::V4(address) => address.to_bits(),
                    IpAddr::V6(address) => address.to_bits() as u32,
                });
                (traffic.keys.len() - 1) as u32
            });
            let work = u64::from(options.packet_cycles)
                + u64::from(options.byte_cycles) * u64::from(raw.wire_bytes);
            let work = work.min(u64::from(WORK_MAX)) as u32;
            traffic.jobs.push(Job { arrival: 0, flow, digest: 0, bytes: raw.wire_bytes, work });
        }
    }
    traffic.jobs.truncate(most);
    for notice in source.notices() {
        warn_of(notice, false, common);
    }
    if traffic.jobs.is_empty() {
        return Err(Failure::Input(format!(
            "{} has no packet with a flow key\n  flowloom inspect shows its contents",
            label(&options.inputs)
        )));
    }
    Ok(Offer {
        name: label(&options.inputs),
        traffic: traffic.with_digests(DigestKind::Keyed, options.seed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_count_beyond_memory_is_refused_with_the_option_to_lower() {
        assert!(check_memory(1000, MODEL_BYTES, Some(64_000)).is_ok());
        assert!(check_memory(u64::from(u32::MAX), MODEL_BYTES, None).is_ok(), "the system does not tell");
        let Err(Failure::Usage(said)) = check_memory(1001, MODEL_BYTES, Some(64_000)) else {
            panic!("a packet too many")
        };
        assert_eq!(
            said,
            "1001 packets take about 64064 bytes, but 64000 are free\n  use a smaller --packets"
        );
    }
}
