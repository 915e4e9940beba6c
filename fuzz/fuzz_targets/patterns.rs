//! Arbitrary text as a pattern file, in Flowloom's or l7-filter's format: the result is an error
//! with its line, or a scanner whose answers equal those of rescanning.
#![no_main]

use flowloom_dpi::load::{parse_l7, parse_own};
use flowloom_dpi::reference::Rescanner;
use flowloom_dpi::{Budget, Scanner, Transport};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let lines = text.lines().count();
    let parsed = if kind % 2 == 0 {
        parse_own(text)
    } else {
        parse_l7(text).map(|pattern| pattern.into_iter().collect())
    };
    let patterns = match parsed {
        Ok(patterns) => patterns,
        Err(error) => {
            assert!(error.line <= lines && !error.what.is_empty());
            return;
        }
    };
    let budget = Budget { group_bytes_max: 256 << 10, bytes_max: 1 << 20, steps_max: 1_000_000 };
    if patterns.len() > 8 || patterns.iter().any(|pattern| pattern.regex().len() > 256) {
        return;
    }
    let Ok(scanner) = Scanner::with_budget(&patterns, budget) else { return };
    let rescanner = Rescanner::new(&patterns).expect("each was an expression");
    // The text itself is a good payload, because it contains the literals.
    for transport in Transport::ALL {
        for payload in [rest, &rest[rest.len() / 2..], b"", b"\0a\r\n\xff"] {
            assert_eq!(scanner.scan_whole(transport, payload), rescanner.first(transport, payload));
        }
    }
});
