//! Policies as JSON, for other programs: each entry with its conditions as text, and the fields of
//! its boxes if it is plain.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::firewall::{Outcome, Policy, Ranges, address_text};

/// Returns the entries of a policy as a JSON document.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, toml};
/// let text = "[[rule]]\nsource = '10.0.0.0/8'\naction = 'deny'\n";
/// let policy = toml::load(text, LoadLimits::default())?;
/// let text = flowloom_rules::write::json::write(&policy);
/// assert!(text.contains("\"source\": [\n        \"10.0.0.0-10.255.255.255\""), "{text}");
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
#[must_use]
pub fn write(policy: &Policy) -> String {
    let entries: Vec<Value> = policy
        .entries()
        .map(|entry| {
            let conditions = &entry.conditions;
            let source = policy.sources().get(entry.source as usize);
            let is_v6 = conditions.families.v6 && !conditions.families.v4;
            let set = |field: &Option<Ranges>, text: &dyn Fn(u128) -> String| {
                field.as_ref().map(|set| {
                    let ranges = set.as_slice().iter();
                    ranges
                        .map(|&(low, high)| {
                            if low == high {
                                text(low)
                            } else {
                                alloc::format!("{}-{}", text(low), text(high))
                            }
                        })
                        .collect::<Vec<_>>()
                })
            };
            let address = |value: u128| address_text(value, is_v6);
            let number = |value: u128| value.to_string();
            let mut object = json!({
                "number": entry.source + 1,
                "line": source.map_or(0, |source| source.line),
                "ipv4": conditions.families.v4,
                "ipv6": conditions.families.v6,
                "source": set(&conditions.source, &address),
                "destination": set(&conditions.destination, &address),
                "protocols": set(&conditions.protocols, &number),
                "source_ports": set(&conditions.source_ports, &number),
                "destination_ports": set(&conditions.destination_ports, &number),
                "conditions": conditions.tests.iter().map(ToString::to_string).collect::<Vec<_>>(),
            });
            match entry.outcome {
                Outcome::Decide { action, value } => {
                    object["action"] = action.map_or(Value::Null, |action| Value::from(action.name()));
                    object["value"] = Value::from(value);
                }
                Outcome::Skip { to } => object["next"] = Value::from(to),
            }
            if let Some(source) = source.filter(|source| !source.chain.is_empty()) {
                object["chain"] = Value::from(&*source.chain);
            }
            object
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&json!({ "entries": entries })).unwrap_or_default();
    text.push('\n');
    text
}
