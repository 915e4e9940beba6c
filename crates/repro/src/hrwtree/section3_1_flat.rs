//! Flat highest random weight: its uniformity, and the memory of its table [HRWTREE §3.1].

use flowloom::flow_key::hash::fold::split_mix;
use flowloom::scheduler::{ByDigest, HrwFlat, WorkerCount, WorkerId};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::shares::Shares;
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/section3_1_flat",
    place: "§3.1",
    claim: "the variation of the threads' shares is zero for many connections; a table of weights for 10,000 takes 2.5 MB",
    numbers: "text of §3.1",
    fidelity: &[Fidelity::Simulated, Fidelity::Arithmetic],
    switches: &[CONSTANT],
    draws: 10,
    run,
    ..Item::PLAIN
};
use crate::variation::Switch;

const CONSTANT: Switch = Switch::fault("constant", "the weights have 12,346 where the formula has 12,345");

const THREADS: u16 = 64;

/// The published formula, (A·((A·i + B) xor D) + B) mod 2³¹, implemented independently of the
/// policy; B is a parameter so that an error can be introduced.
struct Formula {
    b: u128,
}

impl ByDigest for Formula {
    fn worker(&self, digest: u32) -> WorkerId {
        let (a, m) = (1_103_515_245_u128, 1_u128 << 31);
        let weight =
            |i: u16| (a * (((a * u128::from(i) + self.b) % m) ^ u128::from(digest >> 1)) + self.b) % m;
        WorkerId::from((0..THREADS).rev().max_by_key(|&i| weight(i)).unwrap_or(0))
    }

    fn cached_name(&self) -> &'static str {
        "formula"
    }
}

/// Returns the percentage of flows that two policies assign to the same thread.
fn alike(a: &dyn ByDigest, b: &dyn ByDigest, seed: u64) -> f64 {
    let mut state = seed;
    let flows = 2000;
    let same = (0..flows).filter(|_| {
        let digest = (split_mix(&mut state) >> 32) as u32;
        a.worker(digest) == b.worker(digest)
    });
    same.count() as f64 * 100.0 / f64::from(flows)
}

/// Returns the verdict on the shares: whether they deviate by the noise of drawing alone.
fn verdict(shares: &Shares, as_published: f64) -> Agreement {
    let lasting = shares.beyond_noise() * 100.0;
    if as_published < 99.99 {
        return Agreement::differs(format!(
            "the weights choose the published formula's thread for {as_published:.0} % of the flows"
        ));
    }
    Agreement::from_check(
        !shares.is_uneven(),
        "the shares of threads vary as much as those of random assignment, which vanishes with many flows",
        format!(
            "even to the eye, but the limit of the variation is {lasting:.2} % and not zero: that much is no noise of drawing, and \
             stays however many flows there are"
        ),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let threads = WorkerCount::new(64).map_err(ItemError::during("counting threads"))?;
    // With two million flows the noise of drawing is below what the weights deviate by.
    let keys = context.scale.pick(2_000_000, 4_200_000, 16_800_000);
    let flat = HrwFlat::new(threads);
    let wrong = Formula { b: 12_346 };
    let policy: &dyn ByDigest = if context.is_off(&CONSTANT) { &wrong } else { &flat };
    let as_published = alike(policy, &Formula { b: 12_345 }, context.seed);
    let shares = Shares::by_digest(policy, 64, keys, context.seed);
    let mean = keys as f64 / 64.0;
    let points =
        shares.counts.iter().enumerate().map(|(at, &count)| (at as f64, count as f64 / mean)).collect();
    let table_mb = 10_000.0 * 64.0 * 4.0 / 1e6;
    // Noise decreases with the number of flows, but this deviation does not, so their ratio
    // contains the same information.
    let lasting = shares.beyond_noise() * 100.0;
    Ok(Outcome::new(verdict(&shares, as_published))
    .value(Value::new("deviation that is not noise", "%", lasting).paper(0.0).band(0.0, 1.5))
    .value(Value::new("deviation over the noise of drawing", "", shares.over_noise()))
    .value(Value::new("flows on the thread that the formula chooses", "%", as_published).paper(100.0).band(100.0, 100.0))
    .value(Value::new("busiest thread's share", "", shares.busiest()).paper(1.0).band(1.0, 1.12))
    .value(Value::new("threads without flows", "", shares.idle() as f64).band(0.0, 0.0))
    .value(Value::new("table of weights", "MB", table_mb).paper(2.5).band(2.56, 2.56))
    .value(Value::new("our memory of decisions, 65,536 flows", "MB", 65_536.0 * 8.0 / 1e6).band(0.52, 0.53))
    .chart(
        Chart::new("Flows of each thread, over an even share", Axis::linear("thread"), Axis::linear("shares"))
            .with(Series::points("flat HRW", points)),
    )
    .note("The deviation over the noise grows with the root of the number of flows; what is no noise does not.")
    .note("The table is not needed: the chosen thread, in eight bytes per flow, is all that came of it.")
    .note(format!("{keys} flows over 64 threads, seed {}", context.seed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_agree_only_up_to_sampling_noise() {
        let shares = |off: u64| Shares {
            counts: (0..64)
                .map(|thread| 10_000 + (thread * 37 % 64) * 5 - 157 + off * (thread % 2))
                .collect(),
        };
        assert_eq!(verdict(&shares(0), 100.0).word(), "agrees");
        let uneven = verdict(&shares(400), 100.0);
        assert_eq!(uneven.word(), "differs", "{}", uneven.text());
        assert!(uneven.text().contains("not zero"));
        assert_eq!(verdict(&shares(0), 97.0).word(), "differs", "another formula");
    }
}
