//! A part of `cargo xtask cuts`: results do not depend on how threads divide captures.

use flowloom_benches::partitions::{Options, run};

/// Only the command uses larger captures.
const CAPTURE_BYTES_MAX: u64 = 4 << 20;

#[test]
fn generated_captures_give_the_same_results_in_chunks_of_any_size() {
    let checked = run(&Options { cuts: 200_000, ..Options::default() }, |_| {}).unwrap();
    assert!(checked.generated > 40 && checked.lists_moved > 0, "{checked:?}");
}

#[test]
fn real_captures_give_the_same_results_in_chunks_of_any_size() {
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        println!("skipped: FLOWLOOM_DATA is not set");
        return;
    };
    let options = Options {
        cuts: 300_000,
        captures: Some(data.into()),
        capture_bytes_max: CAPTURE_BYTES_MAX,
        ..Options::default()
    };
    let checked = run(&options, |_| {}).unwrap();
    assert!(checked.given >= checked.captures && checked.captures > 0, "{checked:?}");
}
