//! The text format: the output of `nft list ruleset`, and the input of `nft -f`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind, LoadLimits};
use super::ast::{Hook, Parsed, Set, Table, Value, families_of, priority};
use super::tokens::{Kind, Token, tokens};
use crate::rule::Action;

/// Reads all tables of a text.
pub(super) fn parse(text: &str, limits: LoadLimits) -> Parsed {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(error) => return Parsed { errors: Vec::from([error]), ..Parsed::default() },
    };
    let mut parser = Parser {
        text,
        tokens: &tokens,
        next: 0,
        tables: Vec::new(),
        defined: BTreeMap::new(),
        errors: Vec::new(),
        notes: Vec::new(),
        rules: 0,
        elements: 0,
        table: 0,
        depth: 0,
        limits,
    };
    if let Err(error) = parser.script() {
        parser.errors.push(error);
    }
    Parsed { tables: parser.tables, notes: parser.notes, errors: parser.errors }
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) next: usize,
    pub(super) tables: Vec<Table>,
    pub(super) defined: BTreeMap<String, Value>,
    pub(super) errors: Vec<LoadError>,
    /// Statements that are not supported, by line.
    pub(super) notes: Vec<(usize, String)>,
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
                "flush" | "delete" | "destroy" => self.removal(word == "flush")?,
                "replace" => self.replacement(at)?,
                "define" | "redefine" | "undefine" | "include" => self.directive(at, &word)?,
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
        if families_of(&first).is_some() && matches!(self.peek(), Some(Kind::Word(_))) {
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

    /// Reads the names of flags.
    pub(super) fn flag_words(&mut self) -> Vec<&'a str> {
        let mut flags = Vec::new();
        while let Some(Kind::Word(flag)) = self.peek() {
            flags.push(flag.as_str());
            self.next += 1;
            self.take_sign(",");
        }
        flags
    }

    pub(super) fn set(&mut self, table: usize, name: &str) -> Result<(), LoadError> {
        let mut set = Set::default();
        self.tables[table].count_object();
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
                    let flags = self.flag_words();
                    set.is_dynamic |= flags.contains(&"dynamic") || flags.contains(&"timeout");
                }
                // Attributes that do not change which elements there are.
                "type" | "typeof" | "timeout" | "gc-interval" | "size" | "policy" | "auto-merge"
                | "comment" | "counter" => self.skip_line(),
                other => {
                    return Err(self.refuse(self.at(), format!("unsupported '{other}' in a set")));
                }
            }
        }
        // A set that is declared twice has the elements of both.
        let declared = self.tables[table].sets.entry(name.into()).or_default();
        declared.elements.extend(set.elements);
        declared.is_dynamic |= set.is_dynamic;
        Ok(())
    }

    pub(super) fn chain(&mut self, table: usize, name: &str) -> Result<(), LoadError> {
        let line = self.line();
        self.tables[table].chain(name).line = line;
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
                        other => {
                            return Err(self.refuse(self.at(), format!("unsupported '{other}' of a chain")));
                        }
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
                // The rules of a block come after all of its chains and sets, so their handles are
                // not counted.
                self.tables[table].next_handle = None;
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
