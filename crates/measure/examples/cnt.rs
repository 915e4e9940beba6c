//! x
use flowloom_flow_table::*;
use flowloom_measure::lookup::{Flows, State, floor::Floor};
fn go<T: FlowTable<[u64; 2], State>>(flows: &Flows<2>, mut t: T, w: &str, reps: u32) -> u64 {
    flows.fill(&mut t).unwrap();
    let mut s = 0;
    for _ in 0..reps {
        s += match w {
            "hit" => flows.hits(&t, 256),
            "hit32" => flows.hits(&t, 32),
            "miss" => flows.misses(&t, 256),
            _ => flows.single_hits(&t),
        };
    }
    s
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u32 = a[3].parse().unwrap();
    let reps: u32 = a[4].parse().unwrap();
    let flows = Flows::<2>::new(n, 1);
    let s = match a[1].as_str() {
        "line" => go(
            &flows,
            LineHash::<[u64; 2], [u64; 4]>::try_new(&LineHashConfig::for_flows(n)).unwrap(),
            &a[2],
            reps,
        ),
        "dhash" => go(
            &flows,
            DHash::<[u64; 2], [u64; 4]>::try_new(&DHashConfig::for_flows(n)).unwrap(),
            &a[2],
            reps,
        ),
        _ => {
            let f = Floor::new(&flows, 1.0);
            let mut s = 0;
            for _ in 0..reps {
                s += if a[2] == "hit" { f.two_lines(&flows) } else { f.one_line(&flows) }
            }
            s
        }
    };
    println!("{s}");
}
