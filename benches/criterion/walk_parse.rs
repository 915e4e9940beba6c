//! Time from a mapped capture to hashes, step by step.
//!
//! About 50,000 generated packets take 20 MB, more than any second-level cache, so the time
//! includes the prefetching of the walk.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flowloom::flow_key::FlowHasher;
use flowloom_benches::input::CaptureFile;
use flowloom_benches::looped::Looped;
use flowloom_benches::walk::{Tally, walk, walk_parse, walk_parse_hash};

const PACKETS: u64 = 50_000;
const FLOWS: u64 = 5000;

fn steps(criterion: &mut Criterion) {
    let capture = CaptureFile::generate(PACKETS, FLOWS).expect("a temporary file can be written");
    let mut source = Looped::open(capture.path(), PACKETS).expect("what was written can be read");
    let hasher = FlowHasher::with_seed(1);
    let mut group = criterion.benchmark_group("walk_parse");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);

    let mut step = |name: &str, run: &mut dyn FnMut(&mut Looped) -> Tally| {
        source.rewind();
        let tally = run(&mut source);
        assert_eq!(tally.packets, PACKETS, "{name} finds every packet");
        // A few frames of the mixture are not IP.
        assert!(
            name == "walk" || (PACKETS * 9 / 10..PACKETS).contains(&tally.decoded),
            "{name}: {tally:?}"
        );
        group.bench_function(name, |b| {
            b.iter(|| {
                source.rewind();
                run(&mut source)
            });
        });
    };
    step("walk", &mut |source| walk(source).expect("the mapping stays"));
    step("walk+parse", &mut |source| walk_parse(source).expect("the mapping stays"));
    step("walk+parse+hash", &mut |source| walk_parse_hash(source, &hasher).expect("the mapping stays"));
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
