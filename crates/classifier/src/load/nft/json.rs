//! The JSON format: the output of `nft -j list ruleset`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value as Json;

use super::super::{LoadError, LoadErrorKind, LoadLimits};
use super::ast::{
    Chain, Expr, Hook, Op, Rule, Set, Statement, Table, Value, Verdict, from_iptables, priority,
};
use crate::rule::Action;

/// Reads all tables of a text.
pub(super) fn parse(text: &str, limits: LoadLimits) -> (Vec<Table>, Vec<LoadError>) {
    let document: Json = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => {
            let line = error.line().max(1);
            let shown = text.lines().nth(line - 1).unwrap_or("");
            let at = shown
                .char_indices()
                .nth(error.column().saturating_sub(1))
                .map_or(shown.len(), |(at, _)| at);
            let kind = LoadErrorKind::Form(format!("no JSON: {error}"));
            return (Vec::new(), Vec::from([LoadError::new(line, shown, at, kind)]));
        }
    };
    let Some(objects) = document.get("nftables").and_then(Json::as_array) else {
        let kind =
            LoadErrorKind::Expected("an object with a list \"nftables\", as nft -j list ruleset prints");
        return (Vec::new(), Vec::from([LoadError::new(1, text.lines().next().unwrap_or(""), 0, kind)]));
    };
    // The start of each rule, for line numbers.
    let mut places = text.match_indices("\"rule\"").map(|(at, _)| at);
    let mut tables: Vec<Table> = Vec::new();
    let mut errors = Vec::new();
    let mut number = 0;
    for object in objects {
        // A script of commands wraps each object in `add`.
        let object = object.get("add").or_else(|| object.get("create")).unwrap_or(object);
        let Some((kind, body)) = object.as_object().and_then(|object| object.iter().next()) else {
            continue;
        };
        if kind == "metainfo" || body.is_null() {
            continue;
        }
        let text_of = |key: &str| body.get(key).and_then(Json::as_str).unwrap_or("");
        let family = text_of("family");
        let table = if kind == "table" { text_of("name") } else { text_of("table") };
        let index =
            tables.iter().position(|t| t.family == family && t.name == table).unwrap_or_else(|| {
                tables.push(Table::new(family, table));
                tables.len() - 1
            });
        let table = &mut tables[index];
        match kind.as_str() {
            "chain" => {
                let chain = table.chain(text_of("name"));
                read_chain(chain, body);
            }
            "set" | "map" => {
                let flags = body.get("flags").map(ToString::to_string).unwrap_or_default();
                let is_dynamic = flags.contains("dynamic") || flags.contains("timeout");
                let elements = body.get("elem").map_or_else(|| Ok(Vec::new()), elements);
                match elements {
                    Ok(elements) => {
                        table.sets.insert(text_of("name").into(), Set { elements, is_dynamic });
                    }
                    Err(message) => errors.push(super::error(text, 0, LoadErrorKind::Refused(message))),
                }
            }
            "element" => match body.get("elem").map_or_else(|| Ok(Vec::new()), elements) {
                Ok(elements) => {
                    table.sets.entry(text_of("name").into()).or_default().elements.extend(elements);
                }
                Err(message) => errors.push(super::error(text, 0, LoadErrorKind::Refused(message))),
            },
            "rule" => {
                let at = places.next().unwrap_or(0);
                number += 1;
                if number > limits.rules_max {
                    let kind = LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max };
                    errors.push(super::error(text, at, kind));
                    break;
                }
                let line = text[..at].matches('\n').count() + 1;
                let list = body.get("expr").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
                match list.iter().map(statement).collect() {
                    Ok(statements) => {
                        table.chain(text_of("chain")).rules.push(Rule { statements, line, number, at });
                    }
                    Err(message) => errors.push(super::error(text, at, LoadErrorKind::Refused(message))),
                }
            }
            _ => {}
        }
    }
    (tables, errors)
}

fn read_chain(chain: &mut Chain, body: &Json) {
    let text_of = |key: &str| body.get(key).and_then(Json::as_str).map(String::from);
    if let (Some(kind), Some(name)) = (text_of("type"), text_of("hook")) {
        let number = match body.get("prio") {
            Some(Json::String(name)) => priority(name).unwrap_or(0),
            Some(number) => number.as_i64().unwrap_or(0),
            None => 0,
        };
        chain.hook = Some(Hook { kind, name, priority: number });
    }
    chain.line = 1;
    chain.policy = text_of("policy").and_then(|policy| match policy.as_str() {
        "accept" => Some(Action::Accept),
        "drop" => Some(Action::Deny),
        _ => None,
    });
}

/// Returns the one key and value of an object.
fn entry(json: &Json) -> Option<(&str, &Json)> {
    json.as_object()?.iter().next().map(|(key, value)| (key.as_str(), value))
}

fn word(json: &Json) -> Option<String> {
    match json {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn verdict(kind: &str, body: &Json) -> Option<Verdict> {
    let target = || body.get("target").and_then(Json::as_str).map(String::from);
    Some(match kind {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "reject" => Verdict::Reject,
        "continue" => Verdict::Continue,
        "return" => Verdict::Return,
        "jump" => Verdict::Jump(target()?),
        "goto" => Verdict::Goto(target()?),
        "snat" | "dnat" | "masquerade" | "redirect" => Verdict::Translate,
        _ => return None,
    })
}

fn statement(json: &Json) -> Result<Statement, String> {
    if let Some(text) = json.as_str() {
        return verdict(text, &Json::Null)
            .map(Statement::Verdict)
            .ok_or_else(|| format!("unsupported statement '{text}'"));
    }
    let Some((kind, body)) = entry(json) else {
        return Err("expected an object with one statement".into());
    };
    if let Some(verdict) = verdict(kind, body) {
        return Ok(Statement::Verdict(verdict));
    }
    Ok(match kind {
        "match" => {
            let (left, right) =
                body.get("left").zip(body.get("right")).ok_or("expected a match with left and right")?;
            let op = match body.get("op").and_then(Json::as_str).unwrap_or("in") {
                "==" => Op::Equal,
                "!=" => Op::NotEqual,
                "<" => Op::Less,
                "<=" => Op::LessOrEqual,
                ">" => Op::Greater,
                ">=" => Op::GreaterOrEqual,
                _ => Op::In,
            };
            match value(right) {
                Ok(right) => Statement::Match(expr(left)?, op, right),
                // For example another field: packets alone do not show whether the two are equal.
                Err(_) => Statement::Unknowable(format!("match {body}")),
            }
        }
        "vmap" => {
            let (key, data) =
                body.get("key").zip(body.get("data")).ok_or("expected a map with key and data")?;
            Statement::Vmap(expr(key)?, value(data)?)
        }
        "counter" | "log" | "mangle" | "notrack" | "ct helper" | "ct timeout" | "ct expectation"
        | "ct event" | "flow" | "dup" | "fwd" | "reset" | "secmark" | "last" => {
            Statement::Passes(kind.into())
        }
        "set" | "map" => {
            let text = body.to_string();
            if ["\"limit\"", "\"quota\"", "\"ct count\""].iter().any(|word| text.contains(word)) {
                Statement::Unknowable(format!("{kind} {text}"))
            } else {
                Statement::Passes(kind.into())
            }
        }
        "queue" => Statement::Queue,
        "synproxy" => Statement::MayTake("synproxy takes the packet".into()),
        "xt" => {
            let Some(name) = body.get("name").and_then(Json::as_str) else {
                return Err("unsupported statement 'xt' from iptables; use iptables-save".into());
            };
            from_iptables(name)?
        }
        "limit" | "quota" | "ct count" | "meter" | "tproxy" => {
            Statement::Unknowable(format!("{kind} {body}"))
        }
        other => {
            return Err(format!("unsupported statement '{other}'; remove the rule or rewrite it"));
        }
    })
}

fn expr(json: &Json) -> Result<Expr, String> {
    let Some((kind, body)) = entry(json) else { return Err("expected a field on the left".into()) };
    let text_of = |key: &str| body.get(key).and_then(Json::as_str).map(String::from);
    Ok(match kind {
        "payload" => match (text_of("protocol"), text_of("field")) {
            (Some(header), Some(field)) => Expr::Payload(header, field),
            _ => Expr::Other(format!("payload {body}")),
        },
        "meta" => Expr::Meta(text_of("key").ok_or("expected a key of meta")?),
        "ct" => {
            let key = text_of("key").ok_or("expected a key of ct")?;
            Expr::Ct(text_of("dir").map_or(key.clone(), |dir| format!("{dir} {key}")))
        }
        "concat" => {
            let parts = body.as_array().ok_or("expected a list of fields")?;
            Expr::Concat(parts.iter().map(expr).collect::<Result<_, _>>()?)
        }
        "&" => match body.as_array().map(Vec::as_slice) {
            Some([inner, mask]) => Expr::Masked(Box::new(expr(inner)?), Box::new(value(mask)?)),
            _ => return Err("expected a field and a mask".into()),
        },
        "exthdr" => Expr::Payload("exthdr".into(), text_of("name").unwrap_or_default()),
        other => Expr::Other(format!("{other} {body}")),
    })
}

fn value(json: &Json) -> Result<Value, String> {
    if let Some(word) = word(json) {
        return Ok(match word.strip_prefix('@') {
            Some(name) => Value::Named(name.into()),
            None if word == "*" => Value::Any,
            None => Value::Word(word),
        });
    }
    match json {
        Json::Bool(is_there) => Ok(if *is_there { Value::Any } else { Value::Word("missing".into()) }),
        // Bits: one of them is set. A set is an object.
        Json::Array(list) => match list.iter().map(word).collect() {
            Some(words) => Ok(Value::Flags(words)),
            None => Ok(Value::Set(elements(json)?)),
        },
        Json::Object(_) => {
            let (kind, body) = entry(json).ok_or("expected a value")?;
            let two = || match body.as_array().map(Vec::as_slice) {
                Some([a, b]) => Some((a, b)),
                _ => None,
            };
            match kind {
                "set" => Ok(Value::Set(elements(body)?)),
                "range" => {
                    let ends = two().and_then(|(low, high)| word(low).zip(word(high)));
                    let (low, high) = ends.ok_or("expected a range with two ends")?;
                    Ok(Value::Range(low, high))
                }
                "prefix" => {
                    let address =
                        body.get("addr").and_then(word).ok_or("expected a prefix with addr and len")?;
                    let length =
                        body.get("len").and_then(word).ok_or("expected a prefix with addr and len")?;
                    Ok(Value::Word(format!("{address}/{length}")))
                }
                "concat" => {
                    let parts = body.as_array().ok_or("expected a list of values")?;
                    Ok(Value::Concat(parts.iter().map(value).collect::<Result<_, _>>()?))
                }
                "elem" => value(body.get("val").ok_or("expected an element with val")?),
                "|" => {
                    let parts = body.as_array().ok_or("expected a list of flags")?;
                    let mut flags = Vec::new();
                    for part in parts {
                        match value(part)? {
                            Value::Word(word) => flags.push(word),
                            Value::Flags(words) => flags.extend(words),
                            _ => return Err("expected flags".into()),
                        }
                    }
                    Ok(Value::Flags(flags))
                }
                other => Err(format!("unsupported value '{other}'")),
            }
        }
        _ => Err("expected a value".into()),
    }
}

/// Reads the elements of a set or a map: each key with its value.
fn elements(json: &Json) -> Result<Vec<(Value, Option<Verdict>)>, String> {
    let list = match json {
        Json::Array(list) => list.as_slice(),
        one => core::slice::from_ref(one),
    };
    let mut all = Vec::with_capacity(list.len());
    for element in list {
        if let Json::Array(pair) = element
            && let [key, data] = &pair[..]
        {
            let found = match data {
                Json::String(text) => verdict(text, &Json::Null),
                data => entry(data).and_then(|(kind, body)| verdict(kind, body)),
            };
            let found = found.ok_or("expected a map of verdicts; other maps are not supported")?;
            all.push((value(key)?, Some(found)));
        } else {
            all.push((value(element)?, None));
        }
    }
    Ok(all)
}
