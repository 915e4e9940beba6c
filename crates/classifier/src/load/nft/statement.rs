//! The rules of a script: statements, comparisons, values, sets.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind};
use super::ast::{Expr, Op, Rule, Statement, Value, Verdict, from_iptables};
use super::text::Parser;
use super::tokens::Kind;

/// Keys of `meta` that may stand without that word.
const META: [&str; 19] = [
    "iifgroup",
    "oifgroup",
    "cgroup",
    "iif",
    "iifname",
    "iiftype",
    "oif",
    "oifname",
    "oiftype",
    "mark",
    "skuid",
    "skgid",
    "rtclassid",
    "ibriport",
    "obriport",
    "ibrname",
    "obrname",
    "pkttype",
    "cpu",
];

/// Headers whose fields are compared.
const HEADERS: [&str; 32] = [
    "ip", "ip6", "tcp", "udp", "udplite", "sctp", "dccp", "th", "icmp", "icmpv6", "igmp", "ether", "vlan",
    "arp", "ah", "esp", "comp", "frag", "rt", "rt0", "rt2", "rt4", "srh", "mh", "hbh", "dst", "exthdr",
    "gre", "gretap", "vxlan", "geneve", "tunnel",
];

/// Headers of tunnels, whose fields may be those of the headers inside.
const TUNNELS: [&str; 4] = ["gre", "gretap", "vxlan", "geneve"];

/// Words that begin a statement: whatever is not known ends before them.
const STARTS: [&str; 21] = [
    "vmap",
    "accept",
    "drop",
    "reject",
    "return",
    "continue",
    "jump",
    "goto",
    "queue",
    "counter",
    "log",
    "comment",
    "limit",
    "quota",
    "masquerade",
    "snat",
    "dnat",
    "redirect",
    "notrack",
    "meta",
    "ct",
];

/// Braces and parentheses inside each other, at most.
const DEPTH_MAX: usize = 16;

impl Parser<'_> {
    /// Reads a rule up to the end of its line. What is wrong with it is kept, and the next line is
    /// read.
    pub(super) fn rule(&mut self) -> Result<Option<Rule>, LoadError> {
        let (line, at) = (self.line(), self.at());
        self.rules += 1;
        if self.rules > self.limits.rules_max {
            let kind = LoadErrorKind::TooMuch { what: "rules", limit: self.limits.rules_max };
            return Err(super::error(self.text, at, kind));
        }
        let mut statements = Vec::new();
        loop {
            match self.peek() {
                None | Some(Kind::Newline | Kind::Sign(";" | "}")) => break,
                _ => {}
            }
            match self.statement() {
                Ok(statement) => statements.push(statement),
                Err(error) => {
                    self.errors.push(error);
                    self.skip_line();
                    return Ok(None);
                }
            }
        }
        Ok(Some(Rule { statements, line, number: self.rules, at }))
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each statement of nftables")]
    fn statement(&mut self) -> Result<Statement, LoadError> {
        let at = self.at();
        if self.is_sign("@") {
            return self.raw();
        }
        let Some(Kind::Word(word)) = self.peek() else {
            return Err(self.expected("a statement such as tcp dport 22, or a verdict"));
        };
        let word = word.as_str();
        let following = self.tokens.get(self.next + 1).map(|token| &token.kind);
        if META.contains(&word) || HEADERS.contains(&word) || matches!(word, "meta" | "ct") {
            return self.comparison();
        }
        if matches!(
            word,
            "fib" | "socket" | "osf" | "numgen" | "jhash" | "symhash" | "ipsec" | "tproxy" | "meter"
        ) {
            return self.unknown_or_map();
        }
        if let Some(name) = word.strip_prefix("xt_") {
            self.next += 1;
            return from_iptables(name).map_err(|message| self.refuse(at, message));
        }
        self.next += 1;
        Ok(match word {
            "accept" => Statement::Verdict(Verdict::Accept),
            "drop" => Statement::Verdict(Verdict::Drop),
            "return" => Statement::Verdict(Verdict::Return),
            "continue" => Statement::Verdict(Verdict::Continue),
            "jump" => Statement::Verdict(Verdict::Jump(self.word("the name of a chain")?)),
            "goto" => Statement::Verdict(Verdict::Goto(self.word("the name of a chain")?)),
            "reject" => {
                if self.take_word("with") {
                    self.unknown();
                }
                Statement::Verdict(Verdict::Reject)
            }
            "masquerade" | "snat" | "dnat" | "redirect" => {
                self.unknown();
                Statement::Verdict(Verdict::Translate)
            }
            "queue" => {
                self.unknown();
                Statement::Queue
            }
            "synproxy" => {
                self.unknown();
                Statement::MayTake("synproxy takes the packet".into())
            }
            "xt" => {
                if !self.take_word("match") && !self.take_word("target") {
                    return Err(self.expected("match or target"));
                }
                let name = self.word("the name of a part of iptables")?;
                from_iptables(&name).map_err(|message| self.refuse(at, message))?
            }
            "last" => {
                if self.take_word("used") {
                    self.word("a time, or never")?;
                }
                Statement::Passes("last".into())
            }
            "reset" | "secmark" => Statement::Passes(format!("{word} {}", self.unknown())),
            "counter" => {
                while self.take_word("packets") || self.take_word("bytes") || self.take_word("name") {
                    self.word("a number")?;
                }
                if matches!(self.peek(), Some(Kind::Text(_))) {
                    self.next += 1;
                }
                Statement::Passes("counter".into())
            }
            "log" => {
                while ["prefix", "level", "group", "snaplen", "queue-threshold", "flags"]
                    .iter()
                    .any(|w| self.take_word(w))
                {
                    self.word("an option of log")?;
                    while self.take_sign(",")
                        || matches!(self.peek(), Some(Kind::Word(w)) if w == "options" || w == "sequence")
                    {
                        self.word("an option of log")?;
                    }
                }
                Statement::Passes("log".into())
            }
            "comment" => {
                self.word("a comment")?;
                Statement::Passes("comment".into())
            }
            "notrack" => Statement::Passes("notrack".into()),
            "limit" | "quota" => Statement::Unknowable(format!("{word} {}", self.unknown())),
            "add" | "update" | "delete" | "set"
                if matches!(following, Some(Kind::Sign("@") | Kind::Word(_))) =>
            {
                let text = self.unknown();
                // An element with a limit matches while the limit holds.
                if ["limit", "quota", "over", "count"]
                    .iter()
                    .any(|word| text.split(' ').any(|w| w == *word))
                {
                    Statement::Unknowable(format!("{word} {text}"))
                } else {
                    Statement::Passes(format!("{word} {text}"))
                }
            }
            "flow" | "dup" | "fwd" | "tcp-option" => {
                Statement::Passes(format!("{word} {}", self.unknown()))
            }
            other => {
                return Err(self.refuse(
                    at,
                    format!("unsupported statement '{other}'; leave the rule out or say it otherwise"),
                ));
            }
        })
    }

    /// Reads bytes of a packet by their place: `@th,16,16 53`.
    fn raw(&mut self) -> Result<Statement, LoadError> {
        self.next += 1;
        let mut text = format!("@{}", self.word("ll, nh, th or ih")?);
        for _ in 0..2 {
            self.need_sign(",")?;
            text = format!("{text},{}", self.word("a number of bits")?);
        }
        self.compared(Expr::Other(text))
    }

    /// Reads an expression that no packet shows, with what it is compared with, or its map.
    fn unknown_or_map(&mut self) -> Result<Statement, LoadError> {
        let text = self.unknown();
        if self.take_word("vmap") {
            let map = self.value(0)?;
            return Ok(Statement::Vmap(Expr::Other(text), map));
        }
        Ok(Statement::Unknowable(text))
    }

    /// Passes what is not known, up to the next statement that is; returns its text.
    fn unknown(&mut self) -> String {
        let mut text = String::new();
        let (mut depth, mut is_first) = (0_usize, true);
        while let Some(token) = self.tokens.get(self.next) {
            match &token.kind {
                Kind::Newline | Kind::Sign(";" | "}") if depth == 0 => break,
                Kind::Word(word) if depth == 0 && !is_first && STARTS.contains(&word.as_str()) => break,
                Kind::Sign("{") => depth += 1,
                Kind::Sign("}") => depth -= 1,
                _ => {}
            }
            let shown = match &token.kind {
                Kind::Word(word) => word.clone(),
                Kind::Text(text) => format!("\"{text}\""),
                Kind::Sign(sign) => (*sign).to_owned(),
                Kind::Newline => String::new(),
            };
            if !text.is_empty() && !shown.is_empty() && !text.ends_with('@') && shown != "," {
                text.push(' ');
            }
            text.push_str(&shown);
            is_first = false;
            self.next += 1;
        }
        text
    }

    fn expr(&mut self) -> Result<Expr, LoadError> {
        let word = self.word("a field such as tcp dport")?;
        match word.as_str() {
            "meta" => Ok(Expr::Meta(self.word("a key of meta")?)),
            "ct" => {
                let mut key = self.word("a key of ct")?;
                if matches!(key.as_str(), "original" | "reply") {
                    key = format!("{key} {}", self.word("a key of ct")?);
                    if matches!(self.peek(), Some(Kind::Word(word)) if matches!(word.as_str(), "saddr" | "daddr"))
                    {
                        key = format!("{key} {}", self.word("a key of ct")?);
                    }
                }
                Ok(Expr::Ct(key))
            }
            word if META.contains(&word) => Ok(Expr::Meta(word.into())),
            "exthdr" => Ok(Expr::Payload("exthdr".into(), self.word("an extension header")?)),
            word => {
                let mut field = self.word("a field of a header")?;
                if word == "tcp" && field == "option" {
                    return Ok(Expr::Other(format!("tcp option {}", self.unknown_field())));
                }
                if field == "option" || word == "sctp" && field == "chunk" {
                    field = format!("{field} {}", self.unknown_field());
                }
                if TUNNELS.contains(&word) && HEADERS.contains(&field.as_str()) {
                    field = format!("{field} {}", self.word("a field of a header")?);
                }
                Ok(Expr::Payload(word.into(), field))
            }
        }
    }

    /// Passes the name of an option or a chunk, and of its field where one is named.
    fn unknown_field(&mut self) -> String {
        /// Fields of options and chunks.
        const FIELDS: [&str; 23] = [
            "size",
            "left",
            "right",
            "count",
            "length",
            "kind",
            "tsval",
            "tsecr",
            "type",
            "ptr",
            "value",
            "addr",
            "subtype",
            "flags",
            "init-tag",
            "a-rwnd",
            "num-outbound-streams",
            "num-inbound-streams",
            "initial-tsn",
            "tsn",
            "stream",
            "ssn",
            "ppid",
        ];
        let mut words = Vec::new();
        while let Some(Kind::Word(word)) = self.peek() {
            if words.len() == 2 || words.len() == 1 && !FIELDS.contains(&word.as_str()) {
                break;
            }
            words.push(word.clone());
            self.next += 1;
        }
        words.join(" ")
    }

    fn comparison(&mut self) -> Result<Statement, LoadError> {
        let mut expr = self.expr()?;
        if self.is_sign(".") {
            let mut parts = Vec::from([expr]);
            while self.take_sign(".") {
                parts.push(self.expr()?);
            }
            expr = Expr::Concat(parts);
        }
        self.compared(expr)
    }

    /// Reads what follows an expression: what it is compared with, or written with.
    fn compared(&mut self, mut expr: Expr) -> Result<Statement, LoadError> {
        let start = self.next;
        if self.take_word("set") {
            // Writing a field changes the packet, or its mark, and decides nothing.
            let text = self.unknown();
            return Ok(Statement::Passes(format!("set {text}")));
        }
        if matches!(&expr, Expr::Ct(key) if key == "count") {
            return Ok(Statement::Unknowable(format!("ct count {}", self.unknown())));
        }
        if self.take_sign("&") || self.take_word("and") {
            let mask = self.flags(0)?;
            expr = Expr::Masked(Box::new(expr), Box::new(mask));
        }
        if self.take_word("vmap") {
            let map = self.value(0)?;
            return Ok(Statement::Vmap(expr, map));
        }
        if self.take_word("exists") {
            return Ok(Statement::Match(expr, Op::Equal, Value::Any));
        }
        if self.take_word("missing") {
            return Ok(Statement::Match(expr, Op::NotEqual, Value::Any));
        }
        // None of these bits.
        if self.take_sign("!") {
            let mask = self.flags(0)?;
            let expr = Expr::Masked(Box::new(expr), Box::new(mask));
            return Ok(Statement::Match(expr, Op::Equal, Value::Word("0".into())));
        }
        let op = match self.peek() {
            Some(Kind::Sign("==")) => Op::Equal,
            Some(Kind::Sign("!=")) => Op::NotEqual,
            Some(Kind::Sign("<")) => Op::Less,
            Some(Kind::Sign("<=")) => Op::LessOrEqual,
            Some(Kind::Sign(">")) => Op::Greater,
            Some(Kind::Sign(">=")) => Op::GreaterOrEqual,
            Some(Kind::Word(word)) => match word.as_str() {
                "eq" => Op::Equal,
                "ne" => Op::NotEqual,
                "lt" => Op::Less,
                "le" => Op::LessOrEqual,
                "gt" => Op::Greater,
                "ge" => Op::GreaterOrEqual,
                _ => Op::In,
            },
            _ => Op::In,
        };
        if op != Op::In {
            self.next += 1;
        }
        if self.tokens.get(self.next).is_none_or(|token| token.kind == Kind::Newline) {
            self.next = start;
            return Err(self.expected("a comparison with a value, which is missing here"));
        }
        let value = self.value(0)?;
        Ok(Statement::Match(expr, op, value))
    }

    /// Reads flags that are set together: `syn`, `syn|ack`, `(fin | syn)`, or a number.
    fn flags(&mut self, depth: usize) -> Result<Value, LoadError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer parentheses inside each other"));
        }
        let mut names = Vec::new();
        loop {
            if self.take_sign("(") {
                match self.flags(depth + 1)? {
                    Value::Flags(inner) => names.extend(inner),
                    Value::Word(word) => names.push(word),
                    _ => return Err(self.expected("flags")),
                }
                self.need_sign(")")?;
            } else {
                names.push(self.word("flags such as syn")?);
            }
            let goes_on = self.take_sign("|") || depth > 0 && self.take_sign(",");
            if !goes_on {
                break;
            }
        }
        Ok(match <[String; 1]>::try_from(names) {
            Ok([one]) => Value::Word(one),
            Err(names) => Value::Flags(names),
        })
    }

    /// Reads what a field is compared with.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, LoadError> {
        let first = self.single(depth)?;
        // Bits with commas between them: one of them.
        let mut first = first;
        if depth == 0 && self.is_sign(",") {
            let mut names = Vec::new();
            loop {
                match first {
                    Value::Word(word) => names.push(word),
                    Value::Flags(words) => names.extend(words),
                    _ => return Err(self.expected("flags with commas between them, or a set in braces")),
                }
                if !self.take_sign(",") {
                    break;
                }
                first = self.single(depth)?;
            }
            first = Value::Flags(names);
        }
        if self.take_sign("/") {
            let mask = self.value(depth)?;
            return Ok(Value::Slash(Box::new(first), Box::new(mask)));
        }
        Ok(first)
    }

    fn single(&mut self, depth: usize) -> Result<Value, LoadError> {
        let mut parts = Vec::from([self.atom(depth)?]);
        while self.take_sign(".") {
            parts.push(self.atom(depth)?);
        }
        Ok(match <[Value; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => Value::Concat(parts),
        })
    }

    fn atom(&mut self, depth: usize) -> Result<Value, LoadError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer braces inside each other"));
        }
        if self.is_sign("{") {
            return Ok(Value::Set(self.set_elements(depth)?));
        }
        if self.take_sign("@") {
            return Ok(Value::Named(self.word("the name of a set")?));
        }
        if self.take_sign("$") {
            let at = self.at();
            let name = self.word("the name of a variable")?;
            return self.defined.get(&name).cloned().ok_or_else(|| {
                self.refuse(at, format!("variable '{name}' is not defined before this line"))
            });
        }
        if self.is_sign("(") {
            return self.flags(depth);
        }
        if self.take_sign("!") {
            return Err(self.expected("!= before the value in the place of this sign"));
        }
        let word = self.word("a value")?;
        if word == "*" {
            return Ok(Value::Any);
        }
        // A range with blanks around its dash, or a dash at one of its ends.
        if self.is_word("-") {
            self.next += 1;
            return Ok(Value::Range(word, self.word("the end of a range")?));
        }
        if self.is_sign("|") {
            self.next -= 1;
            return self.flags(depth);
        }
        Ok(Value::Word(word))
    }

    /// Reads elements in braces, each with what a map has for it.
    pub(super) fn set_elements(
        &mut self,
        depth: usize,
    ) -> Result<Vec<(Value, Option<Verdict>)>, LoadError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer braces inside each other"));
        }
        let mut elements: Vec<(Value, Option<Verdict>)> = Vec::new();
        if self.is_sign("$") {
            return match self.atom(depth)? {
                Value::Set(elements) => Ok(elements),
                one => Ok(Vec::from([(one, None)])),
            };
        }
        self.need_sign("{")?;
        loop {
            while matches!(self.peek(), Some(Kind::Newline)) {
                self.next += 1;
            }
            if self.take_sign("}") {
                return Ok(elements);
            }
            self.elements += 1;
            if self.elements > self.limits.rules_max {
                return Err(super::error(
                    self.text,
                    self.at(),
                    LoadErrorKind::TooMuch { what: "elements", limit: self.limits.rules_max },
                ));
            }
            let at = self.at();
            let mut key = self.single(depth + 1)?;
            let mut verdict = None;
            // A colon that touches what is before it: `icmp: accept`, `icmp:accept`.
            if let Value::Word(word) = &key
                && let Some((name, rest)) =
                    word.rsplit_once(':').filter(|(name, _)| !name.contains(':') && !name.is_empty())
            {
                let (name, rest) = (name.to_owned(), rest.to_owned());
                if rest.is_empty() {
                    verdict = Some(self.verdict()?);
                    key = Value::Word(name);
                } else if let Some(found) = plain_verdict(&rest) {
                    verdict = Some(found);
                    key = Value::Word(name);
                } else if matches!(rest.as_str(), "jump" | "goto") {
                    let chain = self.word("the name of a chain")?;
                    verdict =
                        Some(if rest == "jump" { Verdict::Jump(chain) } else { Verdict::Goto(chain) });
                    key = Value::Word(name);
                }
            }
            while self.newline_or_attribute() {}
            if self.take_sign(":") {
                while matches!(self.peek(), Some(Kind::Newline)) {
                    self.next += 1;
                }
                verdict = Some(self.verdict()?);
            }
            while self.newline_or_attribute() {}
            match key {
                // A variable that is a set: its elements.
                Value::Set(inner) if verdict.is_none() => elements.extend(inner),
                key => elements.push((key, verdict)),
            }
            if !self.take_sign(",") && !self.is_sign("}") {
                return Err(super::error(
                    self.text,
                    self.at().max(at),
                    LoadErrorKind::Expected("a comma or the end of the set"),
                ));
            }
        }
    }

    /// Passes what an element has beside its key, such as a timeout.
    fn newline_or_attribute(&mut self) -> bool {
        match self.peek() {
            Some(Kind::Newline) => {
                self.next += 1;
                true
            }
            Some(Kind::Word(word)) => match word.as_str() {
                "timeout" | "expires" | "comment" | "packets" | "bytes" => {
                    self.next += 2;
                    true
                }
                "counter" => {
                    self.next += 1;
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn verdict(&mut self) -> Result<Verdict, LoadError> {
        let at = self.at();
        let word = self.word("a verdict")?;
        match word.as_str() {
            "jump" => Ok(Verdict::Jump(self.word("the name of a chain")?)),
            "goto" => Ok(Verdict::Goto(self.word("the name of a chain")?)),
            word => plain_verdict(word).ok_or_else(|| {
                self.refuse(at, format!("unsupported map value '{word}'; maps of verdicts alone are read"))
            }),
        }
    }
}

fn plain_verdict(word: &str) -> Option<Verdict> {
    Some(match word {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "return" => Verdict::Return,
        "continue" => Verdict::Continue,
        _ => return None,
    })
}
