//! Network policies of Kubernetes, as YAML or JSON.
//!
//! A policy selects pods by labels. The addresses of pods come from an address map: the output of
//! `kubectl get namespaces,pods -A -o yaml`, or its short form. Both may also be in the text of the
//! policies.
//!
//! ```text
//!  chain cluster ─▶ egress  (rules of the sender's policies, then deny what they isolate)
//!                ─▶ ingress (rules of the receiver's policies, then deny what they isolate)
//!                ─▶ accept
//! ```
//!
//! If no policy of a direction selects a pod, the pod is open in that direction. The cluster tracks
//! connections, so replies need no rule. Two exceptions of Kubernetes are not modelled: a pod may
//! always reach itself, and the host of a pod may always reach the pod.

mod cluster;
mod network_policy;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::yaml::{self, Yaml};
use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, line_at};
use crate::firewall::{Chain, ChainRule, Chains, Conditions, Note, Policy, Target};
use crate::rule::Action;
use cluster::Cluster;

/// Chains that a caller may select.
const CHAINS: [&str; 3] = ["cluster", "ingress", "egress"];

/// The parts of a text to read.
///
/// Fields may be added in any version: a literal ends with `..Options::default()`.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// `ingress` or `egress` for the policies of one direction, or `cluster` for both: a packet
    /// must pass the egress policies of its sender and the ingress policies of its receiver.
    pub chain: &'a str,
    /// The address map, if it is a separate text.
    pub addresses: Option<&'a str>,
    /// The limits of the loader.
    pub limits: LoadLimits,
}

impl Default for Options<'_> {
    /// Returns the options for both directions, and a text that contains its addresses.
    fn default() -> Self {
        Self { chain: CHAINS[0], addresses: None, limits: LoadLimits::default() }
    }
}

/// Returns whether a text looks like a Kubernetes object.
#[must_use]
pub fn is_kubernetes(text: &str) -> bool {
    /// Number of lines examined.
    const LINES: usize = 4096;
    let has = |word: &str| {
        text.lines().take(LINES).any(|line| {
            let line = line.trim_start_matches(['-', ' ', '{', '"', '\t']);
            line.strip_prefix(word).is_some_and(|rest| rest.trim_start_matches('"').starts_with(':'))
        })
    };
    // JSON in one line contains both keys somewhere.
    let is_json =
        text.trim_start().starts_with('{') && text.contains("\"apiVersion\"") && text.contains("\"kind\"");
    is_json || has("apiVersion") && has("kind")
}

/// An error at a line.
#[derive(Debug)]
struct Wrong {
    line: usize,
    message: String,
}

impl Wrong {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    /// Refuses unknown fields, because ignoring a field could change the answer.
    fn unless_known(node: &Yaml, what: &str, known: &[&str]) -> Result<(), Self> {
        match node.fields().iter().find(|(key, ..)| !known.contains(&key.as_str())) {
            Some((key, line, _)) => {
                let known = known.join(", ");
                Err(Self::new(*line, format!("unsupported field '{key}' of {what}; supported: {known}")))
            }
            None => Ok(()),
        }
    }

    fn in_text(self, text: &str) -> LoadError {
        LoadError::new(self.line, line_at(text, self.line), 0, LoadErrorKind::Refused(self.message))
    }
}

/// Reads the network policies of a text as one policy.
///
/// # Errors
///
/// Returns [`LoadErrors`]: all that is wrong with the text, or with the address map.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::FiveTuple;
/// use flowloom_rules::load::kubernetes::{self, Options};
/// use flowloom_rules::firewall::{Assume, Packet};
/// let text = "
/// apiVersion: networking.k8s.io/v1
/// kind: NetworkPolicy
/// metadata: {name: db, namespace: shop}
/// spec:
///   podSelector: {matchLabels: {app: db}}
///   ingress:
///   - from: [{podSelector: {matchLabels: {app: web}}}]
///     ports: [{port: 5432}]
/// ";
/// let addresses = "
/// pods:
/// - {namespace: shop, labels: {app: web}, ips: [10.1.0.5]}
/// - {namespace: shop, labels: {app: db}, ips: [10.1.0.9]}
/// ";
/// let options = Options { addresses: Some(addresses), ..Options::default() };
/// let policy = kubernetes::load(text, &options)?;
/// let line = |source: [u8; 4], port| {
///     let packet = Packet::new(FiveTuple::v4(source, [10, 1, 0, 9], 40_000, port, 6));
///     policy.first_match(&packet, Assume::NoMatch).and_then(|id| policy.source(id)).unwrap().line
/// };
/// assert_eq!((line([10, 1, 0, 5], 5432), line([10, 1, 0, 5], 22)), (8, 6));
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, options: &Options<'_>) -> Result<Policy, LoadErrors> {
    options.limits.check_bytes(text)?;
    let refuse = |line: usize, message: String| Wrong::new(line, message).in_text(text);
    if !CHAINS.contains(&options.chain) {
        let message = format!("no chain '{}': the chains are {}", options.chain, CHAINS.join(", "));
        return Err(refuse(1, message).into());
    }
    let documents = yaml::parse(text)?;
    let mut cluster = match options.addresses {
        Some(addresses) => cluster_of(addresses, options.limits)?,
        None => Cluster::default(),
    };
    let (mut errors, mut notes, mut policies) = (Vec::new(), Vec::new(), Vec::new());
    for document in objects(&documents) {
        match document.text_of("kind") {
            Some("NetworkPolicy") => policies.push(document),
            _ => match cluster.take(document) {
                Ok(true) => {}
                Ok(false) => notes.push(Note { line: document.line, text: passed_over(document) }),
                Err(wrong) => errors.push(wrong.in_text(text)),
            },
        }
    }
    if policies.is_empty() && errors.is_empty() {
        return Ok(Policy::default());
    }
    let mut directions = [Vec::new(), Vec::new()];
    let mut denials = [Vec::new(), Vec::new()];
    for policy in policies {
        match network_policy::read(policy, &cluster) {
            Ok(read) => {
                notes.extend(read.notes);
                for (is_egress, line, conditions) in read.allowed {
                    directions[usize::from(is_egress)].push((line, conditions));
                }
                for (is_egress, line, conditions) in read.isolated {
                    denials[usize::from(is_egress)].push((line, conditions));
                }
            }
            Err(wrong) => errors.extend(wrong.into_iter().map(|wrong| wrong.in_text(text))),
        }
    }
    if let Some(errors) = LoadErrors::from_list(errors) {
        return Err(errors);
    }
    let mut number = 0;
    let mut chain = |name: &str, passes: Target| {
        let at = usize::from(name == "egress");
        let mut rules = Vec::new();
        let deny = Target::Decide { action: Action::Deny, value: 0 };
        for (list, target) in [(&directions[at], passes), (&denials[at], deny)] {
            // The families of one rule of the text form one rule.
            let mut last = 0;
            for (line, conditions) in list {
                number += usize::from(*line != last);
                last = *line;
                let (conditions, target) = (conditions.clone(), target.clone());
                rules.push(ChainRule { number, ..ChainRule::new(conditions, target, *line) });
            }
        }
        Chain { name: name.to_owned(), rules, policy: None }
    };
    let accept = || Target::Decide { action: Action::Accept, value: 1 };
    let mut chains = match options.chain {
        "cluster" => {
            let stages = Vec::from([chain("egress", Target::Return), chain("ingress", accept())]);
            let jump = |name: &str| {
                let target = Target::Jump(name.to_owned());
                ChainRule { number: 0, ..ChainRule::new(Conditions::default(), target, 1) }
            };
            let rules = Vec::from([jump("egress"), jump("ingress")]);
            let first = Chain { name: "cluster".to_owned(), rules, policy: None };
            [Vec::from([first]), stages].concat()
        }
        one => Vec::from([chain(one, accept())]),
    };
    if chains.iter().map(|chain| chain.rules.len()).sum::<usize>() > options.limits.rules_max {
        let kind = LoadErrorKind::TooMuch { what: "rules", limit: options.limits.rules_max };
        return Err(LoadError::new(1, line_at(text, 1), 0, kind).into());
    }
    // Pods that no policy isolates are open.
    chains[0].policy = Some((Action::Accept, 1, 1));
    let chains = Chains { chains, families: None };
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    chains
        .flatten(options.chain, options.limits.rules_max, &mut entries, &mut sources)
        .map_err(|error| refuse(1, error.to_string()))?;
    Policy::new(entries, sources, notes).map_err(|error| refuse(1, error.to_string()).into())
}

/// Reads an address map. Errors refer to its lines.
fn cluster_of(addresses: &str, limits: LoadLimits) -> Result<Cluster, LoadErrors> {
    limits.check_bytes(addresses)?;
    let map = yaml::parse(addresses).map_err(|error| {
        let kind = LoadErrorKind::Refused(format!("address map: {}", error.kind));
        LoadError { kind, ..error }
    })?;
    let (mut cluster, mut errors) = (Cluster::default(), Vec::new());
    let mut is_any = false;
    for document in objects(&map) {
        match cluster.take(document) {
            Ok(is_taken) => is_any |= is_taken,
            Err(wrong) => {
                let message = format!("address map: {}", wrong.message);
                errors.push(Wrong { message, ..wrong }.in_text(addresses));
            }
        }
    }
    if !is_any && errors.is_empty() {
        let message = String::from(
            "address map: no object contains addresses; write the output of 'kubectl get \
             namespaces,pods -A -o yaml', or an object with the fields namespaces and pods",
        );
        errors.push(Wrong::new(1, &message).in_text(addresses));
    }
    LoadErrors::from_list(errors).map_or(Ok(cluster), Err)
}

/// Returns the objects of documents; for a list, its items.
fn objects(documents: &[Yaml]) -> impl Iterator<Item = &Yaml> {
    documents.iter().flat_map(|document| {
        let is_list = document.text_of("kind").is_some_and(|kind| kind.ends_with("List"));
        if is_list { document.list("items").iter().collect() } else { Vec::from([document]) }
    })
}

fn passed_over(document: &Yaml) -> String {
    match document.text_of("kind") {
        Some(kind) => format!("a {kind} decides nothing here"),
        None => "an object without kind decides nothing here".to_owned(),
    }
}

#[cfg(test)]
mod tests;
