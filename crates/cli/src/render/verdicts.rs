//! The results of the firewall, as part of the result of `replay`.

use flowloom::apps::firewall::Hits;
use serde::Serialize;

use super::{counted, grouped, percent};

/// Verdicts, and the rules that gave them.
#[derive(Debug, Serialize)]
pub(crate) struct FirewallFigures {
    pub(crate) rules_path: String,
    pub(crate) form: &'static str,
    pub(crate) rules: u64,
    pub(crate) default: &'static str,
    pub(crate) no_action: &'static str,
    pub(crate) per_packet: bool,
    pub(crate) strict_tcp: bool,
    pub(crate) accepted: HitFigures,
    pub(crate) denied: HitFigures,
    pub(crate) unmatched: HitFigures,
    /// Denied packets of connections that no SYN had opened.
    pub(crate) not_opened: HitFigures,
    /// Number of the final rules that decided at least one packet or flow.
    pub(crate) rules_hit: u64,
    pub(crate) top: Vec<RuleFigures>,
    pub(crate) reloads: u64,
    pub(crate) reloads_failed: u64,
}

/// Packets and flows with the same decision.
#[derive(Debug, Serialize)]
pub(crate) struct HitFigures {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) flows: u64,
}

impl HitFigures {
    pub(crate) fn of(hits: Hits) -> Self {
        Self { packets: hits.packets, bytes: hits.bytes, flows: hits.flows }
    }
}

/// One of the most-matched rules.
#[derive(Debug, Serialize)]
pub(crate) struct RuleFigures {
    /// Position in the file, from one.
    pub(crate) number: u64,
    pub(crate) rule: String,
    pub(crate) verdict: &'static str,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) flows: u64,
}

impl FirewallFigures {
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
        let all = self.accepted.packets + self.denied.packets;
        let part = |name: &str, hits: &HitFigures| {
            format!(
                "{name} {} ({}) of {}",
                counted(hits.packets, "packet"),
                percent(hits.packets, all),
                counted(hits.flows, "flow")
            )
        };
        lines.push(format!(
            "Verdicts    {}   {}",
            part("accepted", &self.accepted),
            part("denied", &self.denied)
        ));
        let mut parts = vec![format!("            no rule {}", counted(self.unmatched.packets, "packet"))];
        if self.strict_tcp {
            parts.push(format!("not opened {}", counted(self.not_opened.packets, "packet")));
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
