//! Arbitrary segments in any order: the stream equals an array in which the first copy of each byte
//! is kept.
#![no_main]

use arbitrary::Arbitrary;
use flowloom_dpi::stream::{Piece, Segment, Sequencer, Window};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    start: u32,
    wide: bool,
    /// Offset from the beginning of the previous one, whether it is a SYN, and its data.
    segments: Vec<(i16, bool, Vec<u8>)>,
    /// Arbitrary sequence numbers.
    wild: Vec<(u32, bool, Vec<u8>)>,
}

fuzz_target!(|input: Input| {
    let places = if input.wide { 4096 } else { 64 };
    let mut window = Window::new(places);
    let mut order = Sequencer::default();
    let mut array: Vec<Option<u8>> = Vec::new();
    let (mut next, mut out, mut expected) = (0_usize, Vec::new(), Vec::new());
    order.push(Segment { sequence: input.start, syn: true, payload: b"" }, Some(&mut window), |_| {});
    let mut offset = 0_usize;
    for (step, _, payload) in input.segments.iter().take(64) {
        offset = offset.saturating_add_signed(isize::from(*step % 600)).min(1 << 20);
        let sequence = input.start.wrapping_add(1).wrapping_add(offset as u32);
        order.push(Segment { sequence, syn: false, payload }, Some(&mut window), |piece| match piece {
            Piece::Data(bytes) => out.extend(bytes.iter().map(|&byte| Some(byte))),
            Piece::Gap(bytes) => out.extend(std::iter::repeat_n(None, bytes as usize)),
        });
        for (at, &byte) in (offset..).zip(payload) {
            while at >= next + places {
                let to = (next..next + places)
                    .find(|&place| array.get(place).copied().flatten().is_some())
                    .unwrap_or(at);
                expected.extend(std::iter::repeat_n(None, to - next));
                next = to;
                while let Some(Some(byte)) = array.get(next) {
                    expected.push(Some(*byte));
                    next += 1;
                }
            }
            if at >= next {
                if array.len() <= at {
                    array.resize(at + 1, None);
                }
                array[at].get_or_insert(byte);
            }
            while let Some(Some(byte)) = array.get(next) {
                expected.push(Some(*byte));
                next += 1;
            }
        }
        assert_eq!(out, expected);
        assert_eq!(order.next_sequence(), Some(input.start.wrapping_add(1).wrapping_add(next as u32)));
    }
    // Arbitrary sequence numbers, with and without a window: there is no reference, but no panic
    // may occur and the window must keep its size.
    for (i, (sequence, syn, payload)) in input.wild.iter().take(64).enumerate() {
        let window = (i % 3 > 0).then_some(&mut window);
        let segment = Segment { sequence: *sequence, syn: *syn, payload };
        let mut bytes = 0;
        order.push(segment, window, |piece| {
            if let Piece::Data(data) = piece {
                bytes += data.len();
            }
        });
        assert!(bytes <= payload.len() + places);
    }
    assert!(window.held() <= places);
});
