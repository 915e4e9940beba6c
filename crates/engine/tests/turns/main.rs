//! The runs on threads once more, without a thread for the input stage: workers take turns at it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers that a seed has drawn")]

use flowloom_engine::InputThread;

const INPUT: InputThread = InputThread::Workers;

#[path = "../runs/common.rs"]
mod common;
#[path = "../runs/counts.rs"]
mod counts;
#[path = "../runs/ends.rs"]
mod ends;
#[path = "../runs/layouts.rs"]
mod layouts;
#[path = "../runs/load.rs"]
mod load;
#[path = "../runs/named.rs"]
mod named;
#[path = "../runs/order.rs"]
mod order;
#[path = "../runs/window.rs"]
mod window;

#[test]
fn the_input_has_no_thread_and_the_report_says_so() {
    use flowloom_engine::{Control, Mode, run};
    use flowloom_scheduler::{Modulo, WorkerCount};

    let mut policy = Modulo::new(WorkerCount::new(2).unwrap(), "dh");
    let mut source = common::Memory::of(common::mix(5_000, 50));
    let config = common::config(Mode::Pipeline { workers: 2 });
    let app = |_| common::Recorder::default();
    let report =
        run(&config, &mut source, &mut policy, |_| common::small_table(), app, &Control::default())
            .unwrap();
    assert!(report.input_by_workers && report.input_busy.is_none());
    assert!(report.is_balanced());
    assert_eq!(report.processed(), report.input.decoded);
}
