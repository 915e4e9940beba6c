//! Objects drawn from a seed, and structures built as published in a paper, are the same on every
//! machine; these figures are from the first machine that ran the test.
//!
//! They change when a profile, a generator or one of the papers' algorithms changes; this test
//! detects unintended changes.
#![expect(clippy::unwrap_used, reason = "sets are small")]

use flowloom_classifier::aggrecuts::{AggreCuts, Limits, PointerForms, Sharing, Stride};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::hicuts::{HiCuts, HiCutsConfig};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{Key, KeyV4, KeyV6, Rule, RuleSet};

/// Combines many numbers into one; no two lists that occur here have the same result.
fn folded(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0xCBF2_9CE4_8422_2325, |sum, word| {
        (sum ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29)
    })
}

/// Returns one number for a text.
fn of_text(text: &str) -> u64 {
    folded(text.bytes().map(u64::from))
}

/// Compares named figures with the recorded ones, and prints all of them if they differ.
fn compare<const N: usize>(found: &[(String, [u64; N])], recorded: &[(&str, [u64; N])]) {
    let same = found.len() == recorded.len()
        && found.iter().zip(recorded).all(|(found, recorded)| (found.0.as_str(), found.1) == *recorded);
    let shown = |figure: u64| {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| figure >> shift & 0xFFFF);
        format!("0x{a:04X}_{b:04X}_{c:04X}_{d:04X}")
    };
    let lines: Vec<String> = found
        .iter()
        .map(|(name, figures)| format!("    ({name:?}, [{}]),", figures.map(shown).join(", ")))
        .collect();
    assert!(same, "figures are now\n{}", lines.join("\n"));
}

const PROFILES: [Profile; 3] = [Profile::Acl, Profile::Firewall, Profile::PacketFilter];

#[test]
fn rules_and_headers_repeat_by_seed() {
    fn draw_packets<K: Key>(set: &RuleSet) -> u64 {
        let keys = [Traffic::HITS, Traffic::MISSES, Traffic { zipf_flows: Some(50), ..Traffic::ZIPF }]
            .map(|traffic| headers::<K>(set, traffic, 300, 5));
        folded(keys.concat().iter().flat_map(|key| (0..K::WORDS).map(|word| key.word(word))))
    }
    let found: Vec<(String, [u64; 4])> = PROFILES
        .iter()
        .map(|&profile| {
            let [four, six] = [false, true].map(|v6| synth::rules(profile, 2000, 3, v6).unwrap());
            let [text, text_six] = [&four, &six].map(|set| {
                let lines = set.rules().iter().map(|rule| format!("{rule} {}", rule.value));
                of_text(&lines.collect::<Vec<_>>().join("\n"))
            });
            let figures = [text, text_six, draw_packets::<KeyV4>(&four), draw_packets::<KeyV6>(&six)];
            (format!("{profile:?}"), figures)
        })
        .collect();
    compare(&found, &DRAWN);
}

/// Returns a set of a profile with one rule for the remaining packets, before the last two rules.
fn with_rest(profile: Profile) -> RuleSet {
    let mut rules = synth::rules(profile, 150, 3, false).unwrap().rules().to_vec();
    rules.insert(rules.len() - 2, Rule { value: 999, ..Rule::ANY });
    RuleSet::new(rules).unwrap()
}

#[test]
fn aggrecuts_builds_the_same_trees() {
    let mut found = Vec::new();
    for profile in PROFILES {
        let set = with_rest(profile);
        let keys: Vec<KeyV4> = headers(&set, Traffic::MISSES, 300, 1);
        for (stride, sharing) in [(Stride::Eight, Sharing::Siblings), (Stride::Four, Sharing::Everywhere)] {
            let tree = AggreCuts::build(&set, stride, sharing, Limits::default()).unwrap();
            for key in &keys {
                assert_eq!(tree.classify(key).0, set.first_match(key), "{key}");
            }
            let (shape, forms) = (tree.shape(), tree.pointer_forms());
            found.push((
                format!("{profile:?} {}", stride.bits()),
                [
                    folded(tree.words().iter().map(|&word| u64::from(word))),
                    folded([shape.depth.into(), shape.nodes, shape.distinct_children, shape.sub_arrays]),
                    folded([forms.plain_bytes, forms.abs_bytes, forms.habs_bytes]),
                ],
            ));
            assert_eq!(tree.bytes(), 4 * tree.words().len() + 4, "a word more is the root's");
            // 2ʷ pointers of four bytes per node; the other forms save those that are not stored
            // again.
            assert_eq!(forms.plain_bytes, shape.nodes * (4 << stride.bits()));
            assert!(forms.abs_bytes < forms.plain_bytes && forms.habs_bytes < forms.plain_bytes);
        }
    }
    compare(&found, &AGGRECUTS);
}

#[test]
fn pointer_forms_read_the_words_that_the_paper_states() {
    // [FLOWNP §3.3]: a string of 256 bits is eight words, one of 16 bits is part of one.
    assert_eq!(PointerForms::abs_words(Stride::Eight, 13), 13 * 9);
    assert_eq!(PointerForms::abs_words(Stride::Four, 26), 26 * 2);
}

#[test]
fn hicuts_builds_the_same_trees() {
    let mut found = Vec::new();
    for profile in PROFILES {
        let set = with_rest(profile);
        let keys: Vec<KeyV4> = headers(&set, Traffic::MISSES, 300, 1);
        for (binth, spfac) in [(2, 2.0), (8, 4.0)] {
            let tree = HiCuts::build(&set, HiCutsConfig::new(binth, spfac)).unwrap();
            let words: Vec<u64> = keys.iter().map(|key| u64::from(tree.classify(key).1)).collect();
            // With a few rules per leaf, this is far from the seven hundred words of comparing all
            // rules.
            assert!(words.iter().sum::<u64>() < 300 * 200, "{profile:?}");
            let figures = [u64::from(tree.worst_words()), tree.bytes() as u64, folded(words)];
            found.push((format!("{profile:?} {binth}"), figures));
        }
    }
    compare(&found, &HICUTS);
}

const DRAWN: [(&str, [u64; 4]); 3] = [
    ("Acl", [0x7071_EE90_97E8_49C3, 0xF1AD_AFD2_81AE_5C1A, 0xFB7C_8F89_7E92_4055, 0x1000_2ECB_14EB_3ECF]),
    (
        "Firewall",
        [0x7059_ED46_2226_8CAA, 0x260A_5164_BF33_854D, 0x0BDA_4341_1B78_4EEB, 0xECF3_2CF6_CC80_4597],
    ),
    (
        "PacketFilter",
        [0x84F3_5DC7_4EF9_25EC, 0x85C1_40F1_57D9_A5DD, 0xEE16_2AB6_1270_F11A, 0xC515_CB93_0F7E_CD6D],
    ),
];
const AGGRECUTS: [(&str, [u64; 3]); 6] = [
    ("Acl 8", [0xC0C5_46F2_8D2E_86C3, 0xE620_E0AE_6FB5_E5ED, 0x7F13_D4F3_9B09_B028]),
    ("Acl 4", [0x1D26_E948_9B26_4AB0, 0xDF21_F0B8_73F4_D4B0, 0xA233_6171_AF9A_9834]),
    ("Firewall 8", [0xD389_D41A_D87D_D866, 0x0715_3C18_6218_D919, 0x1952_9E10_CD09_3F2D]),
    ("Firewall 4", [0xFBAA_7F7A_AFF2_EB02, 0xA5DF_FFEF_B375_0DA9, 0x1E6E_410B_2695_43F4]),
    ("PacketFilter 8", [0x6DBE_73BA_936F_952F, 0x2B35_E639_1A04_3AD1, 0x1DDA_9E9F_F45B_8B62]),
    ("PacketFilter 4", [0x622F_3D09_0ADE_D12A, 0xD715_34BF_AFA5_AEBE, 0xE77D_1790_072E_FB6C]),
];
const HICUTS: [(&str, [u64; 3]); 6] = [
    ("Acl 2", [0x0000_0000_0000_0090, 0x0000_0000_0003_F640, 0x38D9_82E7_7FBF_CD99]),
    ("Acl 8", [0x0000_0000_0000_008A, 0x0000_0000_0000_6EB8, 0x3F97_13EB_64FD_DB99]),
    ("Firewall 2", [0x0000_0000_0000_00CE, 0x0000_0000_00AF_9FA8, 0x55AE_5C16_E940_815D]),
    ("Firewall 8", [0x0000_0000_0000_009E, 0x0000_0000_0004_2970, 0x3C98_0E77_555D_95AF]),
    ("PacketFilter 2", [0x0000_0000_0000_00B0, 0x0000_0000_0006_6040, 0xBC54_DB55_6F3D_5AB0]),
    ("PacketFilter 8", [0x0000_0000_0000_00B4, 0x0000_0000_0010_84E4, 0xD7F1_318D_8545_F0D7]),
];
