//! The rules of a script: statements, comparisons, values, sets.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind, has_word, reject};
use super::ast::{AFTER_LAST, Expr, Op, Rule, Statement, Value, Verdict, from_iptables};
use super::text::Parser;
use super::tokens::Kind;
use crate::rule::decimal;

/// Keys of `meta` that may occur without that word.
const META: &str = "\
    iifgroup oifgroup cgroup iif iifname iiftype oif oifname oiftype mark skuid skgid \
    rtclassid ibriport obriport ibrname obrname pkttype cpu hour day time";

/// Headers whose fields can be compared.
pub(super) const HEADERS: &str = "\
    ip ip6 tcp udp udplite sctp dccp th icmp icmpv6 igmp ether vlan arp ah esp comp frag rt \
    rt0 rt2 rt4 srh mh hbh dst exthdr gre gretap vxlan geneve tunnel";

/// Tunnel headers, whose fields may belong to the inner headers.
const TUNNELS: &str = "gre gretap vxlan geneve";

/// Words that begin a statement; unknown text ends before them.
const STARTS: &str = "\
    vmap accept drop reject return continue jump goto queue counter log comment limit quota \
    masquerade snat dnat redirect notrack meta ct";

/// Words that begin a statement and are no values: a value is missing before them.
const NO_VALUES: &str = "\
    vmap accept drop reject return continue jump goto queue counter log comment limit quota \
    masquerade notrack meta ct set add update delete map dup fwd flow tproxy synproxy xt";

/// Maximum nesting of braces and parentheses.
pub(super) const DEPTH_MAX: usize = 16;

impl Parser<'_> {
    /// Reads a rule up to the end of its line. A rule with an error consists of the error, and
    /// reading continues with the next line.
    pub(super) fn rule(&mut self) -> Result<Rule, LoadError> {
        let (line, at) = (self.line(), self.at());
        self.rules += 1;
        if self.rules > self.limits.rules_max {
            let kind = LoadErrorKind::TooMuch { what: "rules", limit: self.limits.rules_max };
            return Err(super::error(self.text, at, kind));
        }
        let (number, first) = (self.rules, self.next);
        let mut statements = Vec::new();
        loop {
            match self.peek() {
                None | Some(Kind::Newline | Kind::Sign(";" | "}")) => break,
                _ => {}
            }
            let is_over = statements.iter().any(Statement::is_last);
            let start = self.next;
            let read = self.statement().and_then(|statement| {
                if !is_over || statement.is_comment() {
                    return Ok(statement);
                }
                self.next = start;
                Err(self.expected(AFTER_LAST))
            });
            match read {
                Ok(statement) => statements.push(statement),
                Err(error) => {
                    // Braces that open before the error close after it.
                    self.next = first;
                    self.skip_line();
                    statements = Vec::from([Statement::Wrong(error)]);
                    break;
                }
            }
        }
        Ok(Rule { statements, line, number, at, handle: None })
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
        if has_word(META, word) || has_word(HEADERS, word) || matches!(word, "meta" | "ct") {
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
        if let Some(verdict) = Verdict::from_word(word) {
            return Ok(Statement::Verdict(verdict));
        }
        Ok(match word {
            "jump" => Statement::Verdict(Verdict::Jump(self.target()?)),
            "goto" => Statement::Verdict(Verdict::Goto(self.target()?)),
            "reject" => {
                let mut number = reject::DEFAULT;
                if self.take_word("with") {
                    let words = self.unknown()?;
                    number = reject::of_nft(&words)
                        .ok_or_else(|| self.refuse(at, format!("unsupported answer '{words}'")))?;
                }
                Statement::Verdict(Verdict::Reject(number))
            }
            // With an address, a map or both.
            "masquerade" | "snat" | "dnat" | "redirect" => {
                self.unknown()?;
                Statement::Verdict(Verdict::Translate(word.into()))
            }
            "queue" => {
                self.unknown()?;
                Statement::Queue
            }
            "synproxy" => {
                self.unknown()?;
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
                    self.name("a time, or never")?;
                }
                Statement::Passes("last".into())
            }
            "reset" | "secmark" => Statement::Passes(format!("{word} {}", self.unknown()?)),
            "counter" => {
                while self.take_word("packets") || self.take_word("bytes") || self.take_word("name") {
                    self.name("a number")?;
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
                    self.name("an option of log")?;
                    while self.take_sign(",")
                        || matches!(self.peek(), Some(Kind::Word(w)) if w == "options" || w == "sequence")
                    {
                        self.word("an option of log")?;
                    }
                }
                Statement::Passes("log".into())
            }
            "comment" => {
                self.name("a comment")?;
                Statement::Passes("comment".into())
            }
            "notrack" => Statement::Untrack(None),
            "limit" | "quota" => Statement::Unknowable(format!("{word} {}", self.unknown()?)),
            "add" | "update" | "delete" | "set" => {
                let does = |word| self.is_word(word);
                if !self.is_sign("@")
                    && (word != "set" || !["add", "update", "delete"].into_iter().any(does))
                {
                    return Err(self.expected("@ and the name of a set"));
                }
                let text = self.unknown()?;
                if !text.contains('@') {
                    return Err(
                        self.refuse(at, format!("'{word}' needs a set, such as @seen {{ ip saddr }}"))
                    );
                }
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
                Statement::Passes(format!("{word} {}", self.unknown()?))
            }
            other => {
                return Err(self.refuse(
                    at,
                    format!("unsupported statement '{other}'; remove the rule or rewrite it"),
                ));
            }
        })
    }

    /// Reads a name or a value, which no word that begins a statement is.
    fn name(&mut self, what: &'static str) -> Result<String, LoadError> {
        match self.peek() {
            Some(Kind::Word(word)) if has_word(NO_VALUES, word) => Err(self.expected(what)),
            _ => self.word(what),
        }
    }

    /// Reads the name of a chain, or the rules of one without a name in braces.
    fn target(&mut self) -> Result<String, LoadError> {
        if !self.is_sign("{") {
            return self.name("the name of a chain");
        }
        if self.depth >= DEPTH_MAX {
            return Err(self.expected("fewer nested chains"));
        }
        let name = format!("block at line {}, byte {}", self.line(), self.at());
        self.depth += 1;
        let read = self.chain(self.table, &name);
        self.depth -= 1;
        read.map(|()| name)
    }

    /// Reads raw bytes of a packet by position: `@th,16,16 53`.
    fn raw(&mut self) -> Result<Statement, LoadError> {
        self.next += 1;
        let base = self.word("ll, nh, th or ih")?;
        let mut numbers = [0; 2];
        for number in &mut numbers {
            self.need_sign(",")?;
            let at = self.at();
            let word = self.word("a number of bits")?;
            *number = decimal(&word)
                .ok_or_else(|| self.refuse(at, format!("expected a number of bits, not '{word}'")))?;
        }
        self.compared(Expr::Raw(base, numbers[0], numbers[1]))
    }

    /// Reads an expression on data that packets do not contain, with its comparison or its map.
    fn unknown_or_map(&mut self) -> Result<Statement, LoadError> {
        let text = self.skipped(false)?;
        if self.take_word("vmap") {
            let map = self.value(0)?;
            return Ok(Statement::Vmap(Expr::Other(text), map));
        }
        Ok(Statement::Unknowable(text))
    }

    /// Skips the arguments of a statement, up to the next statement; returns the text.
    fn unknown(&mut self) -> Result<String, LoadError> {
        self.skipped(true)
    }

    /// Skips text up to the next known statement; returns the text. Arguments, not expressions,
    /// end where a field begins that no sign joins to them.
    /// A word that is known nowhere may be a verdict with an error in it.
    fn skipped(&mut self, is_arguments: bool) -> Result<String, LoadError> {
        /// Words before a value.
        const JOINS: &str = "\
    and or xor lshift rshift map to with icmpx option device name meter type add update delete oif oifname \
    iif iifname";
        /// Words that are arguments.
        const ARGUMENTS: &str = "\
    saddr daddr mark check exists missing transparent wildcard cgroupv2 level ttl loose skip version inc random \
    mod offset seed symhash jhash numgen in out reqid spi spnum rate over until used burst packets bytes kbytes \
    mbytes timeout num flags bypass fanout mss wscale timestamp sack-perm fully-random persistent prefix addr \
    port interval size";
        let mut text = String::new();
        let mut depth = 0_usize;
        let mut is_joined = true;
        while let Some(token) = self.tokens.get(self.next) {
            match &token.kind {
                Kind::Newline | Kind::Sign(";" | "}") if depth == 0 => break,
                Kind::Word(word)
                    if depth == 0
                        && has_word(STARTS, word)
                        && !(is_joined && matches!(word.as_str(), "meta" | "ct")) =>
                {
                    break;
                }
                Kind::Word(word)
                    if is_arguments
                        && depth == 0
                        && !is_joined
                        && (has_word(HEADERS, word) || has_word(META, word)) =>
                {
                    break;
                }
                Kind::Word(word)
                    if depth == 0
                        && !is_joined
                        && word.starts_with(|c: char| c.is_ascii_alphabetic())
                        && ![JOINS, ARGUMENTS, HEADERS, META]
                            .iter()
                            .any(|list| has_word(list, word.split('/').next().unwrap_or(word))) =>
                {
                    let text = format!("'{word}' is no argument here, and no statement; correct the word");
                    return Err(self.refuse(self.at(), text));
                }
                Kind::Sign("{") => depth += 1,
                Kind::Sign("}") => depth -= 1,
                _ => {}
            }
            is_joined = match &token.kind {
                Kind::Word(word) => {
                    let word = word.as_str();
                    has_word(JOINS, word) || has_word(HEADERS, word) || matches!(word, "meta" | "ct")
                }
                Kind::Sign(sign) => !matches!(*sign, "}" | ")"),
                Kind::Text(_) | Kind::Newline => false,
            };
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
            self.next += 1;
        }
        Ok(text)
    }

    fn expr(&mut self) -> Result<Expr, LoadError> {
        let word = self.word("a field such as tcp dport")?;
        match word.as_str() {
            "meta" => Ok(Expr::Meta(self.name("a key of meta")?)),
            "ct" => {
                let mut key = self.name("a key of ct")?;
                if matches!(key.as_str(), "original" | "reply") {
                    key = format!("{key} {}", self.name("a key of ct")?);
                    if matches!(self.peek(), Some(Kind::Word(word)) if matches!(word.as_str(), "saddr" | "daddr"))
                    {
                        key = format!("{key} {}", self.name("a key of ct")?);
                    }
                }
                Ok(Expr::Ct(key))
            }
            word if has_word(META, word) => Ok(Expr::Meta(word.into())),
            "exthdr" => Ok(Expr::Payload("exthdr".into(), self.name("an extension header")?)),
            word => {
                let mut field = self.name("a field of a header")?;
                if word == "tcp" && field == "option" {
                    return Ok(Expr::Other(format!("tcp option {}", self.unknown_field())));
                }
                if field == "option" || word == "sctp" && field == "chunk" {
                    field = format!("{field} {}", self.unknown_field());
                }
                if has_word(TUNNELS, word) && has_word(HEADERS, &field) {
                    field = format!("{field} {}", self.name("a field of a header")?);
                }
                Ok(Expr::Payload(word.into(), field))
            }
        }
    }

    /// Skips the name of an option or a chunk, and of its field if there is one.
    fn unknown_field(&mut self) -> String {
        /// Fields of options and chunks.
        const FIELDS: &str = "\
    size left right count length kind tsval tsecr type ptr value addr subtype flags init-tag \
    a-rwnd num-outbound-streams num-inbound-streams initial-tsn tsn stream ssn ppid";
        let mut words = Vec::new();
        while let Some(Kind::Word(word)) = self.peek() {
            if words.len() == 2 || words.len() == 1 && !has_word(FIELDS, word) || has_word(NO_VALUES, word)
            {
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

    /// Reads what follows an expression: a comparison or an assignment.
    fn compared(&mut self, mut expr: Expr) -> Result<Statement, LoadError> {
        let start = self.next;
        if self.take_word("set") {
            let words = self.unknown()?;
            if words.is_empty() {
                return Err(self.expected("a value"));
            }
            return Ok(Statement::Set(expr, words));
        }
        if matches!(&expr, Expr::Ct(key) if key == "count") {
            return Ok(Statement::Unknowable(format!("ct count {}", self.unknown()?)));
        }
        if self.take_sign("&") || self.take_word("and") {
            let mask = self.flags(0)?;
            expr = Expr::Masked(Box::new(expr), Box::new(mask));
        }
        if self.take_word("vmap") {
            let map = self.value(0)?;
            return Ok(Statement::Vmap(expr, map));
        }
        let may_be_missing = match &expr {
            Expr::Payload(header, field) => header == "exthdr" || field.contains(' '),
            expr => matches!(expr, Expr::Other(_)),
        };
        for (word, op) in [("exists", Op::Equal), ("missing", Op::NotEqual)] {
            if may_be_missing && self.take_word(word) {
                return Ok(Statement::Match(expr, op, Value::Any));
            }
        }
        // None of these bits.
        if !matches!(expr, Expr::Masked(..)) && self.take_sign("!") {
            let mask = self.value(0)?;
            let expr = Expr::Masked(Box::new(expr), Box::new(mask));
            return Ok(Statement::Match(expr, Op::Equal, Value::Word("0".into())));
        }
        let op = match self.peek() {
            Some(Kind::Sign(sign)) => Op::from_sign(sign),
            Some(Kind::Word(word)) => Op::from_sign(word),
            _ => None,
        };
        let op = op.unwrap_or(Op::In);
        if op != Op::In {
            self.next += 1;
        }
        if self.tokens.get(self.next).is_none_or(|token| token.kind == Kind::Newline) {
            self.next = start;
            return Err(self.expected("a comparison with a value, which is missing here"));
        }
        let value = self.value(0)?;
        if matches!(&value, Value::Set(elements) if elements.iter().any(|(_, verdict)| verdict.is_some())) {
            self.next = start;
            return Err(self.expected("vmap before a map of verdicts"));
        }
        Ok(Statement::Match(expr, op, value))
    }

    /// Reads flags that are set together: `syn`, `syn|ack`, `(fin | syn)`, or a number.
    fn flags(&mut self, depth: usize) -> Result<Value, LoadError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer nested parentheses"));
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
            if !self.take_sign("|") {
                break;
            }
        }
        Ok(match <[String; 1]>::try_from(names) {
            Ok([one]) => Value::Word(one),
            Err(names) => Value::Flags(names),
        })
    }

    /// Reads the right side of a comparison.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, LoadError> {
        let first = self.single(depth)?;
        // Comma-separated bits: one of them is set.
        let mut first = first;
        if depth == 0 && self.is_sign(",") {
            let mut names = Vec::new();
            loop {
                match first {
                    Value::Word(word) => names.push(word),
                    Value::Flags(words) => names.extend(words),
                    _ => return Err(self.expected("comma-separated flags, or a set in braces")),
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

    pub(super) fn single(&mut self, depth: usize) -> Result<Value, LoadError> {
        let mut parts = Vec::from([self.atom(depth)?]);
        while self.take_sign(".") {
            parts.push(self.atom(depth)?);
        }
        Ok(match <[Value; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => Value::Concat(parts),
        })
    }

    pub(super) fn atom(&mut self, depth: usize) -> Result<Value, LoadError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer nested braces"));
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
            return self
                .defined
                .get(&name)
                .cloned()
                .ok_or_else(|| self.refuse(at, format!("no line above defines the variable '{name}'")));
        }
        if self.is_sign("(") {
            return self.flags(depth);
        }
        if self.take_sign("!") {
            return Err(self.expected("!= before the value instead of this sign"));
        }
        let word = self.name("a value")?;
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
}
