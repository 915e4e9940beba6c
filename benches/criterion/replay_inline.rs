//! The engine on one thread, over generated packets.
//!
//! It is timed from the first batch to the last packet, on the thread that does the work, without
//! the construction of the table and the sorting of the results.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flowloom::apps::{Null, TcpTracker};
use flowloom::engine::Layout;
use flowloom_benches::engine::{Ran, Sizing};
use flowloom_benches::input::CaptureFile;
use flowloom_benches::looped::Looped;

const PACKETS: u64 = 50_000;
const FLOWS: u64 = 5000;

fn inline(criterion: &mut Criterion) {
    let capture = CaptureFile::generate(PACKETS, FLOWS).expect("a temporary file can be written");
    let mut source = Looped::open(capture.path(), PACKETS).expect("what was written can be read");
    let sizing = Sizing::guess(capture.path(), 1).expect("what was written can be read");
    let mut group = criterion.benchmark_group("replay_inline");
    group.throughput(Throughput::Elements(PACKETS)).sample_size(20);

    let mut app = |name: &str, run: &dyn Fn(&mut Looped) -> Result<Ran, String>| {
        let ran = run(&mut source).expect("the engine runs");
        assert_eq!((ran.packets, ran.flows), (PACKETS, FLOWS), "{name} finds every packet and flow");
        group.bench_function(name, |b| {
            b.iter_custom(|rounds| {
                let times = (0..rounds).map(|_| run(&mut source).expect("the engine runs").elapsed.cpu_ns);
                Duration::from_nanos(times.sum())
            });
        });
    };
    app("null", &|source| sizing.run(source, Layout::Inline, || Null));
    app("tcp-tracker", &|source| sizing.run(source, Layout::Inline, || TcpTracker));
    group.finish();
}

criterion_group!(benches, inline);
criterion_main!(benches);
