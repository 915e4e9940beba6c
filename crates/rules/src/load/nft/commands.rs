//! Commands of a script, executed in order on a model of the ruleset.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::super::{LoadError, LoadErrorKind};
use super::ast::{Rule, Statement, TABLE_FLAGS, Value};
use super::text::Parser;
use super::tokens::Kind;

impl Parser<'_> {
    /// Reads `add rule inet filter input …` and the like.
    pub(super) fn command(&mut self, is_insert: bool) -> Result<(), LoadError> {
        let at = self.at();
        let what = self.word("table, chain, rule, set, map or element")?;
        if what == "table" {
            return self.table();
        }
        let (family, name) = self.table_name()?;
        let table = self.table_index(&family, &name);
        match what.as_str() {
            "element" => {
                let set = self.word("the name of a set")?;
                let elements = self.set_elements(0)?;
                self.tables[table].sets.entry(set).or_default().elements.extend(elements);
                Ok(())
            }
            "rule" => {
                let chain = self.word("the name of a chain")?;
                let place = self.place(table, &chain)?;
                let rule = self.numbered_rule(table)?;
                let rules = &mut self.tables[table].chain(&chain).rules;
                let place = match (place, is_insert) {
                    (Some(place), true) => place,
                    (Some(place), false) => place + 1,
                    (None, true) => 0,
                    (None, false) => rules.len(),
                };
                rules.insert(place, rule);
                Ok(())
            }
            kind if self.object(table, kind)? => Ok(()),
            other => Err(self
                .refuse(at, format!("unsupported object '{other}'; save the rules with nft list ruleset"))),
        }
    }

    /// Reads an object of a table, as a block and the command `add` declare it. Returns whether it
    /// is one.
    fn object(&mut self, table: usize, kind: &str) -> Result<bool, LoadError> {
        match kind {
            "chain" => {
                let chain = self.word("the name of a chain")?;
                self.chain(table, &chain)?;
            }
            "set" | "map" => {
                let set = self.word("the name of a set")?;
                self.set(table, &set)?;
            }
            "flowtable" | "counter" | "quota" | "limit" | "ct" | "secmark" | "synproxy" => {
                self.tables[table].count_object();
                self.skip_line();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a rule that a command adds, which gets the next handle of its table.
    fn numbered_rule(&mut self, table: usize) -> Result<Rule, LoadError> {
        self.table = table;
        let mut rule = self.rule()?;
        let is_set = |value: &Value| matches!(value, Value::Set(_));
        // A set without a name takes a handle too, unless it has one element.
        let has_set = rule.statements.iter().any(|statement| match statement {
            Statement::Match(_, _, value) | Statement::Vmap(_, value) => is_set(value),
            _ => false,
        });
        if has_set {
            self.tables[table].next_handle = None;
        }
        rule.handle = self.tables[table].count_object();
        Ok(rule)
    }

    /// Reads the place of a rule, if the command names one: the index of another rule of the chain.
    fn place(&mut self, table: usize, chain: &str) -> Result<Option<usize>, LoadError> {
        for word in ["index", "position", "handle"] {
            let at = self.at();
            if self.take_word(word) {
                let number = self.word("a number")?;
                let rules = &self.tables[table].chain(chain).rules;
                let number = number.parse::<u64>().ok();
                let found = if word == "index" {
                    number.and_then(|n| usize::try_from(n).ok()).filter(|&index| index < rules.len())
                } else {
                    rules.iter().position(|rule| rule.handle.is_some() && rule.handle == number)
                };
                return match found {
                    Some(place) => Ok(Some(place)),
                    None => Err(self.refuse(
                        at,
                        format!(
                            "this '{word}' names no rule of chain '{chain}' whose place the lines above \
                             tell; save the rules with nft list ruleset"
                        ),
                    )),
                };
            }
        }
        Ok(None)
    }

    /// Reads `replace rule inet filter input handle 4 …`.
    pub(super) fn replacement(&mut self, at: usize) -> Result<(), LoadError> {
        if !self.take_word("rule") {
            return Err(self.refuse(at, String::from("only rules can be replaced")));
        }
        let (family, name) = self.table_name()?;
        let table = self.table_index(&family, &name);
        let chain = self.word("the name of a chain")?;
        let Some(place) = self.place(table, &chain)? else {
            return Err(self.expected("handle and the number of a rule"));
        };
        let rule = self.numbered_rule(table)?;
        self.tables[table].chain(&chain).rules[place] = rule;
        Ok(())
    }

    /// Reads `flush …`, which leaves the object in place, or `delete …`. What the text has not
    /// declared belongs to the ruleset before it, of which nothing is left out.
    pub(super) fn removal(&mut self, is_flush: bool) -> Result<(), LoadError> {
        let at = self.at();
        let what = self.word("ruleset, table, chain, set, map, element or rule")?;
        if what == "ruleset" {
            let family = match self.peek() {
                Some(Kind::Word(family)) => Some(family.clone()),
                _ => None,
            };
            self.tables.retain(|table| family.as_ref().is_some_and(|family| *family != table.family));
            self.skip_line();
            return Ok(());
        }
        let (family, name) = self.table_name()?;
        let found = self.tables.iter().position(|table| table.family == family && table.name == name);
        let object = match self.peek() {
            Some(Kind::Word(word) | Kind::Text(word)) => Some(word.clone()),
            _ => None,
        };
        self.next += usize::from(object.is_some());
        let (Some(table), object) = (found, object.unwrap_or_default()) else {
            self.skip_line();
            return Ok(());
        };
        let tables = &mut self.tables;
        match what.as_str() {
            "table" if is_flush => tables[table].chains.iter_mut().for_each(|chain| chain.rules.clear()),
            "table" => drop(tables.remove(table)),
            "chain" if is_flush => {
                let chains = tables[table].chains.iter_mut();
                chains.filter(|chain| chain.name == object).for_each(|chain| chain.rules.clear());
            }
            "chain" => tables[table].chains.retain(|chain| chain.name != object),
            "set" | "map" if is_flush => {
                if let Some(set) = tables[table].sets.get_mut(&object) {
                    set.elements.clear();
                }
            }
            "set" | "map" => drop(tables[table].sets.remove(&object)),
            "element" if !is_flush => {
                let removed = self.set_elements(0)?;
                let Some(set) = self.tables[table].sets.get_mut(&object) else {
                    return Err(self.refuse(at, format!("no line above declares the set '{object}'")));
                };
                for (key, _) in removed {
                    let Some(found) = set.elements.iter().position(|(other, _)| *other == key) else {
                        let text = format!("the lines above add no such element to the set '{object}'");
                        return Err(self.refuse(at, text));
                    };
                    set.elements.remove(found);
                }
            }
            "rule" if !is_flush => {
                let Some(place) = self.place(table, &object)? else {
                    return Err(self.expected("handle and the number of a rule"));
                };
                self.tables[table].chain(&object).rules.remove(place);
            }
            "flowtable" | "counter" | "quota" | "limit" | "ct" | "secmark" | "synproxy" => {
                self.skip_line();
                return Ok(());
            }
            other => {
                return Err(self.refuse(at, format!("unsupported object '{other}'")));
            }
        }
        match self.peek() {
            None | Some(Kind::Newline | Kind::Sign(";" | "}")) => Ok(()),
            _ => Err(self.expected("the end of the command")),
        }
    }

    /// Reads a variable or an included file, outside tables or inside.
    pub(super) fn directive(&mut self, at: usize, word: &str) -> Result<(), LoadError> {
        if word == "include" {
            let path = self.word("the path of a file")?;
            // nft reads none of these files where there are none.
            if path.contains(['*', '?', '[']) {
                self.notes.push((self.line(), format!("the files of include \"{path}\" are not read")));
                return Ok(());
            }
            let text = "included files are not supported; insert the text, or use nft list ruleset";
            return Err(self.refuse(at, text.to_owned()));
        }
        let name = self.word("the name of a variable")?;
        if word == "undefine" {
            self.defined.remove(&name);
            self.own.remove(&name);
            return Ok(());
        }
        if word == "define" && self.own.contains_key(&name) {
            let text = format!("the variable '{name}' is defined already; write redefine, or rename one");
            return Err(self.refuse(at, text));
        }
        self.need_sign("=")?;
        let value = self.value(0)?;
        let before = self.defined.insert(name.clone(), value);
        self.own.entry(name).or_insert(before);
        Ok(())
    }

    pub(super) fn table(&mut self) -> Result<(), LoadError> {
        let (family, name) = self.table_name()?;
        let table = self.table_index(&family, &name);
        if !self.take_sign("{") {
            return Ok(());
        }
        // The variables of a table end with it.
        let around = core::mem::take(&mut self.own);
        self.objects(table)?;
        for (name, before) in core::mem::replace(&mut self.own, around) {
            match before {
                Some(value) => drop(self.defined.insert(name, value)),
                None => drop(self.defined.remove(&name)),
            }
        }
        Ok(())
    }

    /// Reads the objects of a table up to the brace that ends it.
    fn objects(&mut self, table: usize) -> Result<(), LoadError> {
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
            let at = self.at();
            let word = self.word("chain, set, map or the end of the table")?;
            match word.as_str() {
                "define" | "redefine" | "undefine" | "include" => self.directive(at, &word)?,
                "flags" => {
                    let flags = self.flag_words(TABLE_FLAGS)?;
                    self.tables[table].is_dormant |= flags.contains(&"dormant");
                }
                "comment" => self.skip_line(),
                kind if self.object(table, kind)? => {}
                other => {
                    let text = format!("unsupported '{other}' in a table");
                    return Err(super::error(self.text, at, LoadErrorKind::Refused(text)));
                }
            }
        }
    }
}
