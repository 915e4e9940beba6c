//! The text format: the output of `nft list ruleset`, and the input of `nft -f`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind, LoadLimits};
use super::ast::{Hook, Set, Table, Value, priority};
use super::tokens::{Kind, Token, tokens};
use crate::rule::Action;

/// Reads all tables of a text.
pub(super) fn parse(text: &str, limits: LoadLimits) -> (Vec<Table>, Vec<LoadError>) {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(error) => return (Vec::new(), Vec::from([error])),
    };
    let mut parser = Parser {
        text,
        tokens: &tokens,
        next: 0,
        tables: Vec::new(),
        defined: BTreeMap::new(),
        errors: Vec::new(),
        rules: 0,
        elements: 0,
        table: 0,
        depth: 0,
        limits,
    };
    if let Err(error) = parser.script() {
        parser.errors.push(error);
    }
    (parser.tables, parser.errors)
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) next: usize,
    pub(super) tables: Vec<Table>,
    pub(super) defined: BTreeMap<String, Value>,
    pub(super) errors: Vec<LoadError>,
    pub(super) rules: usize,
    pub(super) elements: usize,
    /// The table of the current rule, and the number of chains in braces around it.
    pub(super) table: usize,
    pub(super) depth: usize,
    pub(super) limits: LoadLimits,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<&'a Kind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    pub(super) fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |token| token.at)
    }

    pub(super) fn line(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    pub(super) fn expected(&self, what: &'static str) -> LoadError {
        super::error(self.text, self.at(), LoadErrorKind::Expected(what))
    }

    pub(super) fn refuse(&self, at: usize, text: String) -> LoadError {
        super::error(self.text, at, LoadErrorKind::Refused(text))
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Kind::Sign(found)) if *found == sign)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.next += usize::from(found);
        found
    }

    pub(super) fn need_sign(&mut self, sign: &'static str) -> Result<(), LoadError> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.expected(sign)) }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Kind::Word(found)) if found == word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.next += usize::from(found);
        found
    }

    /// Returns the next word or text.
    pub(super) fn word(&mut self, what: &'static str) -> Result<String, LoadError> {
        match self.peek() {
            Some(Kind::Word(word) | Kind::Text(word)) => {
                self.next += 1;
                Ok(word.clone())
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(super) fn newlines(&mut self) {
        while matches!(self.peek(), Some(Kind::Newline | Kind::Sign(";"))) {
            self.next += 1;
        }
    }

    /// Skips the rest of a statement list, up to the end of the line.
    pub(super) fn skip_line(&mut self) {
        let mut depth = 0_usize;
        while let Some(kind) = self.peek() {
            match kind {
                Kind::Newline | Kind::Sign(";" | "}") if depth == 0 => return,
                Kind::Sign("{") => depth += 1,
                Kind::Sign("}") => depth -= 1,
                _ => {}
            }
            self.next += 1;
        }
    }

    pub(super) fn script(&mut self) -> Result<(), LoadError> {
        loop {
            self.newlines();
            if self.peek().is_none() {
                return Ok(());
            }
            let at = self.at();
            let word = self.word("a command of nft, such as table or add rule")?;
            match word.as_str() {
                "table" => self.table()?,
                "add" | "create" | "insert" => self.command(word == "insert")?,
                "flush" => {
                    if self.take_word("ruleset") {
                        self.tables.clear();
                    }
                    self.skip_line();
                }
                // A script may declare and delete a table before it defines it, so that none of its
                // old rules remains.
                "delete" | "destroy" => {
                    if self.take_word("table") {
                        let (family, name) = self.table_name()?;
                        self.tables.retain(|table| table.family != family || table.name != name);
                    }
                    self.skip_line();
                }
                "define" | "redefine" => {
                    let name = self.word("the name of a variable")?;
                    self.need_sign("=")?;
                    let value = self.value(0)?;
                    self.defined.insert(name, value);
                }
                "include" => {
                    let text = "included files are not supported; insert the text, or use nft list \
                        ruleset";
                    return Err(self.refuse(at, text.to_owned()));
                }
                word => {
                    return Err(self.refuse(
                        at,
                        format!("unsupported command '{word}'; save the rules with nft list ruleset"),
                    ));
                }
            }
        }
    }

    /// Reads a table's family, if the script names it, and its name.
    pub(super) fn table_name(&mut self) -> Result<(String, String), LoadError> {
        let first = self.word("the name of a table")?;
        if matches!(first.as_str(), "ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev")
            && matches!(self.peek(), Some(Kind::Word(_)))
        {
            return Ok((first, self.word("the name of a table")?));
        }
        Ok((String::from("ip"), first))
    }

    pub(super) fn table_index(&mut self, family: &str, name: &str) -> usize {
        let is_it = |table: &Table| table.family == family && table.name == name;
        self.tables.iter().position(is_it).unwrap_or_else(|| {
            self.tables.push(Table::new(family, name));
            self.tables.len() - 1
        })
    }

    /// Reads `add rule inet filter input …` and the like.
    pub(super) fn command(&mut self, is_insert: bool) -> Result<(), LoadError> {
        let at = self.at();
        let what = self.word("table, chain, rule, set, map or element")?;
        let (family, name) = self.table_name()?;
        let table = self.table_index(&family, &name);
        match what.as_str() {
            "table" => {
                self.skip_line();
                Ok(())
            }
            "chain" => {
                let chain = self.word("the name of a chain")?;
                self.chain(table, &chain)
            }
            "set" | "map" => {
                let set = self.word("the name of a set")?;
                self.set(table, &set)
            }
            "element" => {
                let set = self.word("the name of a set")?;
                let elements = self.set_elements(0)?;
                self.tables[table].sets.entry(set).or_default().elements.extend(elements);
                Ok(())
            }
            "rule" => {
                let chain = self.word("the name of a chain")?;
                for word in ["position", "handle", "index"] {
                    if self.take_word(word) {
                        self.word("a number")?;
                    }
                }
                self.table = table;
                let rule = self.rule()?;
                let rules = &mut self.tables[table].chain(&chain).rules;
                rules.insert(if is_insert { 0 } else { rules.len() }, rule);
                Ok(())
            }
            other => Err(self
                .refuse(at, format!("unsupported object '{other}'; save the rules with nft list ruleset"))),
        }
    }

    pub(super) fn table(&mut self) -> Result<(), LoadError> {
        let (family, name) = self.table_name()?;
        let table = self.table_index(&family, &name);
        if !self.take_sign("{") {
            return Ok(());
        }
        loop {
            self.newlines();
            if self.take_sign("}") {
                return Ok(());
            }
            if self.peek().is_none() {
                return Err(
                    self.expected("a brace that ends this table; without it the file may be truncated")
                );
            }
            let word = self.word("chain, set, map or the end of the table")?;
            match word.as_str() {
                "chain" => {
                    let chain = self.word("the name of a chain")?;
                    self.chain(table, &chain)?;
                }
                "set" | "map" => {
                    let set = self.word("the name of a set")?;
                    self.set(table, &set)?;
                }
                "flags" | "comment" | "counter" | "quota" | "limit" | "flowtable" | "ct" | "secmark"
                | "synproxy" => {
                    self.skip_line();
                }
                other => {
                    self.next -= 1;
                    return Err(self.refuse(self.at(), format!("unsupported '{other}' in a table")));
                }
            }
        }
    }

    pub(super) fn set(&mut self, table: usize, name: &str) -> Result<(), LoadError> {
        let mut set = Set::default();
        self.need_sign("{")?;
        loop {
            self.newlines();
            if self.take_sign("}") {
                break;
            }
            if self.peek().is_none() {
                return Err(
                    self.expected("a brace that ends this set; without it the file may be truncated")
                );
            }
            let word = self.word("type, flags, elements or the end of the set")?;
            match word.as_str() {
                "elements" => {
                    self.need_sign("=")?;
                    set.elements.extend(self.set_elements(0)?);
                }
                "flags" => {
                    while let Some(Kind::Word(flag)) = self.peek() {
                        set.is_dynamic |= flag == "dynamic" || flag == "timeout";
                        self.next += 1;
                        self.take_sign(",");
                    }
                }
                _ => self.skip_line(),
            }
        }
        self.tables[table].sets.insert(name.into(), set);
        Ok(())
    }

    pub(super) fn chain(&mut self, table: usize, name: &str) -> Result<(), LoadError> {
        self.tables[table].chain(name).line = self.line();
        self.table = table;
        if !self.take_sign("{") {
            return Ok(());
        }
        loop {
            self.newlines();
            if self.take_sign("}") {
                return Ok(());
            }
            if self.peek().is_none() {
                return Err(
                    self.expected("a brace that ends this chain; without it the file may be truncated")
                );
            }
            if self.take_word("type") {
                let kind = self.word("the type of a chain")?;
                let mut hook = Hook { kind, name: String::new(), priority: 0 };
                while let Some(Kind::Word(word)) = self.peek() {
                    self.next += 1;
                    match word.as_str() {
                        "hook" => hook.name = self.word("a hook such as input")?,
                        "priority" => hook.priority = self.priority()?,
                        "device" => {
                            self.word("a device")?;
                        }
                        _ => {}
                    }
                }
                self.tables[table].chain(name).hook = Some(hook);
            } else if self.take_word("policy") {
                let at = self.at();
                let policy = match self.word("a policy: accept or drop")?.as_str() {
                    "accept" => Action::Accept,
                    "drop" => Action::Deny,
                    _ => {
                        return Err(super::error(
                            self.text,
                            at,
                            LoadErrorKind::Expected("a policy: accept or drop"),
                        ));
                    }
                };
                let line = self.tokens[self.next - 1].line;
                let chain = self.tables[table].chain(name);
                (chain.policy, chain.line) = (Some(policy), line);
            } else if self.is_word("comment")
                && matches!(self.tokens.get(self.next + 1).map(|t| &t.kind), Some(Kind::Text(_)))
            {
                self.next += 2;
            } else {
                let rule = self.rule()?;
                self.tables[table].chain(name).rules.push(rule);
            }
        }
    }

    pub(super) fn priority(&mut self) -> Result<i64, LoadError> {
        let at = self.at();
        let wrong = |parser: &Self| {
            super::error(parser.text, at, LoadErrorKind::Expected("a priority such as filter or 0"))
        };
        let first = self.word("a priority such as filter or 0")?;
        let base = priority(&first).ok_or_else(|| wrong(self))?;
        let Some(Kind::Word(next)) = self.peek() else { return Ok(base) };
        // An offset: `filter - 1`, `filter + 10`.
        let (sign, digits) = match next.as_str() {
            "-" | "+" => {
                let sign = next.clone();
                self.next += 1;
                (sign, self.word("a number")?)
            }
            text if text.starts_with(['-', '+']) => {
                self.next += 1;
                (text[..1].to_string(), text[1..].to_string())
            }
            _ => return Ok(base),
        };
        let offset: i64 = digits.parse().map_err(|_| wrong(self))?;
        Ok(if sign == "-" { base - offset } else { base + offset })
    }
}
