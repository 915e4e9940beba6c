use super::*;
use crate::rule::PortRange;

fn parse_rule(text: &str) -> Result<Rule, LoadError> {
    parse(&alloc::format!("[[rule]]\naction = 'accept'\n{text}\n"), LoadLimits::default())
        .map(|rules| rules[0])
}

#[test]
fn fields_have_several_forms() {
    let rule =
        parse_rule("source = '2001:db8::1'\nsource_ports = '5-7'\nprotocol = '0x04/0xfc'\npriority = 3")
            .unwrap();
    assert_eq!(rule.to_string(), "2001:db8::1/128 ::/0 5 : 7 0 : 65535 0x04/0xfc");
    assert_eq!((rule.priority, rule.value, rule.action), (3, 0, Some(Action::Accept)));
    assert_eq!(parse_rule("protocol = 'any'\nsource = 'any'").unwrap().to_string(), Rule::ANY.to_string());
    let range = parse_rule("source = '10.0.0.0-10.0.0.255'\ndestination_ports = [1, '2-9']").unwrap();
    assert_eq!(range.destination_ports, PortRange::new(1, 9).unwrap());
    assert_eq!(
        parse_rule("family = 'ipv6'").unwrap().addresses,
        Rule::v6(flowloom_classifier::PrefixV6::ANY, flowloom_classifier::PrefixV6::ANY).addresses
    );
    assert!(parse("", LoadLimits::default()).unwrap().is_empty());
}

#[test]
fn rules_keep_their_line_numbers() {
    let text = "# first\ndefault_action = 'none'\n\n[[rule]]\nprotocol = 'tcp'\n\n[[rule]]\n[[rule]]\n";
    let lines = |text: &str| {
        let policy = load(text, LoadLimits::default()).unwrap();
        policy.sources().iter().map(|source| source.line).collect::<Vec<_>>()
    };
    assert_eq!(lines(text), [4, 7, 8]);
    assert_eq!(lines("default_action = 'deny'\nrule = [\n  {},\n  {}, {} ]"), [3, 4, 4]);
    assert_eq!(
        lines("[[rule]]\naction = 'deny'\nmay_match = '''a\n[[rule]]\n'''\n[[rule]]\naction='deny'\n"),
        [1, 6]
    );
}

#[test]
fn a_rule_without_an_action_and_a_file_that_is_cut_are_errors() {
    for (text, line, part) in [
        ("[[rule]]\nsource = '10.0.0.0/8'\n", 1, "no action"),
        ("[[rule]]\nsource = '10.0.0.0/8'\naction = 'deny'\n[[rule]]\n", 4, "may be truncated"),
        ("rules = 2\n[[rule]]\naction = 'deny'\n", 1, "states 2 rules but has 1"),
        ("rules = 0\n[[rule]]\naction = 'deny'\n", 1, "states 0 rules"),
        ("default_action = 'pass'\n", 1, "\"none\""),
    ] {
        let errors = load(text, LoadLimits::default()).unwrap_err();
        assert_eq!(errors.errors[0].line, line, "{errors}");
        assert!(errors.to_string().contains(part), "{errors}");
    }
    let whole = "rules = 2\ndefault_action = 'deny'\n[[rule]]\nsource = '10.0.0.0/8'\n[[rule]]\n";
    assert_eq!(load(whole, LoadLimits::default()).unwrap().len(), 2);
    let cut = whole.trim_end().rsplit_once('\n').unwrap().0;
    assert!(load(cut, LoadLimits::default()).is_err());
}

#[test]
fn error_at_an_empty_line_shows_no_text() {
    let error = parse("\"\"\"\n", LoadLimits::default()).unwrap_err();
    assert_eq!((error.line, error.column), (2, 1), "{error}");
    assert!(error.text.is_empty() && !error.to_string().contains('^'), "{error}");
}

#[test]
fn invalid_value_is_reported_with_its_position() {
    for (text, column, part) in [
        ("source = '10.0.0.0/33'", 10, "above 32"),
        ("source = 'ten'", 10, "a prefix such as"),
        ("source = '10.0.0.0/+8'", 10, "a prefix such as"),
        ("source = []", 10, "an empty one"),
        ("source = ['10.0.0.1', '::1']", 10, "one family"),
        ("destination_ports = '+80'", 21, "a port from"),
        ("destination_ports = '80-+90'", 21, "a port from"),
        ("protocol = '+6'", 12, "a protocol"),
        ("protocol = '0x+6'", 12, "a protocol"),
        ("protocol = '6/+15'", 12, "a protocol"),
        ("destination_ports = 70000", 21, "a port from"),
        ("destination_ports = '9-5'", 21, "ends before"),
        ("protocol = 'tpc'", 12, "a protocol"),
        ("protocol = true", 12, "a number, a text"),
        ("priority = 2147483648", 12, "a priority from"),
        ("value = -1", 9, "a value from 0"),
        ("skip = 1", 1, "with skip"),
        ("state = 'newish'", 9, "a state"),
        ("tcp_flags = 'SYN'", 13, "under a mask"),
        ("sauce = 'x'", 1, "unknown field"),
        ("source = ", 10, ""),
    ] {
        let error = parse_rule(text).unwrap_err();
        let expected = if text.starts_with("skip") { (2, 10) } else { (3, column) };
        assert_eq!((error.line, error.column), expected, "{text}: {error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = parse("[[rule]]\naction = 'drop'\n", LoadLimits::default()).unwrap_err();
    assert!(
        (error.line, error.column) == (2, 10) && error.to_string().contains("\"accept\" or \"deny\""),
        "{error}"
    );
    let error = parse_rule("source = '10.0.0.1'\ndestination = '::1'").unwrap_err();
    assert!(error.to_string().contains("one family"), "{error}");
    let limits = LoadLimits { rules_max: 1, ..LoadLimits::default() };
    let text = "[[rule]]\naction = 'deny'\n[[rule]]\naction = 'deny'\n";
    assert_eq!(parse(text, limits).unwrap_err().line, 3);
    let both = "[[rule]]\nsource = 'x'\naction = 'deny'\n[[rule]]\nsource = 'y'\naction = 'deny'\n";
    assert_eq!(load(both, LoadLimits::default()).unwrap_err().errors.len(), 2);
}
