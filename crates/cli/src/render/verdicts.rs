//! The results of the firewall, as part of the result of `replay`.

use flowloom::apps::firewall::Hits;
use flowloom::classifier::Action;
use schemars::JsonSchema;
use serde::Serialize;

use super::rules::FamilyResult;
use super::words::{rule_forms, verdicts};
use super::{bytes, counted, grouped, percent, warn};
use crate::args::Common;

/// Verdicts, and the rules that gave them.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct FirewallFigures {
    /// The file of the rules.
    pub(crate) rules_path: String,
    /// Its format.
    #[schemars(extend("enum" = rule_forms()))]
    pub(crate) form: &'static str,
    /// Rules in force at the end.
    pub(crate) rules: u64,
    /// The search structures for rules of IPv4 and of IPv6 that were in force at the end.
    pub(crate) searches: Vec<FamilyResult>,
    /// Action for packets that no rule matched.
    #[schemars(extend("enum" = verdicts()))]
    pub(crate) default: &'static str,
    /// Action of rules without an action.
    #[schemars(extend("enum" = verdicts()))]
    pub(crate) no_action: &'static str,
    /// Whether every packet was decided separately; otherwise flows are decided by their first
    /// packet.
    pub(crate) per_packet: bool,
    /// Whether TCP packets were denied until a SYN had opened their connection.
    pub(crate) strict_tcp: bool,
    /// Accepted packets.
    pub(crate) accepted: HitFigures,
    /// Denied packets.
    pub(crate) denied: HitFigures,
    /// Packets that no rule matched, independent of the action.
    pub(crate) unmatched: HitFigures,
    /// Those of `unmatched` whose address family no rule matches, such as IPv6 under rules of
    /// iptables-save.
    pub(crate) of_other_family: HitFigures,
    /// Denied packets of connections that no SYN had opened.
    pub(crate) not_opened: HitFigures,
    /// Denied packets that lack what the rules ask for, such as the state of a later fragment.
    pub(crate) undecided: HitFigures,
    /// Rules in force at the end that decided at least one packet or flow.
    pub(crate) rules_hit: u64,
    /// The busiest of the rules in force at the end, since they were loaded.
    pub(crate) top: Vec<RuleFigures>,
    /// Number of successful reloads of the rules.
    pub(crate) reloads: u64,
    /// Number of failed reloads, after which the rules remained unchanged.
    pub(crate) reloads_failed: u64,
}

/// Packets and flows with the same decision.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct HitFigures {
    /// Packets.
    pub(crate) packets: u64,
    /// Their bytes on the wire.
    pub(crate) bytes: u64,
    /// Flows by their first verdict. The counts per rule include flows that were decided again
    /// after the rules had changed.
    pub(crate) flows: u64,
}

impl HitFigures {
    pub(crate) fn new(hits: Hits) -> Self {
        Self { packets: hits.packets, bytes: hits.bytes, flows: hits.flows }
    }
}

/// One of the most-matched rules.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RuleFigures {
    /// Position in the file, from one.
    pub(crate) number: u64,
    /// The packets that it matches.
    pub(crate) rule: String,
    /// Its verdict.
    #[schemars(extend("enum" = verdicts()))]
    pub(crate) verdict: &'static str,
    /// Packets it decided.
    pub(crate) packets: u64,
    /// Their bytes on the wire.
    pub(crate) bytes: u64,
    /// Flows for which it was found.
    pub(crate) flows: u64,
}

impl FirewallFigures {
    /// Warns of packets that the rules say nothing about, or do not decide, and that are denied.
    pub(crate) fn warn_of_denied(&self, common: &Common) {
        if self.undecided.packets > 0 {
            warn(
                &format!(
                    "{} lack what {} asks for and count as denied\n  of fragments only the first has ports and a \
                     state: replay --defrag joins those that are captured whole; --assume decides all others",
                    counted(self.undecided.packets, "packet"),
                    self.rules_path
                ),
                common,
            );
        }
        let packets = self.of_other_family.packets;
        if packets > 0 && self.default == Action::Deny.name() {
            warn(
                &format!(
                    "{} of an address family without rules in {} count as denied\n  --default accept lets them pass",
                    counted(packets, "packet"),
                    self.rules_path
                ),
                common,
            );
        }
    }

    pub(crate) fn lines(&self, lines: &mut Vec<String>) {
        let how = match (self.per_packet, self.strict_tcp) {
            (true, _) => "per packet",
            (_, true) => "per flow, TCP from its SYN on",
            _ => "per flow",
        };
        lines.push(format!(
            "Firewall    {}, {}, {}   no match: {}   no action: {}   {how}",
            self.rules_path,
            self.form,
            counted(self.rules, "rule"),
            self.default,
            self.no_action
        ));
        for search in self.searches.iter().filter(|search| search.rules > 0) {
            lines.push(format!("            search {}", search.summary()));
        }
        let all = self.accepted.packets + self.denied.packets;
        let part = |name: &str, hits: &HitFigures| {
            format!(
                "{name} {} ({}), {}, {} by the first packet",
                counted(hits.packets, "packet"),
                percent(hits.packets, all),
                bytes(hits.bytes),
                counted(hits.flows, "flow")
            )
        };
        lines.push(format!(
            "Verdicts    {}   {}",
            part("accepted", &self.accepted),
            part("denied", &self.denied)
        ));
        let mut parts = vec![format!("            no rule {}", counted(self.unmatched.packets, "packet"))];
        if self.of_other_family.packets > 0 {
            parts.push(format!(
                "of an address family without rules {}",
                counted(self.of_other_family.packets, "packet")
            ));
        }
        if self.strict_tcp {
            parts.push(format!("not opened {}", counted(self.not_opened.packets, "packet")));
        }
        if self.undecided.packets > 0 {
            parts.push(format!("undecided {}", counted(self.undecided.packets, "packet")));
        }
        let idle = self.rules.saturating_sub(self.rules_hit);
        parts.push(format!("rules that decided nothing {}", grouped(idle)));
        lines.push(parts.join("   "));
        for rule in &self.top {
            lines.push(format!(
                "Rule {:<7}{} ({}) of {}   {}   {}",
                format!("#{}", rule.number),
                counted(rule.packets, "packet"),
                percent(rule.packets, all),
                counted(rule.flows, "flow"),
                rule.verdict,
                rule.rule
            ));
        }
        let more = self.rules_hit - self.top.len() as u64;
        if more > 0 {
            lines.push(format!(
                "            {} decided at least one; --top-rules lists {}",
                counted(more, "more rule"),
                if more == 1 { "it" } else { "them" }
            ));
        }
        if self.reloads + self.reloads_failed > 0 {
            lines.push(format!(
                "Reloads     {} took effect, {} failed and left the rules unchanged   rules above: \
                 after the last reload",
                grouped(self.reloads),
                grouped(self.reloads_failed)
            ));
        }
    }
}
