//! Arbitrary bytes as a classic capture: it is read to an end, and packets lie within their blocks,
//! independent of the lengths in the records.
//!
//! The first byte selects the variant whose header precedes the rest, so that most inputs reach the
//! records; a few inputs are unmodified.
#![no_main]

mod drain;

use drain::drain;
use libfuzzer_sys::fuzz_target;

/// Magic numbers: microseconds, nanoseconds, and the modified variant with eight more bytes per
/// record.
const MAGICS: [u32; 3] = [0xA1B2_C3D4, 0xA1B2_3C4D, 0xA1B2_CD34];

/// Returns the file header of a selection; one selection in four has none.
fn header(choice: u8) -> Vec<u8> {
    let Some(&magic) = MAGICS.get(usize::from(choice % 4)) else { return Vec::new() };
    let word = |value: u32| if choice & 4 == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
    let half = |value: u16| if choice & 4 == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
    let link = u32::from(choice >> 3);
    [&word(magic)[..], &half(2), &half(4), &word(0), &word(0), &word(65_535), &word(link)].concat()
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    let mut bytes = header(choice);
    bytes.extend(rest);
    drain(bytes);
});
