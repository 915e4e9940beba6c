//! Text within a limit is read, and one more item is not.

use flowloom_rules::load::{LoadError, LoadLimits, classbench, iptables, toml, trace};

type Read = fn(&str, LoadLimits) -> Result<usize, LoadError>;

/// Each form with a text of three rules or headers, and whether they are counted.
const FORMS: [(&str, Read, &str, bool); 4] = [
    (
        "ClassBench",
        |text, limits| classbench::parse(text, limits).map(|rules| rules.len()),
        "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\n\
         @11.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\n\
         @12.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\n",
        true,
    ),
    (
        "iptables",
        |text, limits| {
            let options = iptables::Options { limits, ..iptables::Options::default() };
            match iptables::load(text, &options) {
                Ok(policy) => Ok(policy.len()),
                Err(errors) => Err(errors.errors[0].clone()),
            }
        },
        "*filter\n-A INPUT -s 10.0.0.0/8 -j DROP\n-A INPUT -s 11.0.0.0/8 -j DROP\n\
         -A INPUT -s 12.0.0.0/8 -j DROP\nCOMMIT\n",
        true,
    ),
    (
        "TOML",
        |text, limits| toml::parse(text, limits).map(|rules| rules.len()),
        "default_action = 'none'\n[[rule]]\nvalue = 1\n[[rule]]\nvalue = 2\n[[rule]]\nvalue = 3\n",
        true,
    ),
    (
        "headers",
        |text, limits| trace::parse(text, limits).map(|keys| keys.len()),
        "1 2 3 4 5\n6 7 8 9 10\n11 12 13 14 15\n",
        false,
    ),
];

#[test]
fn rules_up_to_the_limits_are_loaded() {
    for (form, read, text, counts) in FORMS {
        let limits = |bytes_max, rules_max| LoadLimits { rules_max, bytes_max };
        assert_eq!(read(text, limits(text.len(), 3)).unwrap(), 3, "{form}");
        let error = read(text, limits(text.len() - 1, 3)).unwrap_err();
        assert!(error.to_string().contains("bytes"), "{form}: {error}");
        assert_eq!(error.to_string().lines().count(), 1, "{form}: {error}");
        match read(text, limits(1000, 2)) {
            Ok(headers) => assert_eq!((headers, counts), (3, false), "{form}"),
            Err(error) => assert!(counts && error.to_string().contains("rules"), "{form}: {error}"),
        }
        assert!(read(text, limits(1000, 0)).is_err() || !counts, "{form}");
    }
}
