//! Arbitrary text as rules and headers: no panic, error positions inside the text, and parsed rules
//! survive writing and parsing again.
#![no_main]

use flowloom_classifier::RuleSet;
use flowloom_rules::firewall::{Assume, Packet};
use flowloom_rules::load::{
    LoadError, LoadLimits, LoadOptions, RuleFormat, classbench, ipset, iptables, load, toml, trace,
};
use libfuzzer_sys::fuzz_target;

fn check(text: &str, error: &LoadError) {
    assert!(error.line >= 1 && error.line <= text.lines().count().max(1) + 1, "{error}");
    assert!(error.column >= 1 && error.text_column >= 1);
    // An error does not show an empty line.
    assert!(error.text.is_empty() || error.to_string().lines().count() >= 3);
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let limits = LoadLimits { rules_max: 1000, bytes_max: 1 << 16 };
    let rules = match which % 11 {
        0 => classbench::parse(text, limits),
        1 => toml::parse(text, limits),
        2 => {
            let options = iptables::Options { limits, ..iptables::Options::default() };
            match iptables::load(text, &options) {
                Ok(policy) => {
                    let packet = Packet::new(flowloom_classifier::FiveTuple::v4([1; 4], [2; 4], 3, 4, 6));
                    let found = policy.first_match(&packet, Assume::NoMatch);
                    let possible = policy.outcomes(&packet);
                    assert!(possible.decided().is_none_or(|rule| Some(rule) == found));
                }
                Err(errors) => errors.errors.iter().for_each(|error| check(text, error)),
            }
            return;
        }
        form @ 4..=8 => {
            let forms = [
                RuleFormat::Nft,
                RuleFormat::Cisco,
                RuleFormat::Aws,
                RuleFormat::Toml,
                RuleFormat::Kubernetes,
            ];
            let form = forms[usize::from(form) - 4];
            let chain = (form == RuleFormat::Nft).then(|| String::from("c"));
            match load(text, form, &LoadOptions { limits, chain, ..LoadOptions::default() }) {
                // The written text is parsed again.
                Ok(policy) => {
                    if let Ok(written) = flowloom_rules::write::toml::write(&policy) {
                        let again = toml::load(&written, LoadLimits::default());
                        assert!(again.is_ok() || policy.is_empty(), "{written}");
                    }
                }
                Err(errors) => errors.errors.iter().for_each(|error| check(text, error)),
            }
            return;
        }
        3 => {
            if let Err(errors) = ipset::parse(text, limits) {
                errors.errors.iter().for_each(|error| check(text, error));
            }
            return;
        }
        _ => {
            if let Err(error) = trace::parse(text, limits) {
                check(text, &error);
            }
            return;
        }
    };
    match rules {
        Ok(rules) => {
            let written = classbench::write(&rules);
            let again = classbench::parse(&written, LoadLimits::default()).expect(
                "written text can be \
                parsed",
            );
            assert_eq!(classbench::write(&again), written);
            assert_eq!(RuleSet::new(rules).expect("few enough").len(), again.len());
        }
        Err(error) => check(text, &error),
    }
});
