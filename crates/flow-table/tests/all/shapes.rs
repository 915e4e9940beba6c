//! Values and keys of any shape, and tables of one flow.

use flowloom_flow_table::TableHash;
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::{
    BuildError, DHash, FlowTable, FullReason, Growing, LineHash, Refused, SigHash, TableKey, TableOptions,
    Tick, TimeoutClass, Timeouts,
};

const CLASS: TimeoutClass = TimeoutClass(0);

/// Inserts flows up to the capacity, finds each, and removes them in both ways.
fn goes_round<K: TableKey, V: PartialEq + Clone + std::fmt::Debug>(
    name: &str,
    table: &mut impl FlowTable<K, V>,
    key: impl Fn(u64) -> K,
    value: &V,
) {
    let flows = u64::from(table.capacity());
    let hash = |number: u64| (number + 1) << 32 | number;
    for round in [0, 1000, 2000] {
        let mut ids = Vec::new();
        for number in 0..flows {
            let id = table
                .insert(key(number), TableHash::from_mixed(hash(number)), value.clone(), CLASS, Tick(round))
                .expect(name);
            assert_eq!(
                table.lookup_value(&key(number), TableHash::from_mixed(hash(number))),
                Some((id, value)),
                "{name}"
            );
            assert_eq!(
                std::ptr::from_ref(table.get(id).expect(name)).addr() % align_of::<V>(),
                0,
                "{name}"
            );
            ids.push(id);
        }
        let refused =
            table.insert(key(flows), TableHash::from_mixed(hash(flows)), value.clone(), CLASS, Tick(round));
        assert_eq!(refused, Err(Refused { value: value.clone(), reason: FullReason::Capacity }), "{name}");
        for (number, &id) in (0..).zip(&ids) {
            assert_eq!(table.get(id), Some(value), "{name}");
            if number % 2 == 0 {
                assert_eq!(table.remove(id), Some((key(number), value.clone())), "{name}");
            }
        }
        let aged =
            table.expire(Tick(round + 200), 1000, &mut |_, _, old| assert_eq!(old, *value, "{name}"));
        assert_eq!((u64::from(aged.removed), table.len()), (flows / 2, 0), "{name}");
        assert!(ids.iter().all(|&id| table.get(id).is_none()), "{name}");
    }
}

/// Runs the test with every table.
fn check_shape<K: TableKey, V: PartialEq + Clone + std::fmt::Debug>(
    key: impl Fn(u64) -> K + Copy,
    value: &V,
) {
    let timeouts = Timeouts::NEVER.with(CLASS, 100);
    for flows in [1, 5] {
        let config = TableOptions { timeouts, ..TableOptions::for_flows(flows) };
        let mut table = LineHash::try_new(&config).expect("a small table");
        goes_round("LineHash", &mut table, key, value);
        let mut table =
            LineHash::try_new(&TableOptions { prefault: true, ..config }).expect("a small table");
        goes_round("LineHash, resident", &mut table, key, value);
        goes_round("DHash", &mut DHash::try_new(&config).expect("a small table"), key, value);
        goes_round("SigHash", &mut SigHash::try_new(&config).expect("a small table"), key, value);
        goes_round("Chained", &mut Chained::try_new(&config).expect("a small table"), key, value);
        goes_round("DirectTable", &mut DirectTable::try_new(&config).expect("a small table"), key, value);
        let mut table = Growing::try_new(1, config, LineHash::try_new).expect("a small table");
        goes_round("Growing", &mut table, key, value);
    }
}

/// Begins on a page, and may be empty.
#[derive(Clone, PartialEq, Debug)]
#[repr(align(4096))]
struct Page<T>(T);

#[test]
fn values_may_be_zero_sized_or_larger_than_a_page() {
    check_shape(|number| number, &());
    check_shape(|number| number, &Page(()));
    check_shape(|number| number, &Page(7_u8));
    check_shape(|number| number, &[9_u8; 61]);
    check_shape(|number| number, &[9_u64; 700]);
}

#[test]
fn keys_may_be_zero_sized_or_large() {
    check_shape(|number| [number; 40], &"value".to_owned());
    let mut table = LineHash::<[u8; 0], u64>::try_new(&TableOptions::for_flows(1)).unwrap();
    let id = table.insert([], TableHash::from_mixed(5), 50, CLASS, Tick(0)).unwrap();
    assert_eq!(
        (table.lookup(&[], TableHash::from_mixed(5)), table.remove_key(&[], TableHash::from_mixed(5))),
        (Some(id), Some(50))
    );
    assert_eq!(table.lookup(&[], TableHash::from_mixed(5)), None);
}

#[test]
fn size_that_overflows_exceeds_any_limit() {
    struct Vast {
        _bytes: [u8; 1 << if usize::BITS < 64 { 30 } else { 40 }],
    }
    /// Whether a table of these states is refused before anything is reserved.
    macro_rules! is_too_large {
        ($table:ident, $config:ident) => {{
            let config = $config { memory_limit_bytes: 1 << 50, ..$config::for_flows(1 << 25) };
            matches!($table::<u64, Vast>::try_new(&config), Err(BuildError::TooLarge { .. }))
        }};
    }
    assert!(is_too_large!(LineHash, TableOptions));
    assert!(is_too_large!(DHash, TableOptions));
    assert!(is_too_large!(SigHash, TableOptions));
    assert!(is_too_large!(Chained, TableOptions));
    assert!(is_too_large!(DirectTable, TableOptions));
}
