//! The JSON format: the output of `nft -j list ruleset`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value as Json;

use super::super::{LoadError, LoadErrorKind, LoadLimits, has_word, reject};
use super::ast::{
    AFTER_LAST, Chain, Expr, Op, Parsed, Rule, Statement, TABLE_FLAGS, Table, Value, Verdict, families_of,
    from_iptables,
};
use super::hook::Hook;
use crate::rule::Action;

/// Reads all tables of a text.
pub(super) fn parse(text: &str, limits: LoadLimits) -> Parsed {
    let failed = |error| Parsed { errors: Vec::from([error]), ..Parsed::default() };
    let document: Json = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return failed(LoadError::of_json(text, &error)),
    };
    let Some(objects) = document.get("nftables").and_then(Json::as_array) else {
        let kind =
            LoadErrorKind::Expected("an object with a list \"nftables\", as nft -j list ruleset prints");
        return failed(LoadError::new(1, text.lines().next().unwrap_or(""), 0, kind));
    };
    let mut reader = Reader { text, limits, tables: Vec::new(), number: 0, line: 1, counted: 0 };
    let mut errors = Vec::new();
    let mut places = places(text).into_iter();
    for object in objects {
        let at = places.next().unwrap_or(0);
        if let Err(kind) = reader.object(object, at) {
            let is_end = matches!(kind, LoadErrorKind::TooMuch { .. });
            errors.push(super::error(text, at, kind));
            if is_end {
                break;
            }
        }
    }
    Parsed { tables: reader.tables, notes: Vec::new(), errors }
}

/// Returns the first byte of each object in the list of a valid text.
fn places(text: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b'{' | b'[' => {
                depth += 1;
                if byte == b'{' && depth == 3 {
                    places.push(at);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    places
}

/// The tables so far.
struct Reader<'a> {
    text: &'a str,
    limits: LoadLimits,
    tables: Vec<Table>,
    /// Number of rules.
    number: usize,
    /// The line of byte `counted`.
    line: usize,
    counted: usize,
}

impl Reader<'_> {
    /// Reads an object that begins at a byte of the text.
    fn object(&mut self, object: &Json, at: usize) -> Result<(), LoadErrorKind> {
        let refused = |message: String| LoadErrorKind::Refused(message);
        self.line += self.text.get(self.counted..at).unwrap_or("").matches('\n').count();
        self.counted = at;
        let Some((mut kind, mut body)) = entry(object) else { return Ok(()) };
        // A script of commands wraps each object.
        let (mut is_insert, mut is_command) = (false, false);
        if matches!(kind, "add" | "create" | "insert") {
            (is_insert, is_command) = (kind == "insert", true);
            let inner = entry(body).ok_or_else(|| refused(format!("expected an object in '{kind}'")))?;
            (kind, body) = inner;
        } else if kind == "flush" && body.get("ruleset").is_some() {
            self.tables.clear();
            return Ok(());
        }
        let text_of = |key: &str| body.get(key).and_then(Json::as_str).unwrap_or("");
        match kind {
            "metainfo" | "flowtable" | "counter" | "quota" | "limit" | "ct helper" | "ct timeout"
            | "ct expectation" | "synproxy" | "secmark" | "tunnel" => return Ok(()),
            _ => {}
        }
        let family = text_of("family");
        if families_of(family).is_none() && matches!(kind, "table" | "chain" | "rule") {
            return Err(refused(format!("unsupported family '{family}' of a table")));
        }
        let table = if kind == "table" { text_of("name") } else { text_of("table") };
        let tables = &mut self.tables;
        let index =
            tables.iter().position(|t| t.family == family && t.name == table).unwrap_or_else(|| {
                tables.push(Table::new(family, table));
                tables.len() - 1
            });
        let table = &mut tables[index];
        match kind {
            "chain" => {
                read_chain(family, table.chain(text_of("name")), body, self.line).map_err(refused)?;
            }
            "set" | "map" => {
                let flags = flags(body, "constant interval dynamic timeout").map_err(refused)?;
                let has_timeout = flags.contains(&"timeout") || body.get("timeout").is_some();
                let is_dynamic = flags.contains(&"dynamic") || has_timeout;
                let elements = body.get("elem").map_or_else(|| Ok(Vec::new()), elements);
                let elements = elements.map_err(refused)?;
                let set = table.sets.entry(text_of("name").into()).or_default();
                set.elements.extend(elements);
                set.is_dynamic |= is_dynamic;
            }
            "element" => {
                let elements = body.get("elem").map_or_else(|| Ok(Vec::new()), elements);
                let set = table.sets.entry(text_of("name").into()).or_default();
                set.elements.extend(elements.map_err(refused)?);
            }
            "rule" => {
                self.number += 1;
                if self.number > self.limits.rules_max {
                    return Err(LoadErrorKind::TooMuch { what: "rules", limit: self.limits.rules_max });
                }
                // In a listing, a handle is that of the rule itself.
                let is_placed =
                    is_command && (body.get("handle").is_some() || body.get("position").is_some());
                if is_placed || body.get("index").is_some() {
                    return Err(refused(String::from(
                        "unsupported position of a rule; load the script, and use nft -j list ruleset",
                    )));
                }
                let list = body.get("expr").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
                let statements: Result<Vec<Statement>, String> = list.iter().map(statement).collect();
                let is_over = |statements: &[Statement]| {
                    let mut after = statements.iter().skip_while(|statement| !statement.is_last()).skip(1);
                    after.any(|statement| !statement.is_comment())
                };
                let statements = match statements {
                    Ok(statements) if is_over(&statements) => Err(format!("expected {AFTER_LAST}")),
                    statements => statements,
                };
                let statements = statements.unwrap_or_else(|message| {
                    Vec::from([Statement::Wrong(super::error(self.text, at, refused(message)))])
                });
                let rules = &mut table.chain(text_of("chain")).rules;
                let rule = Rule { statements, line: self.line, number: self.number, at, handle: None };
                rules.insert(if is_insert { 0 } else { rules.len() }, rule);
            }
            "table" => {
                let flags = flags(body, TABLE_FLAGS).map_err(refused)?;
                table.is_dormant |= flags.contains(&"dormant");
            }
            _ => {
                return Err(refused(format!(
                    "unsupported command or object '{kind}'; load the script, and use nft -j list ruleset"
                )));
            }
        }
        Ok(())
    }
}

/// Returns the flags of an object, each of which is one of the words of a list.
fn flags<'a>(body: &'a Json, known: &str) -> Result<Vec<&'a str>, String> {
    let all = match body.get("flags") {
        None => &[][..],
        Some(Json::Array(all)) => all.as_slice(),
        Some(one) => core::slice::from_ref(one),
    };
    let one = |flag: &'a Json| {
        let word = flag.as_str().filter(|word| has_word(known, word));
        word.ok_or_else(|| format!("{flag} is not a flag here; write {}", known.replace(' ', ", ")))
    };
    all.iter().map(one).collect()
}

fn read_chain(family: &str, chain: &mut Chain, body: &Json, line: usize) -> Result<(), String> {
    let text_of = |key: &str| body.get(key).and_then(word);
    match (text_of("type"), text_of("hook"), text_of("prio")) {
        (None, None, None) => {}
        (Some(kind), Some(name), Some(priority)) => {
            Hook::check_kind(family, &kind)?;
            Hook::check_name(family, &kind, &name)?;
            let priority = Hook::priority_of(family, &name, &priority, "")?;
            chain.set_hook(Hook { kind, name, priority })?;
        }
        _ => return Err("expected type, hook and prio of a base chain, or none of them".into()),
    }
    chain.line = line;
    if let Some(policy) = body.get("policy") {
        chain.policy = Some(match policy.as_str() {
            _ if chain.hook.is_none() => {
                return Err("only a chain with type, hook and prio has a policy".into());
            }
            Some("accept") => Action::Accept,
            Some("drop") => Action::Deny,
            _ => return Err("expected a policy: accept or drop".into()),
        });
    }
    Ok(())
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
        "reject" => {
            let text_of = |key: &str| body.get(key).and_then(Json::as_str);
            let words = text_of("type").map(|kind| match text_of("expr") {
                Some(expr) => format!("{kind} {expr}"),
                None => kind.to_owned(),
            });
            Verdict::Reject(match words {
                None => reject::DEFAULT,
                Some(words) => reject::of_nft(&words)?,
            })
        }
        "jump" => Verdict::Jump(target()?),
        "goto" => Verdict::Goto(target()?),
        "snat" | "dnat" | "masquerade" | "redirect" => Verdict::Translate(kind.into()),
        kind => return Verdict::from_word(kind),
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
                "in" => Op::In,
                // None of these bits is set.
                "!" => {
                    let masked = Expr::Masked(Box::new(expr(left)?), Box::new(value(right)?));
                    return Ok(Statement::Match(masked, Op::Equal, Value::Word("0".into())));
                }
                sign => Op::from_sign(sign).ok_or_else(|| format!("unknown comparison '{sign}'"))?,
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
        "mangle" => {
            let (key, value) =
                body.get("key").zip(body.get("value")).ok_or("expected mangle with key and value")?;
            Statement::Set(expr(key)?, words(value))
        }
        "notrack" => Statement::Untrack(None),
        // The counter of an element; without one, the rule ends here.
        "counter" if body.get("map").is_some() => Statement::Unknowable(format!("{kind} {body}")),
        "counter" | "log" | "ct helper" | "ct timeout" | "ct expectation" | "ct event" | "flow" | "dup"
        | "fwd" | "reset" | "secmark" | "last" => Statement::Passes(kind.into()),
        "set" | "map" => {
            let text = body.to_string();
            if ["\"limit\"", "\"quota\"", "\"ct count\""].iter().any(|word| text.contains(word)) {
                Statement::Unknowable(format!("{kind} {text}"))
            } else {
                Statement::Passes(format!("{kind} {text}"))
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

/// Returns a value that a field gets in the words of the text format.
fn words(json: &Json) -> String {
    let plain = word(json).or_else(|| match entry(json)? {
        (kind @ ("meta" | "ct"), body) => Some(format!("{kind} {}", body.get("key").and_then(word)?)),
        (sign @ ("|" | "&" | "^"), body) => match body.as_array().map(Vec::as_slice) {
            Some([a, b]) => Some(format!("{} {sign} {}", words(a), words(b))),
            _ => None,
        },
        _ => None,
    });
    plain.unwrap_or_else(|| json.to_string())
}

fn expr(json: &Json) -> Result<Expr, String> {
    let Some((kind, body)) = entry(json) else { return Err("expected a field on the left".into()) };
    let text_of = |key: &str| body.get(key).and_then(Json::as_str).map(String::from);
    Ok(match kind {
        "payload" => {
            let number = |key: &str| body.get(key).and_then(Json::as_u64)?.try_into().ok();
            let named = text_of("protocol").zip(text_of("field"));
            let raw = || Some(Expr::Raw(text_of("base")?, number("offset")?, number("len")?));
            let found = named.map(|(header, field)| Expr::Payload(header, field)).or_else(raw);
            found.unwrap_or_else(|| Expr::Other(format!("payload {body}")))
        }
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
            // Other maps have data, such as the addresses of a translation.
            all.push((value(key)?, found));
        } else {
            all.push((value(element)?, None));
        }
    }
    Ok(all)
}
