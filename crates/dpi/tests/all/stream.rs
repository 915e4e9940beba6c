//! Compares streams with an oracle that writes every byte into one array.

use flowloom_dpi::stream::{Piece, Segment, Sequencer, WINDOW_BYTES_MAX, Window};
use proptest::prelude::*;

/// An array of bytes that may be missing.
struct Oracle {
    bytes: Vec<Option<u8>>,
    next: usize,
    places: usize,
    out: Vec<u8>,
    gaps: Vec<(usize, usize)>,
    overlap: usize,
}

impl Oracle {
    fn deliver(&mut self) {
        while let Some(Some(byte)) = self.bytes.get(self.next) {
            self.out.push(*byte);
            self.next += 1;
        }
    }

    fn push(&mut self, offset: usize, payload: &[u8]) {
        for (at, &byte) in (offset..).zip(payload) {
            if at < self.next {
                self.overlap += 1;
                continue;
            }
            while at >= self.next + self.places {
                let held = (self.next..self.next + self.places)
                    .find(|&place| self.bytes.get(place).copied().flatten().is_some());
                let to = held.unwrap_or(at);
                self.gaps.push((self.out.len(), to - self.next));
                self.next = to;
                self.deliver();
            }
            if self.bytes.len() <= at {
                self.bytes.resize(at + 1, None);
            }
            match self.bytes[at] {
                Some(_) => self.overlap += 1,
                None => self.bytes[at] = Some(byte),
            }
            self.deliver();
        }
    }
}

fn run(start: u32, places: usize, segments: &[(usize, Vec<u8>)]) {
    let mut oracle =
        Oracle { bytes: Vec::new(), next: 0, places, out: Vec::new(), gaps: Vec::new(), overlap: 0 };
    let mut window = Window::new(places);
    assert_eq!(window.places(), places);
    let mut order = Sequencer::default();
    let (mut out, mut gaps) = (Vec::new(), Vec::new());
    order.push(Segment { sequence: start, syn: true, payload: b"" }, Some(&mut window), |_| {});
    for (offset, payload) in segments {
        oracle.push(*offset, payload);
        let sequence =
            start.wrapping_add(1).wrapping_add(u32::try_from(*offset).expect("offsets are small"));
        order.push(Segment { sequence, syn: false, payload }, Some(&mut window), |piece| match piece {
            Piece::Data(bytes) => {
                assert!(!bytes.is_empty());
                out.extend_from_slice(bytes);
            }
            Piece::Gap(bytes) => gaps.push((out.len(), usize::try_from(bytes).expect("gaps are small"))),
        });
        assert_eq!(out, oracle.out);
        assert_eq!(gaps, oracle.gaps);
        assert!(window.held() <= places);
    }
    let counts = order.counts();
    assert_eq!(counts.overlap_bytes as usize, oracle.overlap);
    assert_eq!(counts.gaps as usize, gaps.len());
    assert_eq!(counts.gap_bytes as usize, gaps.iter().map(|gap| gap.1).sum::<usize>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn stream_data_matches_the_oracle(
        start in prop_oneof![any::<u32>(), (u32::MAX - 300)..=u32::MAX],
        places in prop_oneof![Just(64_usize), Just(128), Just(512)],
        segments in prop::collection::vec((0..400_usize, prop::collection::vec(any::<u8>(), 0..160)), 0..24),
    ) {
        run(start, places, &segments);
    }

    #[test]
    fn shuffled_segments_of_a_stream_within_the_window_give_the_stream(
        data in prop::collection::vec(any::<u8>(), 1..500),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        order in any::<u64>(),
        start in any::<u32>(),
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % data.len()).collect();
        ends.push(data.len());
        ends.sort_unstable();
        let mut segments = Vec::new();
        let mut from = 0;
        for to in ends {
            segments.push((from, data[from..to].to_vec()));
            from = to;
        }
        let mut seed = order | 1;
        segments.sort_by_cached_key(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 32
        });
        let mut window = Window::new(512);
        let mut order = Sequencer::default();
        order.push(Segment { sequence: start, syn: true, payload: b"" }, Some(&mut window), |_| {});
        let mut out = Vec::new();
        for (offset, payload) in &segments {
            let sequence = start.wrapping_add(1).wrapping_add(u32::try_from(*offset).expect("offsets are small"));
            order.push(Segment { sequence, syn: false, payload }, Some(&mut window), |piece| match piece {
                Piece::Data(bytes) => out.extend_from_slice(bytes),
                Piece::Gap(_) => panic!("nothing is missing"),
            });
        }
        prop_assert_eq!(out, data);
        prop_assert_eq!(window.held(), 0);
    }
}

/// Pushes segments without a window, and returns the data and the missing bytes.
fn plain(segments: &[Segment<'_>]) -> (Vec<u8>, u64) {
    let mut order = Sequencer::default();
    let (mut out, mut missing) = (Vec::new(), 0);
    for segment in segments {
        order.push(*segment, None, |piece| match piece {
            Piece::Data(bytes) => out.extend_from_slice(bytes),
            Piece::Gap(bytes) => {
                assert!(bytes > 0);
                missing += bytes;
            }
        });
    }
    (out, missing)
}

#[test]
fn direction_begins_after_its_syn_or_at_its_first_data() {
    let data = |sequence, payload| Segment { sequence, syn: false, payload };
    let syn = |sequence, payload| Segment { sequence, syn: true, payload };
    assert_eq!(plain(&[syn(9, b""), data(10, b"ab"), data(12, b"c")]), (b"abc".to_vec(), 0));
    assert_eq!(plain(&[syn(9, b"ab"), data(12, b"c")]), (b"abc".to_vec(), 0), "data with the SYN");
    assert_eq!(plain(&[data(77, b"ab"), data(79, b"c")]), (b"abc".to_vec(), 0), "its SYN was not seen");
    assert_eq!(plain(&[syn(9, b""), syn(500, b""), data(501, b"a")]), (b"a".to_vec(), 0), "begun anew");
    assert_eq!(plain(&[syn(9, b""), data(10, b"a"), syn(9, b""), data(11, b"b")]), (b"ab".to_vec(), 0));
}

#[test]
fn without_a_window_gaps_are_skipped() {
    let data = |sequence, payload| Segment { sequence, syn: false, payload };
    assert_eq!(plain(&[data(1, b"a"), data(5, b"b"), data(2, b"late")]), (b"ab".to_vec(), 3));
}

#[test]
fn a_wrap_of_the_sequence_number_is_no_gap() {
    let data = |sequence, payload| Segment { sequence, syn: false, payload };
    assert_eq!(plain(&[data(u32::MAX, b"ab"), data(1, b"c"), data(0, b"xc")]), (b"abc".to_vec(), 0));
}

#[test]
fn repeated_syn_before_any_data_discards_held_segments() {
    let mut window = Window::new(64);
    let mut order = Sequencer::default();
    let mut out = Vec::new();
    let mut push = |order: &mut Sequencer, window: &mut Window, sequence, syn, payload: &[u8]| {
        order.push(Segment { sequence, syn, payload }, Some(window), |piece| match piece {
            Piece::Data(bytes) => out.extend_from_slice(bytes),
            Piece::Gap(_) => panic!("nothing is missing"),
        });
        out.len()
    };
    push(&mut order, &mut window, 9, true, b"");
    push(&mut order, &mut window, 12, false, b"old");
    // A second copy changes nothing.
    push(&mut order, &mut window, 9, true, b"");
    assert_eq!(window.held(), 3);
    push(&mut order, &mut window, 500, true, b"");
    assert_eq!((window.held(), order.next_sequence()), (0, Some(501)));
    // Early data is buffered again, and no old data appears in between.
    push(&mut order, &mut window, 505, false, b"e");
    push(&mut order, &mut window, 501, false, b"ab");
    assert_eq!(push(&mut order, &mut window, 503, false, b"cd"), 5);
    assert_eq!((out, window.held()), (b"abcde".to_vec(), 0));
}

#[test]
fn next_sequence_number_is_known() {
    let segment = |sequence, syn| Segment { sequence, syn, payload: b"ab" };
    let mut order = Sequencer::default();
    assert_eq!(order.next_sequence(), None);
    assert!(order.is_next(&segment(77, false)), "whatever comes first is next");
    order.push(Segment { sequence: u32::MAX - 1, syn: true, payload: b"" }, None, |_| {});
    assert_eq!(order.next_sequence(), Some(u32::MAX));
    order.push(segment(u32::MAX, false), None, |_| {});
    assert_eq!(order.next_sequence(), Some(1));
    assert!(order.is_next(&segment(1, false)) && order.is_next(&segment(u32::MAX, false)));
    assert!(!order.is_next(&segment(2, false)));
    assert!(order.is_next(&segment(500, true)), "it may begin anew");
}

#[test]
fn jump_over_a_whole_window_costs_constant_time() {
    // One step per place would take 10^11 steps.
    let mut window = Window::new(WINDOW_BYTES_MAX);
    let mut order = Sequencer::default();
    let (mut bytes, mut missing) = (0, 0);
    for jump in 0..6000_u32 {
        let sequence = jump.wrapping_mul(1 << 25);
        order.push(
            Segment { sequence, syn: false, payload: b"x" },
            Some(&mut window),
            |piece| match piece {
                Piece::Data(data) => bytes += data.len(),
                Piece::Gap(gap) => missing += gap,
            },
        );
    }
    assert_eq!((bytes, missing, window.held()), (6000, 5999 * ((1 << 25) - 1), 0));
}
