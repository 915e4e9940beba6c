//! A run with rules: loads the rules from a file, and turns the counts of the workers into figures.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flowloom::apps::Firewall;
use flowloom::apps::firewall::{Defaults, Enforcement, FirewallOptions, FirewallRules, Hits, LiveRules};
use flowloom::engine::Verdict;
use flowloom::rules::firewall::{Knowledge, Policy};

use super::role::Role;
use crate::args::Common;
use crate::args::classify::AlgorithmName;
use crate::args::firewall::{FirewallOptions as Options, RuleSource};
use crate::args::replay::Replay;
use crate::args::rules::{EnforceOptions, RuleOptions};
use crate::background::{Activate, Reload, Stamp};
use crate::exit::Failure;
use crate::interface::{self, Captured};
use crate::render::rules::FamilyResult;
use crate::render::verdicts::{FirewallFigures, HitFigures, RuleFigures};
use crate::rule_file::{self, RuleFile};
use crate::verify::Sums;

/// The rules of a run, and the settings for reloading them.
pub(crate) struct Rules {
    live: Arc<LiveRules>,
    loader: Loader,
    policy: Policy,
    enforcement: Enforcement,
    /// The stamp of the file when it was read.
    stamp: Stamp,
    form: &'static str,
    /// Reload the file when it changes.
    watch: bool,
    options: FirewallOptions,
}

/// Reads and builds the rules that the arguments name.
#[derive(Clone, Debug)]
struct Loader {
    file: RuleOptions,
    enforce: EnforceOptions,
    defaults: Defaults,
    algorithm: AlgorithmName,
    memory_bytes_max: usize,
    captures: Vec<PathBuf>,
    /// The interfaces of a wire.
    ports: Option<[String; 2]>,
    /// The interfaces that captured the packets, once a rule has needed them.
    captured: OnceLock<Option<Captured>>,
}

/// Where the packets come from that rules judge.
pub(crate) enum Origin {
    /// Captures, which may say where they were taken.
    Captures(Vec<PathBuf>),
    /// An interface, by which all packets come in.
    Interface(String),
    /// Two interfaces: a packet that enters by one leaves by the other.
    Wire([String; 2]),
}

impl Loader {
    /// Reads the file, and builds its classifier. The error names the line, or the exceeded budget.
    fn load(&self) -> Result<(FirewallRules, RuleFile), Failure> {
        let file = rule_file::read_of(&self.file, "--rules-table")?;
        let enforcement = self.enforcement(&file)?;
        let matcher = self
            .algorithm
            .build(file.policy.clone(), self.memory_bytes_max)
            .map_err(|error| Failure::Usage(format!("{}: {error}", self.file.rules.display())))?;
        let rules = FirewallRules::of_matcher(matcher, self.defaults, enforcement)
            .map_err(|error| Failure::Usage(format!("{}: {error}", self.file.rules.display())))?;
        Ok((rules, file))
    }

    /// Returns the information that the rules need besides packets. The flow table provides states,
    /// and decoded packets provide their fields.
    fn enforcement(&self, file: &RuleFile) -> Result<Enforcement, Failure> {
        let on_wire = self.ports.is_some();
        let known = Knowledge {
            headers: true,
            state: true,
            frame: true,
            mac: true,
            input: on_wire,
            output: on_wire,
        };
        let captured = || *self.captured.get_or_init(|| interface::of_captures(&self.captures));
        let enforcement = file.enforcement(&self.enforce, known, &captured)?;
        Ok(Enforcement { ports: self.ports.clone(), ..enforcement })
    }
}

impl Rules {
    /// Loads the rules, if there are any.
    pub(super) fn from_arguments(arguments: &Replay, common: &Common) -> Result<Option<Self>, Failure> {
        let options = &arguments.firewall;
        let Some(path) = &options.source.rules else { return Ok(None) };
        rule_file::check_inputs(path, &arguments.inputs)?;
        let origin = match &arguments.live.iface {
            Some(interface) => Origin::Interface(interface.clone()),
            None => Origin::Captures(arguments.inputs.clone()),
        };
        Self::load(path, options, origin, common).map(Some)
    }

    /// Loads the rules in a file, for packets of this origin.
    pub(crate) fn load(
        path: &Path,
        options: &Options,
        origin: Origin,
        common: &Common,
    ) -> Result<Self, Failure> {
        if options.watch_rules && path.as_os_str() == "-" {
            return Err(Failure::Usage(String::from(
                "--watch-rules cannot watch standard input\n  save the rules to a file first",
            )));
        }
        let (captures, ports, captured) = match origin {
            Origin::Captures(paths) => (paths, None, OnceLock::new()),
            Origin::Interface(name) => (Vec::new(), None, OnceLock::from(Captured::on(&name))),
            Origin::Wire(names) => (Vec::new(), Some(names), OnceLock::new()),
        };
        let loader = Loader {
            file: RuleOptions {
                rules: path.to_path_buf(),
                table: options.source.rules_table.clone(),
                file: options.source.file.clone(),
            },
            enforce: options.source.enforce.clone(),
            defaults: defaults(options),
            algorithm: options.rules_algorithm,
            memory_bytes_max: usize::try_from(options.rules_memory).unwrap_or(usize::MAX),
            captures,
            ports,
            captured,
        };
        let stamp = Stamp::read(path);
        let (rules, file) = loader.load()?;
        file.warn_of_notes(common);
        let enforcement = loader.enforcement(&file)?;
        rule_file::warn_of_interface(&loader.enforce, &enforcement, common);
        let (form, policy) = (file.form.name(), file.policy);
        let RuleSource { per_packet, strict_tcp, .. } = options.source;
        let judging = FirewallOptions { per_packet, strict_tcp };
        let live = Arc::new(LiveRules::new(rules));
        Ok(Self {
            live,
            loader,
            policy,
            enforcement,
            stamp,
            form,
            watch: options.watch_rules,
            options: judging,
        })
    }

    /// Returns the active rules and their counters.
    pub(crate) fn live(&self) -> Arc<LiveRules> {
        Arc::clone(&self.live)
    }

    /// Returns whether the first rules ask for connection states.
    pub(crate) fn ask_state(&self) -> bool {
        self.policy.asks_state()
    }

    /// Returns the settings of the firewall.
    pub(crate) fn options(&self) -> FirewallOptions {
        self.options
    }

    /// Returns the application's role.
    pub(super) fn role(&self) -> FirewallRole {
        let (policy, enforcement) = (self.policy.clone(), self.enforcement.clone());
        let plain = FirewallRules::scanning_policy(policy, self.loader.defaults, enforcement)
            .expect("the rules were accepted when they were loaded");
        FirewallRole {
            live: Arc::clone(&self.live),
            oracle: Arc::new(LiveRules::new(plain)),
            options: self.options,
        }
    }

    /// Returns how to reload the rules. Returns `None` if they come from a pipe, or if an oracle,
    /// which knows only the first rules, checks the run.
    pub(crate) fn reload(&self, is_verified: bool, quiet: bool) -> Option<Reload> {
        let path = self.loader.file.rules.clone();
        if path.as_os_str() == "-" || is_verified {
            return None;
        }
        let (live, loader) = (Arc::clone(&self.live), self.loader.clone());
        let load = Box::new(move || {
            let live = Arc::clone(&live);
            loader.load().map(|(rules, _)| Box::new(move || live.replace(rules)) as Activate)
        });
        Some(Reload { path, watch: self.watch, quiet, load, stamp: self.stamp })
    }

    fn searches(&self, rules: &FirewallRules) -> Vec<FamilyResult> {
        let Some(matcher) = rules.matcher() else { return Vec::new() };
        match matcher.classifier() {
            Some(classifier) => {
                let stats = classifier.stats();
                [&stats.v4, &stats.v6].map(FamilyResult::new).into()
            }
            None => FamilyResult::of_tree(self.loader.algorithm.title(), matcher).into(),
        }
    }

    /// Returns the figures of a run whose applications have been dropped.
    pub(crate) fn figures(&self, top: usize, reloads: (u64, u64)) -> FirewallFigures {
        let counts = self.live.counts();
        let (generation, rules) = self.live.current();
        // Counts of replaced rules would appear under the numbers of other rules.
        let hits: &[Hits] = if counts.generation == generation { &counts.by_rule } else { &[] };
        let mut busy: Vec<(u32, Hits)> =
            (0..).zip(hits.iter().copied()).skip(1).filter(|(_, hits)| hits.packets > 0).collect();
        busy.sort_by_key(|&(number, hits)| (std::cmp::Reverse(hits.packets), number));
        FirewallFigures {
            rules_path: self.loader.file.rules.display().to_string(),
            form: self.form,
            rules: rules.count() as u64,
            searches: self.searches(&rules),
            default: word(self.loader.defaults.unmatched),
            no_action: word(self.loader.defaults.no_action),
            per_packet: self.options.per_packet,
            strict_tcp: self.options.strict_tcp,
            accepted: HitFigures::new(counts.accepted),
            denied: HitFigures::new(counts.denied),
            unmatched: HitFigures::new(counts.unmatched),
            of_other_family: HitFigures::new(counts.of_other_family),
            not_opened: HitFigures::new(counts.not_opened),
            undecided: HitFigures::new(counts.undecided),
            rules_hit: busy.len() as u64,
            top: busy
                .iter()
                .take(top)
                .map(|&(number, hits)| RuleFigures {
                    number: u64::from(number),
                    rule: rules.text(number),
                    verdict: word(rules.verdict(number)),
                    packets: hits.packets,
                    bytes: hits.bytes,
                    flows: hits.flows,
                })
                .collect(),
            reloads: reloads.0,
            reloads_failed: reloads.1,
        }
    }
}

fn defaults(options: &Options) -> Defaults {
    Defaults {
        unmatched: options.source.unmatched.verdict(),
        no_action: options.source.no_action.verdict(),
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Deny => "deny",
    }
}

/// A firewall; the oracle uses linear search.
pub(super) struct FirewallRole {
    live: Arc<LiveRules>,
    oracle: Arc<LiveRules>,
    options: FirewallOptions,
}

impl Role for FirewallRole {
    type App = Firewall;
    const NAME: &'static str = "firewall";
    // Which packets are accepted depends on the packet that comes first.
    const SUMS: Sums = &[&["packets_accepted", "packets_denied"], &["bytes_accepted", "bytes_denied"]];

    fn app(&self) -> Firewall {
        Firewall::new(Arc::clone(&self.live), self.options)
    }

    fn oracle(&self) -> Firewall {
        Firewall::new(Arc::clone(&self.oracle), self.options)
    }
}
