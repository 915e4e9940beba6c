//! Detecting the format of a rule text, and reading any format.

use super::ipset::Sets;
use super::words::first_line;
use super::{
    LoadError, LoadErrorKind, LoadErrors, LoadLimits, aws, cisco, classbench, iptables, kubernetes,
    line_of, nft, toml,
};
use crate::firewall::{Families, Policy};

/// A format of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleFormat {
    /// ClassBench filter files.
    ClassBench,
    /// Flowloom's TOML format.
    Toml,
    /// The output of `iptables-save` and `ip6tables-save`.
    Iptables,
    /// A ruleset of nftables, as text or as JSON.
    Nft,
    /// A configuration with access lists of Cisco IOS or ASA.
    Cisco,
    /// Security groups or network access lists of AWS, as JSON.
    Aws,
    /// Network policies of Kubernetes, as YAML or JSON.
    Kubernetes,
}

/// The parts of a text to read.
///
/// Fields may be added in any version: a literal ends with `..LoadOptions::default()`.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The table; `None` means `filter` for iptables, and all tables for nftables, where a table
    /// may be named with its family: `inet filter`.
    pub table: Option<String>,
    /// The chain that packets enter; `None` means `INPUT`, and the hook `input` of nftables.
    /// There, a name [means the hook or a chain](nft::Options::chain). If the text has no chain of
    /// this name, the policy [is empty](Policy::is_empty); [`iptables::chains`] and
    /// [`nft::chains`] return the names.
    pub chain: Option<String>,
    /// Families of packets; `None` means those that the text states.
    pub families: Option<Families>,
    /// Sets to which rules refer.
    pub sets: Sets,
    /// The address map of network policies, in the format of [`kubernetes`].
    pub addresses: Option<String>,
    /// The limits of the loader.
    pub limits: LoadLimits,
}

impl RuleFormat {
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::ClassBench, Self::Toml, Self::Iptables, Self::Nft, Self::Cisco, Self::Aws, Self::Kubernetes];

    /// Returns the format that a text appears to have: by the extension of its file name, then by
    /// its first words.
    #[must_use]
    pub fn detect(name: &str, text: &str) -> Self {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if ending.eq_ignore_ascii_case("toml") {
            return Self::Toml;
        }
        if nft::is_nft(text) {
            return Self::Nft;
        }
        if aws::is_aws(text) {
            return Self::Aws;
        }
        if kubernetes::is_kubernetes(text) {
            return Self::Kubernetes;
        }
        match first_line(text) {
            Some((_, line)) if line.starts_with('*') || iptables::is_listing(line) => Self::Iptables,
            Some((_, line)) if line.starts_with("[[") || is_toml_key(line) => Self::Toml,
            Some((_, line)) if line.starts_with('@') => Self::ClassBench,
            _ if cisco::is_cisco(text) => Self::Cisco,
            _ => Self::ClassBench,
        }
    }

    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClassBench => "classbench",
            Self::Toml => "toml",
            Self::Iptables => "iptables",
            Self::Nft => "nft",
            Self::Cisco => "cisco",
            Self::Aws => "aws",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// Returns its name in messages.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ClassBench => "a ClassBench filter file",
            Self::Toml => "TOML",
            Self::Iptables => "iptables-save output",
            Self::Nft => "a ruleset of nftables",
            Self::Cisco => "Cisco access lists",
            Self::Aws => "AWS security groups",
            Self::Kubernetes => "Kubernetes network policies",
        }
    }

    /// Returns whether the format has chains.
    #[must_use]
    pub const fn has_chains(self) -> bool {
        matches!(self, Self::Iptables | Self::Nft | Self::Cisco | Self::Aws | Self::Kubernetes)
    }
}

fn is_toml_key(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| matches!(key.trim(), "rules" | "default_action" | "rule"))
}

/// Reads the rules of a text in a given format.
///
/// # Errors
///
/// Returns [`LoadErrors`]: all that is wrong with the text.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{RuleFormat, LoadOptions, load};
/// let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\nCOMMIT\n";
/// let form = RuleFormat::detect("saved", text);
/// assert_eq!(form, RuleFormat::Iptables);
/// assert_eq!(load(text, form, &LoadOptions::default())?.len(), 2);
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, form: RuleFormat, options: &LoadOptions) -> Result<Policy, LoadErrors> {
    check_characters(text)?;
    match form {
        RuleFormat::ClassBench => {
            if let Some((number, line)) = first_line(text)
                && let Some(message) = script(text).or_else(|| foreign(line))
            {
                let error = LoadError::new(number, line, 0, LoadErrorKind::Unsupported(message));
                return Err(error.into());
            }
            classbench::load(text, options.limits)
        }
        RuleFormat::Toml => toml::load(text, options.limits),
        RuleFormat::Iptables => {
            let options = iptables::Options {
                table: options.table.as_deref().unwrap_or("filter"),
                chain: options.chain.as_deref().unwrap_or("INPUT"),
                families: options.families,
                sets: &options.sets,
                limits: options.limits,
            };
            iptables::load(text, &options)
        }
        RuleFormat::Nft => {
            let options = nft::Options {
                table: options.table.as_deref(),
                chain: options.chain.as_deref().unwrap_or("hook input"),
                families: options.families,
                limits: options.limits,
            };
            nft::load(text, &options)
        }
        RuleFormat::Cisco => cisco::load(text, options.chain.as_deref(), options.limits),
        RuleFormat::Aws => {
            let chain = options.chain.as_deref().unwrap_or("ingress");
            aws::load(text, &aws::Options { chain, limits: options.limits })
        }
        RuleFormat::Kubernetes => {
            let addresses = options.addresses.as_deref();
            let chain = options.chain.as_deref().unwrap_or("cluster");
            kubernetes::load(text, &kubernetes::Options { chain, addresses, limits: options.limits })
        }
    }
}

/// Refuses control characters: they separate no lines and no words, so a rule with one of them
/// would mean something else than it shows.
fn check_characters(text: &str) -> Result<(), LoadError> {
    let bytes = text.as_bytes();
    let is_wrong = |(at, byte): &(usize, &u8)| match byte {
        b'\r' => bytes.get(at + 1).is_some_and(|next| *next != b'\n'),
        b'\t' | b'\n' | b'\x0c' => false,
        byte => byte.is_ascii_control(),
    };
    let Some((at, byte)) = bytes.iter().enumerate().find(is_wrong) else { return Ok(()) };
    let message = if *byte == b'\r' {
        String::from("a carriage return without a line feed; convert the line ends to line feeds")
    } else {
        format!("a control character (U+{byte:04X}); remove it, or write the file again if it is damaged")
    };
    let (line, start, content) = line_of(text, at);
    Err(LoadError::new(line, content, at - start, LoadErrorKind::Refused(message)))
}

const IPTABLES_SCRIPT: &str =
    "this is a script of iptables commands; run it, and read the output of iptables-save";
const NFT_SCRIPT: &str =
    "this is a script of nft commands; run it, and read the output of nft list ruleset";

/// Returns advice on a script of a shell, judging by its first line and its commands.
fn script(text: &str) -> Option<&'static str> {
    let program = text.strip_prefix("#!")?.lines().next()?;
    let name = program.split_whitespace().next_back()?.rsplit('/').next()?;
    if !name.ends_with("sh") {
        return None;
    }
    let calls = |program: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        text.lines().any(|line| {
            let line = line.split('#').next().unwrap_or("").to_ascii_lowercase();
            line.split(|c: char| !is_word(c)).any(|word| word == program)
        })
    };
    Some(if calls("iptables") || calls("ip6tables") {
        IPTABLES_SCRIPT
    } else if calls("nft") {
        NFT_SCRIPT
    } else {
        "this is a script of a shell; read the rules that it makes, as iptables-save or nft list ruleset \
         print them"
    })
}

/// Returns advice on a text in a syntax that is not read, judging by its first line.
fn foreign(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace().filter(|word| *word != "sudo");
    let first = words.next()?;
    let second = words.next().unwrap_or("");
    let first = first.rsplit('/').next().unwrap_or(first);
    Some(match (first, second) {
        ("iptables" | "ip6tables", _) => IPTABLES_SCRIPT,
        ("nft", _) => NFT_SCRIPT,
        ("chain", _) => {
            "this is a part of a ruleset of nftables, without its table; read the output of nft list ruleset"
        }
        ("ipfw", _) | ("add", "allow" | "deny" | "pass" | "count" | "skipto") => {
            "unsupported rules of ipfw; rewrite them as TOML"
        }
        ("firewall", "filter") | ("ip" | "ipv6", "firewall") => {
            "unsupported rules of RouterOS; rewrite them as TOML"
        }
        ("netsh", _) => "unsupported rules of Windows; rewrite them as TOML",
        ("alert" | "reject", "tcp" | "udp" | "icmp" | "ip") | ("drop", "tcp" | "udp") => {
            "unsupported rules of Snort or Suricata, which search packets for contents; rewrite the addresses \
             and ports as TOML"
        }
        ("resource" | "variable" | "provider" | "terraform", _) => {
            "unsupported configuration of Terraform; read what it creates, for AWS by aws ec2 \
             describe-security-groups"
        }
        ("?SECTION" | "SECTION", _) => "unsupported rules of Shorewall; read the output of iptables-save",
        ("Chain", _) => "this is the output of iptables -L, which omits interfaces; use iptables-save",
        ("ufw" | "firewall-cmd" | "Status:", _) => {
            "this is a front end of iptables or nftables; read the output of iptables-save or nft list \
             ruleset instead"
        }
        ("create" | "add", _) => "these are sets; read them with --sets beside rules that refer to them",
        (
            "pass" | "block" | "scrub" | "set" | "anchor" | "match",
            "in" | "out" | "quick" | "all" | "skip",
        )
        | ("block", "drop" | "return" | "log")
        | ("nat" | "rdr" | "binat" | "antispoof", _) => "unsupported rules of pf; rewrite them as TOML",
        ("config", _) => "unsupported rules of OpenWrt or FortiOS; on OpenWrt, use nft list ruleset",
        ("set", _) => "unsupported commands of Junos or VyOS; rewrite them as TOML",
        ("policy-options" | "firewall" | "security" | "groups" | "interfaces", "{") => {
            "unsupported rules of Junos; rewrite them as TOML"
        }
        ("ipv4", "access-list") => {
            "unsupported access lists of Cisco IOS XR; write 'ip access-list extended' lists, or TOML"
        }
        ("object-group" | "object" | "time-range", _) => {
            "objects of Cisco without an access list that uses them; add the access list"
        }
        ("acl" | "traffic" | "traffic-policy" | "traffic-filter" | "traffic-classifier", _) => {
            "unsupported rules of Huawei VRP or H3C Comware; rewrite them as TOML"
        }
        _ if first.starts_with('<') => {
            "unsupported XML; for firewalld and libvirt, read the output of nft list ruleset or iptables-save; \
             rewrite other rules as TOML"
        }
        _ if first.starts_with(['{', '[']) => {
            "unsupported JSON: neither nft -j list ruleset, nor security groups or network ACLs of AWS, nor \
             network policies of Kubernetes; rewrite the rules as TOML"
        }
        // A macro of pf: `ext_if = "em0"`.
        _ if line.split_once('=').is_some_and(|(_, value)| value.trim().starts_with('"')) => {
            "unsupported rules of pf or settings of a shell; rewrite the rules as TOML"
        }
        // A line of ClassBench begins with an address.
        _ if !line.starts_with(|c: char| c == '@' || c.is_ascii_hexdigit() || c == ':') => {
            "unknown rule format; rewrite the rules as TOML"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_formats_are_recognised_by_content() {
        assert_eq!(
            (RuleFormat::detect("a.toml", ""), RuleFormat::detect("a", "# x\n[[rule]]")),
            (RuleFormat::Toml, RuleFormat::Toml)
        );
        assert_eq!(RuleFormat::detect("a", "rules = 1\n[[rule]]"), RuleFormat::Toml);
        assert_eq!(
            RuleFormat::detect("a", "# Generated by iptables-save\n*filter\n"),
            RuleFormat::Iptables
        );
        assert_eq!(RuleFormat::detect("a", "@1.2.3.4/8 "), RuleFormat::ClassBench);
        assert_eq!(
            RuleFormat::detect("a", "#!/usr/sbin/nft -f\n\ntable inet filter {\n}\n"),
            RuleFormat::Nft
        );
        assert_eq!(
            RuleFormat::detect("a", "hostname r1\nip access-list extended A\n permit ip any any\n"),
            RuleFormat::Cisco
        );
        assert_eq!(RuleFormat::detect("a", "{\"SecurityGroups\": []}"), RuleFormat::Aws);
        assert_eq!(RuleFormat::detect("a", "{\"nftables\": []}"), RuleFormat::Nft);
        assert_eq!(
            RuleFormat::detect("a", "---\nkind: NetworkPolicy\napiVersion: v1\n"),
            RuleFormat::Kubernetes
        );
        assert_eq!(RuleFormat::detect("a", "-P INPUT DROP\n-N web\n"), RuleFormat::Iptables);
    }

    #[test]
    fn control_characters_are_refused() {
        for (text, place) in [
            ("*filter\n:INPUT DROP\n-A INP\0UT -j ACCEPT\nCOMMIT\n", Some((3, 7))),
            ("*filter\r:INPUT DROP\rCOMMIT\r", Some((1, 8))),
            ("*filter\r\n:INPUT DROP\r\nCOMMIT\r\n", None),
            ("*filter\n:INPUT DROP\nCOMMIT\n\x1b[0m", Some((4, 1))),
        ] {
            let found = load(text, RuleFormat::Iptables, &LoadOptions::default()).err();
            assert_eq!(
                found.map(|errors| (errors.errors[0].line, errors.errors[0].column)),
                place,
                "{text}"
            );
        }
    }

    #[test]
    fn unsupported_formats_are_named() {
        for (text, part) in [
            ("sudo /sbin/iptables -A INPUT -j DROP\n", "a script of iptables commands"),
            ("# x\niptables -F\n", "a script of iptables commands"),
            ("Chain INPUT (policy DROP)\n", "iptables -L"),
            ("Status: active\n", "a front end"),
            ("create a hash:ip\n", "--sets"),
            ("pass in on em0 proto tcp\nblock all\n", "rules of pf"),
            ("config rule\n", "OpenWrt"),
            ("set security policies\n", "Junos"),
            ("#!/bin/sh\nset -e\n$IPTABLES -F\n", "a script of iptables commands"),
            ("#!/usr/bin/env bash\nset -e\nsudo nft flush ruleset\n", "a script of nft commands"),
            ("#!/bin/sh\n. /etc/rules # nft, iptables\n", "a script of a shell"),
            ("chain input {\n", "without its table"),
            ("ipfw add 100 allow ip from any to any\n", "ipfw"),
            ("/ip firewall filter\nadd chain=input\n", "RouterOS"),
            ("netsh advfirewall firewall add rule\n", "Windows"),
            ("alert tcp any any -> any 80 (msg:\"x\";)\n", "Suricata"),
            ("resource \"aws_security_group\" \"a\" {\n", "Terraform"),
            ("ipv4 access-list A\n 10 permit ipv4 any any\n", "IOS XR"),
            ("acl number 3000\n rule 5 permit ip\n", "Huawei"),
            ("traffic-policy p1\n", "Huawei"),
            ("security {\n policies {\n", "Junos"),
            ("ext_if=\"em0\"\npass in all\n", "pf"),
            ("nat on em0 from any to any -> (em0)\n", "pf"),
            ("object-group network A\n host 10.0.0.1\n", "without an access list"),
            ("| rule | source |\n", "unknown rule format"),
            ("Please open port 22\n", "unknown rule format"),
            ("<?xml version=\"1.0\"?>\n<zone>\n", "firewalld"),
            ("{\"securityRules\": []}\n", "unsupported JSON"),
        ] {
            assert_eq!(RuleFormat::detect("a", text), RuleFormat::ClassBench, "{text}");
            let errors = load(text, RuleFormat::ClassBench, &LoadOptions::default()).unwrap_err();
            assert!(errors.to_string().contains(part), "{errors}");
        }
    }
}
