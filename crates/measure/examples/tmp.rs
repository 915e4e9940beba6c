use flowloom_flow_table::*;
use flowloom_measure::{Rounds, RatioRow, text};
use flowloom_measure::lookup::{Flows, contender::*};
use std::cell::RefCell;
fn main() {
    let rounds: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    for count in std::env::args().nth(2).unwrap().split(',') {
        let n: u32 = count.parse().unwrap();
        let flows = Flows::<2>::new(n, 1);
        let line = |c| { let mut t = LineHash::<[u64;2], [u64;4]>::try_new(&LineHashConfig::for_flows(c))?; t.prefault(); Ok(t) };
        let dh = |c| { let mut t = DHash::<[u64;2], [u64;4]>::try_new(&DHashConfig::for_flows(c))?; t.prefault(); Ok(t) };
        let c: Vec<RefCell<Box<dyn Contender>>> = vec![
            RefCell::new(Box::new(OurTable::new("linehash", &flows, line).unwrap())),
            RefCell::new(Box::new(OurTable::new("dhash", &flows, dh).unwrap())),
            RefCell::new(Box::new(StdMap::new(&flows))),
            RefCell::new(Box::new(FloorContender::new("floor", &flows, 1.0))),
            RefCell::new(Box::new(FloorContender::new("floor4/3", &flows, 4.0/3.0))),
        ];
        println!("{:?}", c[0].borrow().lookup_bytes_per_flow());
        let mut rows = vec![];
        for work in [Work::Hit{batch:32}, Work::Hit{batch:64}, Work::Hit{batch:256}, Work::Single, Work::Miss{batch:32}, Work::Miss{batch:256}, Work::Churn, Work::Build] {
            let mut r = Rounds::new(rounds);
            for c in &c {
                if c.borrow_mut().run(work, &mut Default::default()).is_none() { continue }
                if matches!(work, Work::Churn) { c.borrow_mut().run(work, &mut Default::default()); }
                let name = c.borrow().name().to_owned();
                r = r.variant_with_lap(name, move |lap| c.borrow_mut().run(work, lap).unwrap());
            }
            let o = r.run().unwrap();
            let items = work.items(n as usize);
            let floor = o.samples.iter().find(|s| s.name == "floor");
            for s in &o.samples {
                if let Some(f) = floor {
                    rows.push(RatioRow::of_times(format!("{} {}", s.name, work.name()), n.into(), "floor", &s.cpu_ns, &f.cpu_ns).with_items(items, &s.cpu_ns, &f.cpu_ns));
                } else {
                    rows.push(RatioRow::of_times(format!("linehash : {}", work.name()), n.into(), &s.name, &s.cpu_ns, &o.samples[0].cpu_ns).with_items(items, &s.cpu_ns, &o.samples[0].cpu_ns));
                }
            }
        }
        println!("{}", text::ratios(&rows));
    }
}
