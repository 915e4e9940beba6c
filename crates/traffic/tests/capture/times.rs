//! Times that a capture can state and a record cannot have.

use super::*;

#[test]
fn time_outside_of_the_range_is_its_nearest_end_and_counted() {
    let offset = |seconds: i64| [&[14, 0, 8, 0][..], &seconds.to_le_bytes(), &[0; 4]].concat();
    // The last microsecond that a time in nanoseconds has, and the next one.
    let last = u64::MAX / 1000;
    let cases: [(i64, &[u64], &[u64], u64); 6] = [
        (0, &[0, 5, last], &[0, 5000, last * 1000], 0),
        (0, &[last, last + 1, 1 << 62], &[last * 1000, u64::MAX, u64::MAX], 2),
        (-1000, &[999_999_999, 1_000_000_000, 1_500_000_000], &[0, 0, 500_000_000_000], 1),
        (i64::MIN, &[7], &[0], 1),
        (i64::MAX, &[7], &[u64::MAX], 1),
        (1000, &[7], &[1_000_000_007_000], 0),
    ];
    for (seconds, units, times_ns, clamped) in cases {
        let mut file = section(false);
        file.extend(interface(1, &if seconds == 0 { Vec::new() } else { offset(seconds) }, false));
        for units in units {
            file.extend(enhanced(0, *units, &[1, 2, 3, 4], 4, 4, false));
        }
        let mut capture = open_bytes(file.clone()).unwrap();
        let seen: Vec<u64> = drain(&mut capture).unwrap().iter().map(|packet| packet.time_ns).collect();
        assert_eq!((&*seen, capture.clamped_times()), (times_ns, clamped), "{seconds}");
        let notices = notices_of("x.pcapng", &file);
        assert_eq!(notices.len(), usize::from(clamped > 0), "{notices:?}");
        for notice in notices {
            assert!(matches!(notice, Notice::ClampedTimes { packets, .. } if packets == clamped));
            assert!(!notice.is_partial_input(), "all packets are used");
        }
    }
}
