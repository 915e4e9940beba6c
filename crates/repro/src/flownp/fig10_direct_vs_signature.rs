//! `DirectHash` compared with `SigHash`: the time of a lookup, and the number of flows that fit
//! [FLOWNP §6.3, Fig. 10].
//!
//! It is timed on one thread, with as many buckets as flows and with as much memory as the
//! signatures take. The paper's sweep over threads is a [separate item](super::fig10_threads).

use std::hint::black_box;

use flowloom::flow_table::baseline::DirectTable;
use flowloom::flow_table::{FlowTable, SigHash, TableOptions};
use flowloom_measure::chart::{Axis, Chart, Series};
use flowloom_measure::lookup::{Flows, State};

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::timing::{FASTER, Timed, nanoseconds};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig10_direct_vs_signature",
    place: "§6.3, Fig. 10",
    claim: "SigHash is faster than DirectHash, and keeps more than ten million flows where DirectHash keeps less than 200,000",
    numbers: "text of §6.3 and of the abstract: limits, and the ratio of two rates",
    fidelity: &[Fidelity::Measured, Fidelity::Arithmetic],
    switches: &[SIGNATURES],
    run,
    ..Item::PLAIN
};

const SIGNATURES: Switch = Switch::mechanism(
    "signatures",
    "the entries themselves stand in the memory of the signatures, as in DirectHash",
);

/// Size of an entry in bytes.
const ENTRY_BYTES: f64 = 32.0;
/// Size of a chip of SRAM in bytes; there are three chips [FLOWNP §6.2.2].
const CHIP_BYTES: f64 = 8.0 * 1_048_576.0;
fn direct_table(count: u32, buckets: u32) -> Result<DirectTable<[u64; 2], State>, ItemError> {
    let config =
        TableOptions { buckets: Some(buckets), list_cap: Some(u32::MAX), ..TableOptions::for_flows(count) };
    DirectTable::try_new(&config).map_err(ItemError::during("building DirectHash"))
}

/// Returns the number of flows of `DirectHash` in a memory of this size, with one bucket per flow;
/// lists contain additional entries.
fn flows_of_direct(bytes: f64, displaced_share: f64) -> f64 {
    bytes / ENTRY_BYTES / (1.0 + displaced_share)
}

/// Returns the number of flows of `SigHash` whose words fill a memory of this size if 2 % of the
/// flows find their bucket full.
fn flows_of_signatures(bytes: f64) -> f64 {
    let overflowing = |load: f64| {
        // Of a Poisson-distributed number of flows in a bucket, those beyond four.
        let mut chance = (-load).exp();
        let mut within = 0.0;
        for count in 0..=4 {
            within += chance * (f64::from(count) - 4.0);
            chance *= load / f64::from(count + 1);
        }
        (load - 4.0 - within) / load
    };
    let (mut low, mut high) = (1.0, 4.0);
    for _ in 0..50 {
        let load = f64::midpoint(low, high);
        if overflowing(load) < 0.02 { low = load } else { high = load }
    }
    bytes / 4.0 * low
}

/// Medians of a lookup in nanoseconds, and the share of `DirectHash` flows in lists.
struct Timing {
    signatures: [f64; 2],
    direct: [f64; 2],
    direct_in_signatures_memory: [f64; 2],
    listed_share: f64,
}

fn timed(context: &Context<'_>, count: u32) -> Result<Timing, ItemError> {
    let flows = Flows::<2>::new(count, context.seed);
    let mut signatures = SigHash::<[u64; 2], State>::try_new(&TableOptions {
        buckets: Some(count),
        ..TableOptions::for_flows(count)
    })
    .map_err(ItemError::during("building SigHash"))?;
    let mut direct = direct_table(count, count)?;
    // A word of signatures has four bytes, an entry 32.
    let mut narrow = direct_table(count, count / 8)?;
    flows.fill(&mut signatures).map_err(ItemError::during("filling SigHash"))?;
    flows.fill(&mut direct).map_err(ItemError::during("filling DirectHash"))?;
    context.check_stop()?;
    flows.fill(&mut narrow).map_err(ItemError::during("filling DirectHash"))?;
    context.check_stop()?;
    let items = u64::from(count);
    let times = nanoseconds(
        context,
        context.scale.pick(3, 7, 11),
        vec![
            Timed::new("SigHash", items, || {
                if context.is_off(&SIGNATURES) {
                    black_box(flows.hits(&narrow, 64));
                } else {
                    black_box(flows.hits(&signatures, 64));
                }
            }),
            Timed::new("SigHash, single", items, || {
                black_box(flows.single_hits(&signatures));
            }),
            Timed::new("DirectHash", items, || {
                black_box(flows.hits(&direct, 64));
            }),
            Timed::new("DirectHash, single", items, || {
                black_box(flows.single_hits(&direct));
            }),
            Timed::new("DirectHash, as much memory", items, || {
                black_box(flows.hits(&narrow, 64));
            }),
            Timed::new("DirectHash, as much memory, single", items, || {
                black_box(flows.single_hits(&narrow));
            }),
        ],
    )?;
    let stats = direct.stats();
    Ok(Timing {
        signatures: [times[0], times[1]],
        direct: [times[2], times[3]],
        direct_in_signatures_memory: [times[4], times[5]],
        listed_share: f64::from(stats.displaced) / f64::from(stats.len.max(1)),
    })
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let count: u32 = context.scale.pick(1 << 13, 1 << 18, 1 << 21);
    let times = timed(context, count)?;
    let at_equal_memory = times.direct_in_signatures_memory[0] / times.signatures[0];
    let batched = times.direct[0] / times.signatures[0];
    let in_a_chip = flows_of_direct(CHIP_BYTES, times.listed_share);
    let in_three = flows_of_direct(3.0 * CHIP_BYTES, times.listed_share);
    let held = if context.is_off(&SIGNATURES) { in_three } else { flows_of_signatures(3.0 * CHIP_BYTES) };
    let flows_hold = in_a_chip < 200e3 && held > 10e6;
    let checked = context.scale > Scale::Smoke;
    Ok(Outcome::new(Agreement::from_check(
        batched >= FASTER && at_equal_memory >= FASTER && flows_hold,
        "SigHash is ahead where lookups overlap, as the paper's threads make them; one by one both wait for two lines. In the memory of \
         its words DirectHash has lists of eight flows, and falls far behind. A chip of SRAM holds fewer than \
         200,000 flows of DirectHash, all three more than ten million of SigHash",
        if flows_hold { "SigHash was not ahead by a twentieth in this run" } else { "the flows that fit are not those of the paper" },
    ))
    .value(Value::new("DirectHash in the memory of SigHash's words by SigHash, batches of 64", "×", at_equal_memory).within(Band::at_least(1.0)).checked_if(checked).timed())
    .value(Value::new("the same, one by one", "×", times.direct_in_signatures_memory[1] / times.signatures[1]).timed())
    .value(Value::new("DirectHash by SigHash, batches of 64", "×", batched).paper(10.0 / 8.3).band(1.0, 10.0).checked_if(checked).timed())
    .value(Value::new("DirectHash by SigHash, one by one", "×", times.direct[1] / times.signatures[1]).timed())
    .value(Value::new("flows of DirectHash in a chip of SRAM, 8 MiB", "", in_a_chip).paper_below(200e3).within(Band::at_most(200e3)))
    .value(Value::new("flows of DirectHash in all three", "", in_three))
    .value(Value::new("flows of SigHash in all three, 2 % of them exceptions", "", held).paper_above(10e6).within(Band::at_least(10e6)))
    .value(Value::new("these by the flows of DirectHash in a chip", "×", held / in_a_chip).paper_above(20.0).within(Band::at_least(50.0)))
    .value(Value::new("these by the flows of DirectHash in all three", "×", held / in_three).band(15.0, 20.0))
    .value(Value::new("SigHash, batches of 64", "ns", times.signatures[0]).timed())
    .value(Value::new("DirectHash, batches of 64", "ns", times.direct[0]).timed())
    .value(Value::new("DirectHash in the memory of SigHash's words, batches of 64", "ns", times.direct_in_signatures_memory[0]).timed())
    .value(Value::new("flows of DirectHash in lists", "%", times.listed_share * 100.0))
    .chart(
        Chart::bars("Lookups, state included", ["batches of 64", "one by one"], Axis::linear("ns"))
            .with(Series::bars("SigHash", times.signatures))
            .with(Series::bars("DirectHash", times.direct))
            .with(Series::bars("DirectHash, equal memory", times.direct_in_signatures_memory)),
    )
    .note("What fits: entries of 32 bytes, a bucket for each flow, and further entries for those in lists; less than 200,000 is what one chip of \
           SRAM holds, but the text does not say that it uses one. Of SigHash a word of four bytes a bucket, 1.61 flows in each; the item \
           flownp/section4_sizes fills them for real.")
    .note("The paper's abstract has over 20 times as many flows as traditional hashing, §6.3 more than ten million against less than 200,000, which \
           is 50 times. Both hold against one chip of DirectHash; in the same memory it is less than 20.")
    .note(format!(
        "{count} flows, one per bucket in either table. In the memory of SigHash's words DirectHash has a bucket of 32 bytes for eight of them."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_million_flows_of_sighash_fit_24_megabytes_and_eleven_do_not() {
        // 2 % overflow at a load of 1.611.
        let flows = flows_of_signatures(3.0 * CHIP_BYTES);
        assert!((flows / (3.0 * CHIP_BYTES / 4.0) - 1.611).abs() < 1e-3, "{flows}");
    }

    #[test]
    fn a_chip_holds_191_thousand_flows_of_directhash() {
        // At a load of 1, a share of 1/e finds its bucket occupied.
        let flows = flows_of_direct(CHIP_BYTES, (-1_f64).exp());
        assert!((191_000.0..192_000.0).contains(&flows), "{flows}");
    }
}
