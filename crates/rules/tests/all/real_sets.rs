//! Real rule sets: every classifier returns the first match. Needs `FLOWLOOM_DATA`.
#![expect(clippy::unwrap_used, reason = "a failure to read or build fails the test")]

use std::path::PathBuf;

use flowloom_classifier::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::hicuts::{HiCuts, HiCutsConfig};
use flowloom_classifier::{Algorithm, ClassifierBuilder, KeyV4, Match, RuleSet};
use flowloom_rules::load::{LoadLimits, classbench, trace};

/// Returns the directory of rule sets, or prints why the test is skipped.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("FLOWLOOM_DATA").map(|data| PathBuf::from(data).join("rules"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: FLOWLOOM_DATA names no folder with rules");
        return None;
    };
    Some(folder)
}

fn sets(folder: &PathBuf) -> Vec<(String, RuleSet)> {
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with("_trace") || name.starts_with('.') {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let rules = classbench::parse(&text, LoadLimits::default())
            .unwrap_or_else(|error| panic!("{name}:{error}"));
        sets.push((name, RuleSet::new(rules).unwrap()));
    }
    assert!(!sets.is_empty(), "the folder has rule sets");
    sets
}

#[test]
fn all_sets_are_read_and_classified() {
    let Some(folder) = folder() else { return };
    for (name, rules) in sets(&folder) {
        let keys: Vec<KeyV4> = headers(&rules, Traffic::MISSES, 300, 7);
        let expected: Vec<Match> = keys.iter().map(|key| rules.first_match(key)).collect();
        for algorithm in [Algorithm::Auto, Algorithm::Linear] {
            let classifier = ClassifierBuilder::new().algorithm(algorithm).build(&rules).unwrap();
            let mut found = vec![Match::NONE; keys.len()];
            classifier.classify_batch(&keys, &mut found);
            assert_eq!(found, expected, "{name} {algorithm:?}");
            let stats = classifier.stats().v4;
            assert!(stats.bytes() <= 5_000_000, "{name} takes {} bytes", stats.bytes());
        }
    }
}

#[test]
fn trees_of_the_papers_answer_within_their_worst_case() {
    let Some(folder) = folder() else { return };
    let mut built = 0;
    for (name, rules) in sets(&folder).into_iter().filter(|(_, rules)| rules.len() < 2000) {
        let keys: Vec<KeyV4> = headers(&rules, Traffic::MISSES, 500, 7);
        let expected: Vec<Match> = keys.iter().map(|key| rules.first_match(key)).collect();
        for stride in [Stride::Eight, Stride::Four] {
            let tree = AggreCuts::build(&rules, stride, Sharing::Everywhere, Limits::default()).unwrap();
            assert!(tree.shape().depth <= stride.worst_words());
            let mut found = vec![Match::NONE; keys.len()];
            tree.classify_batch(&keys, &mut found);
            assert_eq!(found, expected, "{name} {stride:?}");
        }
        // One of the sets takes HiCuts twenty megabytes; the others take less than one.
        let config = HiCutsConfig { memory_bytes_max: 2 << 20, ..HiCutsConfig::new(16, 2.0) };
        let Ok(tree) = HiCuts::build(&rules, config) else { continue };
        built += 1;
        for (key, expected) in keys.iter().zip(&expected) {
            assert_eq!(tree.classify(key).0, *expected, "{name}");
        }
    }
    assert!(built >= 3, "HiCuts fits most sets, not {built}");
}

#[test]
fn header_traces_are_read_completely() {
    let Some(folder) = folder() else { return };
    let mut read = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with("_trace") {
            let text = std::fs::read_to_string(&path).unwrap();
            let keys = trace::parse(&text, LoadLimits::default()).unwrap();
            assert_eq!(keys.len(), text.lines().count(), "{}", path.display());
            read += 1;
        }
    }
    assert!(read > 0, "no traces in {}", folder.display());
}
