//! The text format: the output of `nft list ruleset`, and the input of `nft -f`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind, LoadLimits, has_word};
use super::ast::{Parsed, Set, Table, Value, families_of};
use super::hook::Hook;
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
        own: BTreeMap::new(),
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
    /// The variables that the table, or the text around tables, has defined, with their values
    /// before.
    pub(super) own: BTreeMap<String, Option<Value>>,
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

    fn need_word(&mut self, word: &str, what: &'static str) -> Result<(), LoadError> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Checks that a line of a chain ends here.
    fn end_of_line(&self) -> Result<(), LoadError> {
        match self.peek() {
            None | Some(Kind::Newline | Kind::Sign(";" | "}")) => Ok(()),
            _ => Err(self.expected("a semicolon or the end of the line")),
        }
    }

    /// Reads the names of flags, each of which is one of the words of a list.
    pub(super) fn flag_words(&mut self, known: &'static str) -> Result<Vec<&'a str>, LoadError> {
        let mut flags = Vec::new();
        while let Some(Kind::Word(flag)) = self.peek() {
            if !has_word(known, flag) {
                let all = known.replace(' ', ", ");
                return Err(self.refuse(self.at(), format!("'{flag}' is not a flag here; write {all}")));
            }
            flags.push(flag.as_str());
            self.next += 1;
            self.take_sign(",");
        }
        Ok(flags)
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
                    let flags = self.flag_words("constant interval dynamic timeout")?;
                    set.is_dynamic |= flags.contains(&"dynamic") || flags.contains(&"timeout");
                }
                // Elements expire.
                "timeout" => {
                    set.is_dynamic = true;
                    self.skip_line();
                }
                // Attributes that do not change which elements there are.
                "type" | "typeof" | "gc-interval" | "size" | "policy" | "auto-merge" | "comment"
                | "counter" => self.skip_line(),
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
                let at = self.at();
                let hook = self.hook(table)?;
                let set = self.tables[table].chain(name).set_hook(hook);
                set.map_err(|message| self.refuse(at, message))?;
                self.end_of_line()?;
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
                if chain.hook.is_none() {
                    let text = "only a chain with a hook has a policy; write type, hook and priority first";
                    return Err(self.refuse(at, text.into()));
                }
                (chain.policy, chain.line) = (Some(policy), line);
                self.end_of_line()?;
            } else if self.take_word("flags") {
                self.flag_words("offload")?;
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

    /// Reads where packets enter a chain: its type, hook, devices and priority.
    fn hook(&mut self, table: usize) -> Result<Hook, LoadError> {
        let family = self.tables[table].family.clone();
        let at = self.at();
        let kind = self.word("the type of a chain, such as filter")?;
        Hook::check_kind(&family, &kind).map_err(|message| self.refuse(at, message))?;
        self.need_word("hook", "hook and its name, such as hook input")?;
        let at = self.at();
        let name = self.word("a hook such as input")?;
        Hook::check_name(&family, &kind, &name).map_err(|message| self.refuse(at, message))?;
        if Hook::has_device(&name) {
            if self.take_word("device") {
                self.word("a device")?;
            } else if self.take_word("devices") {
                self.need_sign("=")?;
                self.set_elements(0)?;
            }
        }
        let what = if Hook::has_device(&name) {
            "device, devices or priority"
        } else {
            "priority and its value, such as priority filter"
        };
        self.need_word("priority", what)?;
        let at = self.at();
        let mut word = self.word("a priority such as filter or 0")?;
        // An offset: `filter - 1`, `filter + 10`, `filter+10`.
        let mut offset = String::new();
        if word == "-" {
            word.clear();
            self.next -= 1;
        } else if let Some(sign) = word.find('+') {
            offset = word.split_off(sign);
        }
        while let Some(Kind::Word(part)) = self.peek()
            && (part.starts_with(['-', '+']) || matches!(offset.as_str(), "-" | "+"))
        {
            offset.push_str(part);
            self.next += 1;
        }
        let priority = Hook::priority_of(&family, &name, &word, &offset);
        let priority = priority.map_err(|message| self.refuse(at, message))?;
        Ok(Hook { kind, name, priority })
    }
}
