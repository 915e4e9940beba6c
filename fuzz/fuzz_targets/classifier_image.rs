//! Arbitrary bytes as a classifier's image, with the correct checksum inserted: the result is an
//! error, or a classifier that is safe to use.
#![no_main]

use flowloom_classifier::image::VERSION;
use flowloom_classifier::{Classifier, KeyV4, KeyV6, Match};
use flowloom_cpu::crc32c::crc32c;
use libfuzzer_sys::fuzz_target;

fn check(read: &Classifier, words: [u64; 5]) {
    let four = [KeyV4::default(), KeyV4::new(words[0] as u32, words[1] as u32, (1, 2), 6)];
    let six = [KeyV6::default(), KeyV6::new(u128::from(words[0]) << 64, u128::from(words[2]), (1, 2), 6)];
    let mut found = [Match::NONE; 2];
    read.classify_batch(&four, &mut found);
    assert!(found.iter().all(|found| found.rule().is_none_or(|rule| rule.index() < read.rules())));
    read.classify_batch(&six, &mut found);
    assert!(found.iter().all(|found| found.rule().is_none_or(|rule| rule.index() < read.rules())));
}

fuzz_target!(|data: &[u8]| {
    let mut image = data.to_vec();
    if image.len() >= 16 {
        // Otherwise most inputs would end at the head.
        image[..8].copy_from_slice(b"FLOWCUTS");
        image[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let sum = crc32c(&image[16..]);
        image[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    if let Ok(read) = Classifier::from_image(&image) {
        let word = |at: usize| {
            data.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight")))
        };
        check(&read, [word(16), word(24), word(96), word(104), word(112)]);
        assert_eq!(Classifier::from_image(&read.to_image()).map(|again| again.rules()), Ok(read.rules()));
    }
});
