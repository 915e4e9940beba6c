//! Treats arbitrary bytes as a trace of accesses, and runs the trace through caches: fast and
//! simple implementations must agree.
//!
//! The first byte chooses the format, the second the policy.
#![no_main]

use flowloom_tcb_cache::reference::build;
use flowloom_tcb_cache::trace::{Format, ReadError, ReadLimits, Skip, read_accesses};
use flowloom_tcb_cache::{CacheSpec, Geometry, Policy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [choice, policy, rest @ ..] = input else { return };
    let format = [Format::Csv, Format::OracleGeneral, Format::Vscsi][usize::from(choice % 3)];
    let limits = ReadLimits { records_max: 2000 };
    let (accesses, summary) = match read_accesses(rest, format, limits) {
        Ok((accesses, summary)) => (accesses, summary),
        Err(ReadError::Nothing { summary }) => (Vec::new(), summary),
        Err(error) => panic!("bytes in memory do not fail: {error}"),
    };
    assert_eq!(accesses.len() as u64, summary.used);
    let skipped: u64 = Skip::ALL.into_iter().map(|reason| summary.skipped(reason)).sum();
    assert_eq!(summary.records, summary.used + skipped);
    assert!(accesses.is_sorted_by_key(|access| access.time_ms()));
    let policy = Policy::ALL[usize::from(*policy) % Policy::ALL.len()];
    if policy.needs_future() {
        return;
    }
    let geometry = Geometry::new(64 * 16, 64, 2, 2).expect("a valid shape");
    let spec =
        CacheSpec { geometry, drops_closed: choice & 0x80 != 0, ..CacheSpec::PAPER.with_policy(policy) };
    let (mut quick, mut plain) = (spec.build().expect("valid"), build(&spec).expect("valid"));
    quick.run(&accesses);
    plain.run(&accesses);
    assert_eq!(quick.counts(), plain.counts(), "{policy}");
});
