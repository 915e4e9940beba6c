//! Writes and reads classifiers, and reads hostile bytes: the result is an error, or a classifier
//! that is safe to use.
#![expect(clippy::unwrap_used, reason = "a failure to build or read fails the test")]

use std::sync::OnceLock;

use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{Classifier, ClassifierBuilder, ImageError, KeyV4, KeyV6, Match, RuleSet};
use flowloom_cpu::crc32c::crc32c;
use proptest::prelude::*;

fn classifier(v6: bool) -> (RuleSet, Classifier) {
    let set = synth::rules(Profile::PacketFilter, 400, 3, v6).unwrap();
    let classifier = ClassifierBuilder::new().build(&set).unwrap();
    (set, classifier)
}

/// Returns a set and its image, built once.
fn once() -> &'static (RuleSet, Vec<u8>) {
    static BUILT: OnceLock<(RuleSet, Vec<u8>)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let (set, classifier) = classifier(false);
        (set, classifier.to_image())
    })
}

/// Inserts the correct checksum into altered bytes.
fn sealed(mut image: Vec<u8>) -> Vec<u8> {
    if image.len() >= 16 {
        let sum = crc32c(&image[16..]);
        image[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    image
}

#[test]
fn what_is_written_is_read_and_answers_alike() {
    for v6 in [false, true] {
        let (set, built) = classifier(v6);
        let image = built.to_image();
        let read = Classifier::from_image(&image).unwrap();
        assert_eq!(read.to_image(), image);
        assert_eq!(read.rules(), 400);
        let v4: Vec<KeyV4> = headers(&set, Traffic::MISSES, 1000, 5);
        let six: Vec<KeyV6> = headers(&set, Traffic::MISSES, 1000, 5);
        let mut found = vec![Match::NONE; 1000];
        read.classify_batch(&v4, &mut found);
        assert!(v4.iter().zip(&found).all(|(key, found)| set.first_match(key) == *found));
        read.classify_batch(&six, &mut found);
        assert!(six.iter().zip(&found).all(|(key, found)| set.first_match(key) == *found));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let image = classifier(false).1.to_image();
    assert_eq!(Classifier::from_image(b"").unwrap_err(), ImageError::NotAnImage);
    assert!(matches!(Classifier::from_image(&image[..50]), Err(ImageError::Length { .. })));
    assert!(matches!(Classifier::from_image(&image[..image.len() - 1]), Err(ImageError::Length { .. })));
    let mut other = image.clone();
    other[8] = 1;
    assert_eq!(Classifier::from_image(&other).unwrap_err(), ImageError::Version { found: 1 });
    let mut other = image.clone();
    *other.last_mut().unwrap() ^= 1;
    assert_eq!(Classifier::from_image(&other).unwrap_err(), ImageError::CheckSum);
    // Fewer rules than the blocks refer to.
    let mut other = image.clone();
    other[80..88].copy_from_slice(&3_u64.to_le_bytes());
    assert!(matches!(Classifier::from_image(&sealed(other)), Err(ImageError::Rule { .. })));
    // More than indices can distinguish, because addresses have 32 bits.
    let mut other = image;
    other[80..88].copy_from_slice(&(u64::from(u32::MAX) + 4).to_le_bytes());
    let read = Classifier::from_image(&sealed(other));
    assert_eq!(matches!(read, Err(ImageError::Length { .. })), usize::BITS == 32);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hostile_bytes_are_an_error_or_a_classifier_that_is_safe(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near_head: bool,
    ) {
        let (set, image) = once();
        let mut image = image.clone();
        let reach = if near_head { 512.min(image.len()) } else { image.len() };
        for (index, byte) in changes {
            image[index.index(reach)] = byte;
        }
        if let Ok(read) = Classifier::from_image(&sealed(image)) {
            let keys: Vec<KeyV4> = headers(set, Traffic::MISSES, 64, 5);
            let mut found = vec![Match::NONE; 64];
            read.classify_batch(&keys, &mut found);
            prop_assert!(found.iter().all(|found| found.rule().is_none_or(|rule| rule.index() < read.rules())));
        }
    }
}
