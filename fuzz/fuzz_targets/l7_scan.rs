//! Arbitrary payload in arbitrary pieces: a single scan, piece by piece, gives the same label as a
//! search of the whole payload after every piece.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use flowloom_dpi::reference::Rescanner;
use flowloom_dpi::{Outcome, Pattern, ScanState, Scanner, Transport, builtin};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    udp: bool,
    floating: bool,
    pieces: Vec<Vec<u8>>,
}

type Both = (Scanner, Rescanner);

fn both(patterns: &[Pattern]) -> Both {
    (
        Scanner::new(patterns).expect("they are known to build"),
        Rescanner::new(patterns).expect("they build"),
    )
}

static BUILTIN: LazyLock<Both> = LazyLock::new(|| both(&builtin()));
/// Patterns that may match anywhere, with ends, word boundaries and lines.
static FLOATING: LazyLock<Both> = LazyLock::new(|| {
    both(&[
        Pattern::new("a", r"HTTP/1\.[01] [1-5]"),
        Pattern::new("b", r"(?i:upgrade: websocket)"),
        Pattern::new("c", r"\babc\b"),
        Pattern::new("d", r"(?m:^line$)"),
        Pattern::new("e", r"[^x]{3}y$"),
        Pattern::new("f", r"needle.{2,5}needle"),
    ])
});

fuzz_target!(|input: Input| {
    let (scanner, rescanner) = if input.floating { &*FLOATING } else { &*BUILTIN };
    let transport = if input.udp { Transport::Udp } else { Transport::Tcp };
    let mut state = ScanState::default();
    let (mut all, mut closed) = (Vec::new(), false);
    for piece in input.pieces.iter().take(16) {
        all.extend_from_slice(piece);
        if input.udp {
            assert_eq!(scanner.scan_whole(transport, piece), rescanner.first(transport, piece));
            continue;
        }
        let outcome = scanner.scan(transport, &mut state, piece);
        let expected = rescanner.first(transport, &all);
        match outcome {
            Outcome::Matched(found) => {
                assert_eq!(Some(found), expected);
                return;
            }
            Outcome::Open => assert!(!closed),
            Outcome::Closed => closed = true,
        }
        assert_eq!(None, expected);
    }
});
