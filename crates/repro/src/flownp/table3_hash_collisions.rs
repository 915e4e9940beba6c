//! The uniformity with which three digests distribute flows [FLOWNP §4.1, Tab. 3].
//!
//! The table's values are (flows − occupied buckets) / buckets. The text's definition, "collisions
//! by packets", does not result in these values. The formula that does has the limit l − 1 + e⁻ˡ
//! for a perfect hash at l flows per bucket.

use flowloom::flow_key::hash::crc32::crc32;
use flowloom::flow_key::hash::fnv1a::fnv1a;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_key::hash::jenkins::one_at_a_time;
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/table3_hash_collisions",
    place: "§4.1, Tab. 3",
    claim: "collision rates of 0.3687, 0.1074, 0.0286 and 0.0075 for CRC at loads of 1 to 1/8; FNV and Jenkins alike",
    numbers: "Tab. 3 as printed",
    fidelity: &[Fidelity::Simulated],
    switches: &[DIGEST],
    run,
    ..Item::PLAIN
};

const LOADS: [f64; 4] = [1.0, 0.5, 0.25, 0.125];
const PAPER_CRC: [f64; 4] = [0.368_670, 0.107_371, 0.028_602, 0.007_501];
const PAPER_FNV: [f64; 4] = [0.367_435, 0.106_284, 0.028_365, 0.007_384];
const PAPER_JENKINS: [f64; 4] = [0.368_289, 0.106_969, 0.028_541, 0.007_563];

const DIGEST: Switch = Switch::fault("digest", "the sum of the octets in the place of each digest");

/// A name, a digest, and the paper's values for it.
type Digest = (&'static str, fn(&[u8]) -> u32, [f64; 4]);

const DIGESTS: [Digest; 3] =
    [("CRC", crc32, PAPER_CRC), ("FNV", fnv1a, PAPER_FNV), ("Jenkins", one_at_a_time, PAPER_JENKINS)];

/// Returns (flows − occupied) / buckets for a number of flows in 2ᵇⁱᵗˢ buckets.
fn collisions(digest: fn(&[u8]) -> u32, bits: u32, load: f64, seed: u64) -> f64 {
    let buckets = 1_usize << bits;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the buckets")]
    let flows = (buckets as f64 * load) as usize;
    let mut occupied = vec![0_u64; buckets.div_ceil(64)];
    let mut state = seed;
    for _ in 0..flows {
        let octets = flow_octets(&mut state);
        let bucket = digest(&octets) as usize & (buckets - 1);
        occupied[bucket / 64] |= 1 << (bucket % 64);
    }
    let occupied: u32 = occupied.iter().map(|word| word.count_ones()).sum();
    (flows as f64 - f64::from(occupied)) / buckets as f64
}

/// Returns the thirteen octets of a random flow's tuple, with addresses similar to those of an
/// enterprise.
pub(super) fn flow_octets(state: &mut u64) -> [u8; 13] {
    let (a, b) = (split_mix(state), split_mix(state));
    let mut octets = [0; 13];
    octets[..8].copy_from_slice(&a.to_be_bytes());
    (octets[0], octets[1]) = (10, (a >> 56) as u8 & 3);
    octets[8..12].copy_from_slice(&b.to_be_bytes()[..4]);
    octets[12] = if b % 8 == 0 { 17 } else { 6 };
    octets
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let bits = context.scale.pick(14, 22, 24);
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was hashed"));
    let mut farthest = 0.0_f64;
    let mut chart = Chart::bars(
        "Collisions",
        ["l = 1", "l = 1/2", "l = 1/4", "l = 1/8"],
        Axis::log("(flows − occupied) / buckets"),
    )
    .with(Series::bars("paper, CRC", PAPER_CRC));
    // A hundred collisions, as in a smoke run at the lowest load, vary by a tenth.
    let width = if context.scale > Scale::Smoke { 0.02 } else { 0.5 };
    for (name, digest, paper) in DIGESTS {
        context.check_stop()?;
        let digest = if context.is_off(&DIGEST) {
            |octets: &[u8]| octets.iter().map(|&octet| u32::from(octet)).sum()
        } else {
            digest
        };
        let found = LOADS.map(|load| collisions(digest, bits, load, context.seed));
        for (index, (&load, &ours)) in LOADS.iter().zip(&found).enumerate() {
            let perfect = load - 1.0 + (-load).exp();
            let value =
                Value::new(format!("{name}, load {load}"), "", ours).within(Band::around(perfect, width));
            farthest = farthest.max((ours / paper[index] - 1.0).abs() * 100.0);
            outcome = outcome.value(value.paper(paper[index]));
        }
        chart = chart.with(Series::bars(name, found));
    }
    outcome.verdict = Agreement::agrees(format!(
        "with (flows − occupied) / buckets all three are within {farthest:.1} % of the paper, and within chance of a perfect hash: \
         they do not differ in this. By packets, as the text defines it, a load of 1/2 would give 0.21 where the table has 0.11"
    ));
    Ok(outcome
        .chart(chart)
        .note(format!("2^{bits} buckets, random flows between a site of four /16s and anywhere."))
        .judged())
}
