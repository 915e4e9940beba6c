//! Detecting the format of a rule text, and reading any format.

use super::ipset::Sets;
use super::{
    LoadError, LoadErrorKind, LoadErrors, LoadLimits, aws, cisco, classbench, iptables, kubernetes, nft,
    toml,
};
use crate::firewall::{Families, Policy};

/// A format of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
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
    /// The table; `None` means `filter`.
    pub table: Option<String>,
    /// The chain that packets enter; `None` means `INPUT`.
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

impl Form {
    /// Returns the format that a text appears to have: by the extension of its file name, then by
    /// its first words.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Self {
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
            Some((_, line)) if line.starts_with('*') => Self::Iptables,
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

/// Returns the first line with content, and its number from one.
pub(crate) fn first_line(text: &str) -> Option<(usize, &str)> {
    let mut lines = (1..).zip(text.lines().map(str::trim));
    lines.find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
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
/// use flowloom_classifier::load::{Form, LoadOptions, load};
/// let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\nCOMMIT\n";
/// let form = Form::of("saved", text);
/// assert_eq!(form, Form::Iptables);
/// assert_eq!(load(text, form, &LoadOptions::default())?.len(), 2);
/// # Ok::<(), flowloom_classifier::load::LoadErrors>(())
/// ```
pub fn load(text: &str, form: Form, options: &LoadOptions) -> Result<Policy, LoadErrors> {
    match form {
        Form::ClassBench => {
            if let Some((number, line)) = first_line(text).filter(|(_, line)| is_list(line)) {
                let message = "unsupported listing: iptables -S names no table; use iptables-save";
                let error = LoadError::new(number, line, 0, LoadErrorKind::Refused(message.to_owned()));
                return Err(error.into());
            }
            classbench::load(text, options.limits)
        }
        Form::Toml => toml::load(text, options.limits),
        Form::Iptables => {
            let options = iptables::Options {
                table: options.table.as_deref().unwrap_or("filter"),
                chain: options.chain.as_deref().unwrap_or("INPUT"),
                families: options.families,
                sets: &options.sets,
                limits: options.limits,
            };
            iptables::load(text, &options)
        }
        Form::Nft => {
            let options = nft::Options {
                table: options.table.as_deref(),
                chain: options.chain.as_deref().unwrap_or("input"),
                families: options.families,
                limits: options.limits,
            };
            nft::load(text, &options)
        }
        Form::Cisco => cisco::load(text, options.chain.as_deref(), options.limits),
        Form::Aws => {
            let chain = options.chain.as_deref().unwrap_or("ingress");
            aws::load(text, &aws::Options { chain, limits: options.limits })
        }
        Form::Kubernetes => {
            let addresses = options.addresses.as_deref();
            let chain = options.chain.as_deref().unwrap_or("cluster");
            kubernetes::load(text, &kubernetes::Options { chain, addresses, limits: options.limits })
        }
    }
}

/// Returns whether a line is from the output of `iptables -S`.
fn is_list(line: &str) -> bool {
    ["-A ", "-P ", "-N "].iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_apart() {
        assert_eq!((Form::of("a.toml", ""), Form::of("a", "# x\n[[rule]]")), (Form::Toml, Form::Toml));
        assert_eq!(Form::of("a", "rules = 1\n[[rule]]"), Form::Toml);
        assert_eq!(Form::of("a", "# Generated by iptables-save\n*filter\n"), Form::Iptables);
        assert_eq!(Form::of("a", "@1.2.3.4/8 "), Form::ClassBench);
        assert_eq!(Form::of("a", "#!/usr/sbin/nft -f\n\ntable inet filter {\n}\n"), Form::Nft);
        assert_eq!(
            Form::of("a", "hostname r1\nip access-list extended A\n permit ip any any\n"),
            Form::Cisco
        );
        assert_eq!(Form::of("a", "{\"SecurityGroups\": []}"), Form::Aws);
        assert_eq!(Form::of("a", "{\"nftables\": []}"), Form::Nft);
        assert_eq!(Form::of("a", "---\nkind: NetworkPolicy\napiVersion: v1\n"), Form::Kubernetes);
        let listed = load("-P INPUT DROP\n", Form::ClassBench, &LoadOptions::default()).unwrap_err();
        assert!(listed.to_string().contains("use iptables-save"), "{listed}");
    }
}
