//! Where packets enter chains, what these may contain, and which of them are read.

use super::*;

/// Returns a table with one base chain.
fn base(family: &str, kind: &str, hook: &str, priority: &str) -> String {
    let device = if matches!(hook, "ingress" | "egress") { " device \"eth0\"" } else { "" };
    format!(
        "table {family} t {{\n chain c {{\n type {kind} hook {hook}{device} priority {priority}; policy drop;\n }}\n}}\n"
    )
}

/// The combinations that nft 1.0.6 and Linux 6.18 accept.
#[test]
fn chains_have_the_types_and_hooks_of_the_family() {
    const HOOKS: [&str; 7] =
        ["prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"];
    for family in ["ip", "ip6", "inet", "bridge", "arp", "netdev"] {
        for kind in ["filter", "nat", "route"] {
            let expected: &[&str] = match (family, kind) {
                ("inet", "filter") => &HOOKS[..6],
                ("ip" | "ip6" | "bridge", "filter") => &HOOKS[..5],
                ("arp", "filter") => &["input", "output"],
                ("netdev", "filter") => &["ingress", "egress"],
                ("ip" | "ip6" | "inet", "nat") => &["prerouting", "input", "output", "postrouting"],
                ("ip" | "ip6" | "inet", "route") => &["output"],
                _ => &[],
            };
            let reads = |hook: &str| load(&base(family, kind, hook, "0"), &Options::default()).is_ok();
            let found: Vec<&str> = HOOKS.into_iter().filter(|hook| reads(hook)).collect();
            assert_eq!(found, expected, "{family} {kind}");
        }
    }
}

#[test]
fn priorities_have_the_names_of_the_family_and_the_hook() {
    for (family, hook, priority, number) in [
        ("ip", "prerouting", "raw", Some(-300)),
        ("ip6", "prerouting", "mangle", Some(-150)),
        ("inet", "prerouting", "dstnat", Some(-100)),
        ("ip", "output", "dstnat", Some(-100)),
        ("ip", "forward", "filter", Some(0)),
        ("ip", "forward", "security", Some(50)),
        ("ip", "postrouting", "srcnat", Some(100)),
        ("ip", "forward", "filter + 5", Some(5)),
        ("ip", "forward", "filter - 5", Some(-5)),
        ("ip", "forward", "filter +5", Some(5)),
        ("ip", "forward", "filter -5", Some(-5)),
        ("ip", "forward", "filter+5", Some(5)),
        ("ip", "forward", "- 5", Some(-5)),
        ("ip", "forward", "-2147483648", Some(-2_147_483_648)),
        ("ip", "forward", "dstnat", None),
        ("ip", "forward", "srcnat", None),
        ("inet", "output", "out", None),
        ("ip", "forward", "fliter", None),
        ("ip", "forward", "filter-5", None),
        ("ip", "forward", "filter + five", None),
        ("ip", "forward", "filter * 5", None),
        ("ip", "forward", "filter + 5 + 5", None),
        ("ip", "forward", "5 + 5", None),
        ("ip", "forward", "+5", None),
        ("ip", "forward", "4294967296", None),
    ] {
        let found =
            load(&base(family, "filter", hook, priority), &Options { chain: hook, ..Options::default() });
        let found = found.ok().map(|policy| policy.hooks()[0].priority);
        assert_eq!(found, number, "{family} {hook} {priority}");
    }
    for (family, hook, priority, is_known) in [
        ("bridge", "output", "out", true),
        ("bridge", "prerouting", "dstnat", true),
        ("bridge", "forward", "mangle", false),
        ("arp", "input", "filter", true),
        ("arp", "input", "raw", false),
        ("netdev", "ingress", "filter", true),
        ("netdev", "egress", "security", false),
        ("inet", "ingress", "security", true),
    ] {
        let found = load(&base(family, "filter", hook, priority), &Options::default());
        assert_eq!(found.is_ok(), is_known, "{family} {hook} {priority}");
    }
}

#[test]
fn error_in_a_chain_has_its_place_and_says_what_is_possible() {
    let filter = "type filter hook input priority 0;";
    for (family, line, at, part) in [
        ("inet", "type filter hook forwrd priority -5;", "forwrd", "input, forward"),
        ("inet", "type fliter hook forward priority -5;", "fliter", "filter, nat, route"),
        ("inet", "type filter hook FORWARD priority 0;", "FORWARD", "input, forward"),
        ("inet", "type filter hook forward priority fliter;", "fliter", "raw, mangle, filter, security"),
        ("inet", "type filter hook forward priority 0 policy drop;", "policy", "a semicolon"),
        ("inet", "type filter hook forward;", ";", "expected priority"),
        ("inet", "type filter forward priority 0;", "forward", "expected hook"),
        ("inet", "type filter priority 0 hook forward;", "priority", "expected hook"),
        ("inet", "type filter hook forward device eth0 priority 0;", "device", "expected priority"),
        ("netdev", "type filter hook ingress dev eth0 priority 0;", "dev", "device, devices or priority"),
        ("netdev", "type filter hook ingress device a priority 0; flags offlod;", "offlod", "offload"),
        ("inet", &format!("{filter} policy reject;"), "reject", "accept or drop"),
        ("inet", &format!("{filter} policy drop tcp dport 22 accept"), "tcp", "a semicolon"),
        ("inet", "policy drop;", "drop", "type, hook and priority"),
        ("inet", &format!("{filter}\n type filter hook output priority 0;"), "filter", "keeps its hook"),
        ("inet", &format!("{filter}\n }}\n flags dormnt;"), "dormnt", "dormant"),
        ("inet", &format!("{filter}\n }}\n set s {{ flags intervl; }}"), "intervl", "interval"),
    ] {
        let text = format!("table {family} t {{\n chain c {{\n{line}\n }}\n}}\n");
        let errors = load(&text, &Options::default()).expect_err(line);
        let first = &errors.errors[0];
        assert_eq!(first.line, 2 + line.lines().count(), "{errors}");
        assert!(first.text[first.text_column - 1..].starts_with(at), "{errors}");
        assert!(first.kind.to_string().contains(part), "{errors}");
    }
}

#[test]
fn devices_and_declarations_of_a_chain_are_read() {
    let text = "table netdev n {\n chain a {\n type filter hook ingress devices = { eth0, \"eth1\" } priority 0; flags offload;\n }\n}\n\
        table ip t {\n chain c {\n type filter hook input priority 0; policy drop;\n }\n}\n\
        table ip t {\n chain c {\n type filter hook input priority 0;\n }\n chain c {\n policy accept;\n }\n}\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(policy.set().rules()[0].action, Some(Action::Accept), "the last policy counts");
}

#[test]
fn rule_that_nft_refuses_is_refused() {
    for (rule, part) in [
        // A value is missing: the verdict is none.
        ("iifname drop", "a value"),
        ("iifname counter drop", "a value"),
        ("oifname != accept", "a value"),
        ("iifname { drop } accept", "a value"),
        ("meta cpu drop", "a value"),
        ("ct helper drop", "a value"),
        ("log prefix drop", "an option of log"),
        ("log group accept", "an option of log"),
        ("counter name drop", "a number"),
        ("comment drop", "a comment"),
        ("jump drop", "the name of a chain"),
        ("ip drop", "a field of a header"),
        ("rt goto b", "a field of a header"),
        ("meta drop", "a key of meta"),
        ("tcp option drop", "a value"),
        ("tcp dport missing accept", "'missing' is not a value"),
        ("tcp dport { 22 : drop }", "vmap before a map"),
        // A word that is misspelt: the verdict is no argument.
        ("quota over 5 mbytes dro", "'dro' is no argument here"),
        ("limit rate 5/second dro", "'dro' is no argument here"),
        ("ct count over 5 dro", "'dro' is no argument here"),
        ("fib saddr oif missing dro", "'dro' is no argument here"),
        ("meta mark set 1 dro", "'dro' is no argument here"),
        ("dup to 192.0.2.1 dro", "'dro' is no argument here"),
        ("add @s { ip saddr } dro", "'dro' is no argument here"),
        ("add saddr @s drop", "the name of a set"),
        ("set ip saddr @s drop", "the name of a set"),
        ("set add drop", "needs a set"),
        ("meta mak set 1", "'meta mak set'"),
        ("ct mak set 1", "'ct mak set'"),
        // Nothing comes after the verdict.
        ("accept drop", "the end of the rule"),
        ("drop counter", "the end of the rule"),
        ("drop log", "the end of the rule"),
        ("return drop", "the end of the rule"),
        ("reject drop", "the end of the rule"),
        ("reject with icmp type host-prohibited counter", "the end of the rule"),
        ("queue accept", "the end of the rule"),
        ("queue num 0 drop", "the end of the rule"),
        ("goto b accept", "the end of the rule"),
        ("drop accept comment \"a\"", "the end of the rule"),
        ("meta mark set drop", "a value"),
    ] {
        let text =
            chain(&format!("\t\tudp dport 9 {rule}")).replace("\n\tchain", "\n\tchain b {\n\t}\n\tchain");
        let errors = load(&text, &Options::default()).expect_err(rule);
        assert!(errors.to_string().contains(part), "{rule}: {errors}");
    }
    for rule in [
        "accept comment \"a\"",
        "continue drop",
        "tcp dport vmap { 22 : accept } drop",
        "ct status dnat accept",
        "iifname \"drop\" accept",
        "log prefix \"drop\" accept",
        "limit rate over 10 mbytes/second burst 5 kbytes drop",
        "fib daddr . iif type local meta mark 1 accept",
        "fib saddr oif eth0 drop",
        "ct helper set \"ftp\" accept",
        "meta priority set 1:2 accept",
        "tcp option maxseg size set rt mtu accept",
        "socket cgroupv2 level 2 \"user.slice\" accept",
        "ipsec in reqid 5 accept",
        "dup to 192.0.2.1 device \"eth0\" accept",
        "set update ip saddr timeout 5s @s accept",
        "queue flags bypass,fanout to 1-3",
        "tcp option sack-perm missing drop",
    ] {
        policy(rule);
    }
    let taken = ["deny all any > any [synproxy takes the packet]", "accept all any > any"];
    assert_eq!(entries(&policy("synproxy accept")), taken, "a verdict is no argument");
}

#[test]
fn statement_is_refused_in_chains_where_the_kernel_refuses_it() {
    const HOOKS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];
    for (rule, kind, hooks) in [
        ("masquerade", "filter", &[][..]),
        ("masquerade random", "nat", &["postrouting"]),
        ("snat to 192.0.2.1", "filter", &[]),
        ("snat to 192.0.2.1", "nat", &["input", "postrouting"]),
        ("dnat to 192.0.2.1", "filter", &[]),
        ("dnat to tcp dport map { 80 : 192.0.2.1 }", "nat", &["prerouting", "output"]),
        ("redirect to :8080", "filter", &[]),
        ("redirect to :8080", "nat", &["prerouting", "output"]),
        ("tproxy to :8080 accept", "filter", &["prerouting"]),
        ("synproxy mss 1460", "filter", &["input", "forward"]),
        ("reject", "filter", &["prerouting", "input", "forward", "output"]),
        ("counter xt target \"MASQUERADE\"", "filter", &[]),
        ("counter xt target \"TPROXY\"", "filter", &["prerouting"]),
        ("jump b", "filter", &HOOKS),
        ("jump nat", "filter", &[]),
    ] {
        let reads = |hook: &str| {
            let text = format!(
                "table ip t {{\n chain b {{\n tcp dport 1 accept\n }}\n chain nat {{\n masquerade\n }}\n chain c {{\n \
                 type {kind} hook {hook} priority 0; policy drop;\n tcp dport 80 {rule}\n }}\n}}\n"
            );
            match load(&text, &Options { chain: "c", ..Options::default() }) {
                Ok(policy) => policy.len() > 1,
                Err(errors) => {
                    assert!(errors.to_string().contains("is possible only in chains of type"), "{errors}");
                    false
                }
            }
        };
        let places = HOOKS.into_iter().filter(|hook| (kind, *hook) != ("nat", "forward"));
        let found: Vec<&str> = places.filter(|hook| reads(hook)).collect();
        assert_eq!(found, hooks, "{kind} {rule}");
    }
    let text =
        base("ip", "filter", "prerouting", "0").replace("policy drop;", "policy drop;\n tproxy to :80");
    let errors = load(&text, &Options { chain: "prerouting", ..Options::default() }).unwrap_err();
    assert!(errors.to_string().contains("needs a protocol"), "{errors}");
}

#[test]
fn interface_by_its_number_is_undecided() {
    for (rule, shown) in [
        ("iif 2 drop", "deny all any > any [meta iif 2, an interface by its number]"),
        ("iif \"2\" drop", "deny all any > any [meta iif 2, an interface by its number]"),
        ("meta oif 0x2 drop", "deny all any > any [meta oif 0x2, an interface by its number]"),
        ("iif != 2 drop", "deny all any > any not [meta iif 2, an interface by its number]"),
        ("iif { 2, \"lo\" } drop", "deny all any > any [meta iif 2, an interface by its number]"),
        ("iif 1-3 drop", "deny all any > any [meta iif 1-3, an interface by its number]"),
        ("iif vmap { 2 : drop }", "deny all any > any [meta iif 2, an interface by its number]"),
        ("iif lo drop", "deny all any > any in lo"),
        ("oif \"eth0\" drop", "deny all any > any out eth0"),
        ("iifname 2 drop", "deny all any > any in 2"),
    ] {
        assert_eq!(entries(&policy(rule)), [shown], "{rule}");
    }
    let oif = entries(&policy("oif . iif { 2 . lo } drop"));
    assert!(oif.len() == 1 && oif[0].contains("[meta oif 2"), "{oif:?}");
    let errors = load(&chain("iif \"eth*\" drop"), &Options::default()).unwrap_err();
    assert!(errors.to_string().contains("iifname"), "{errors}");
}

/// Returns the lines that decide packets to ports, or the first error.
fn lines_of(text: &str, chain: &str, table: Option<&str>) -> Result<Vec<usize>, String> {
    let policy = load(text, &Options { table, chain, ..Options::default() });
    let policy = policy.map_err(|errors| errors.to_string())?;
    Ok([22, 23].map(|port| line(&policy, &packet([1; 4], port, 6))).into_iter().collect())
}

#[test]
fn name_means_the_hook_unless_only_other_chains_have_it() {
    // The hook leads to this chain by a jump only.
    let jumped = "table ip t {\n chain fw {\n type filter hook forward priority 0; policy drop;\n\
        tcp dport 23 jump forward\n }\n chain forward {\n tcp dport { 22, 23 } accept\n }\n}\n";
    assert_eq!(lines_of(jumped, "hook forward", None), Ok(vec![3, 7]));
    assert_eq!(lines_of(jumped, "hook FORWARD", None), Ok(vec![3, 7]));
    assert_eq!(lines_of(jumped, "chain forward", None), Ok(vec![7, 7]));
    assert_eq!(lines_of(jumped, "fw", None), Ok(vec![3, 7]));
    let error = lines_of(jumped, "forward", None).unwrap_err();
    for part in ["6:1", "'fw' of table ip t", "'hook forward'", "'chain forward'"] {
        assert!(error.contains(part), "{error}");
    }
    // A chain of another hook has the name.
    let elsewhere = jumped
        .replace("tcp dport 23 jump forward", "tcp dport 23 accept")
        .replace("chain forward {", "chain forward {\n type filter hook input priority 0;");
    assert_eq!(lines_of(&elsewhere, "hook forward", None), Ok(vec![3, 4]));
    assert_eq!(lines_of(&elsewhere, "chain forward", None), Ok(vec![8, 8]));
    assert!(lines_of(&elsewhere, "forward", None).is_err());
    assert_eq!(lines_of(&elsewhere, "hook input", None), Ok(vec![8, 8]));
    // A base chain of the hook has the name: packets pass all chains of the hook.
    let both = "table ip t {\n chain forward {\n type filter hook forward priority 5; policy drop;\n\
        accept\n }\n chain late {\n type filter hook forward priority 9;\n tcp dport 22 drop\n }\n}\n\
        table inet u {\n chain forward {\n accept\n }\n}\n";
    assert_eq!(lines_of(both, "forward", None), Ok(vec![8, 6]));
    assert_eq!(lines_of(both, "late", None), Ok(vec![8, 6]));
    assert_eq!(lines_of(both, "forward", Some("u")), Ok(vec![13, 13]));
    assert_eq!(lines_of(both, "chain forward", Some("ip t")), Ok(vec![4, 4]));
    // Two chains that no hook joins.
    let error = lines_of(both, "chain forward", None).unwrap_err();
    assert!(error.contains("'forward' of table ip t, 'forward' of table inet u"), "{error}");
    assert_eq!(lines_of(both, "nosuch", None), Ok(vec![0, 0]));
    // Chains of two families, of which each packet enters one.
    let families = both.replace("inet u", "ip6 u");
    assert_eq!(lines_of(&families, "chain forward", None), Ok(vec![4, 4]));
}

#[test]
fn chains_of_one_priority_run_in_the_order_of_the_kernel() {
    let text = |one: &str, two: &str| {
        format!(
            "table ip a {{\n chain one {{\n type filter hook input priority {one};\n ip dscp 46 accept\n drop\n }}\n}}\n\
             table ip b {{\n chain two {{\n type filter hook input priority {two};\n ip dscp set 46\n }}\n}}\n"
        )
    };
    // A chain that is added later comes first.
    for (one, two, is_marked) in [("0", "0", true), ("0", "1", false), ("1", "0", true)] {
        let policy = load(&text(one, two), &Options::default()).unwrap();
        let unmarked = Packet { dscp: Some(0), ..packet([1; 4], 1, 6) };
        assert_eq!(line(&policy, &unmarked) != 5, is_marked, "{one} {two}");
    }
}

#[test]
fn chains_that_are_not_judged_are_noted() {
    let text = "table inet f {\n chain early {\n type filter hook prerouting priority raw;\n tcp dport 1 drop\n }\n\
        chain marks {\n type filter hook prerouting priority mangle;\n meta mark set 1\n }\n\
        chain in {\n type filter hook input priority 0; policy drop;\n }\n\
        chain fwd {\n type filter hook forward priority 0; policy drop;\n }\n\
        chain after {\n type filter hook postrouting priority 0; policy drop;\n }\n\
        chain out {\n type filter hook output priority 0; policy drop;\n }\n}\n\
        table ip nat {\n chain src {\n type nat hook postrouting priority srcnat;\n masquerade\n }\n}\n\
        table netdev n {\n chain first {\n type filter hook ingress device eth0 priority 0; policy drop;\n }\n}\n\
        table bridge b {\n chain x {\n type filter hook forward priority 0; policy drop;\n }\n\
        chain y {\n type filter hook input priority 0; policy drop;\n }\n}\n\
        table ip off {\n flags dormant;\n chain z {\n type filter hook forward priority 5; policy drop;\n }\n}\n\
        table arp a {\n chain x {\n type filter hook input priority 0; policy drop;\n }\n}\n";
    let noted = |chain: &str, families| {
        let policy = load(text, &Options { chain, families, ..Options::default() }).unwrap();
        let notes = policy.notes().iter().take_while(|note| note.text.starts_with("not judged: "));
        notes.map(|note| note.line).collect::<Vec<_>>()
    };
    assert_eq!(noted("forward", None), [2, 17, 24, 31, 36]);
    assert_eq!(noted("input", None), [2, 31, 36]);
    assert_eq!(noted("output", None), [17, 24, 36]);
    assert_eq!(noted("prerouting", None), [31, 36]);
    assert_eq!(noted("forward", Some(Families::V6)), [2, 17, 31, 36]);
    let policy = load(text, &Options { chain: "forward", ..Options::default() }).unwrap();
    assert_eq!(
        policy.notes()[2].text,
        "not judged: chain 'src' of table ip nat, type nat hook postrouting priority 100"
    );
}

#[test]
fn json_chains_and_rules_are_checked_as_those_of_text() {
    let text = |chain: &str, rule: &str| {
        format!(
            r#"{{"nftables": [{{"table": {{"family": "inet", "name": "t"}}}},
            {{"chain": {{"family": "inet", "table": "t", "name": "c", {chain}}}}},
            {{"rule": {{"family": "inet", "table": "t", "chain": "c", "expr": [{rule}]}}}}]}}"#
        )
    };
    let filter = r#""type": "filter", "hook": "input", "prio": 0, "policy": "drop""#;
    let accept = r#"{"accept": null}"#;
    assert!(load(&text(filter, accept), &Options::default()).is_ok());
    for (chain, rule, part) in [
        (filter.replace("input", "inptu"), String::from(accept), "prerouting, input"),
        (filter.replace("filter", "fliter"), accept.into(), "filter, nat, route"),
        (filter.replace('0', "\"filtre\""), accept.into(), "raw, mangle"),
        (filter.replace("\"prio\": 0, ", ""), accept.into(), "type, hook and prio"),
        (filter.replace("drop", "queue"), accept.into(), "accept or drop"),
        (r#""policy": "drop""#.into(), accept.into(), "has a policy"),
        (filter.into(), format!("{accept}, {{\"drop\": null}}"), "the end of the rule"),
        (filter.into(), r#"{"masquerade": null}"#.into(), "only in chains of type nat"),
    ] {
        let errors = load(&text(&chain, &rule), &Options::default()).expect_err(part);
        assert!(errors.to_string().contains(part), "{errors}");
    }
    let index = r#"{"match": {"op": "==", "left": {"meta": {"key": "iif"}}, "right": 2}}, {"drop": null}"#;
    let policy = load(&text(filter, index), &Options::default()).unwrap();
    assert_eq!(entries(&policy), ["deny all any > any [meta iif 2, an interface by its number]"]);
    let dormant = text(filter, accept).replace(r#""name": "t"}"#, r#""name": "t", "flags": ["dormant"]}"#);
    assert!(load(&dormant, &Options::default()).unwrap().is_empty());
    let unknown = dormant.replace("\"dormant\"", "\"dormnt\"");
    assert!(load(&unknown, &Options::default()).unwrap_err().to_string().contains("dormant"));
}
