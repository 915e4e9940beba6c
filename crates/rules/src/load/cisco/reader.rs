//! What each line of a configuration begins, or belongs to.

use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

use super::super::{LoadError, protocol};
use super::entry::{Entry, Style};
use super::lists::{Lists, Place};
use super::objects::{Kind, Objects};
use super::{is_short, lower};
use crate::firewall::{ChainRule, Target};
use crate::rule::{Action, decimal};

/// What the current line may belong to.
#[derive(Clone, Copy, Default)]
enum Section<'a> {
    #[default]
    Other,
    List {
        at: usize,
        is_standard: bool,
    },
    Object(Kind, &'a str),
    /// Another part of the configuration, which this line began below an entry of a list.
    After {
        at: usize,
        line: (usize, &'a str),
    },
}

/// Returns whether a line begins like an entry of a list, or like the removal of an entry.
fn begins_entry(keys: &[&str]) -> bool {
    let is_verb = |word: &&str| {
        ["permit", "deny", "remark", "dynamic"].iter().any(|verb| is_short(word, verb, 3))
            || is_short(word, "evaluate", 4)
    };
    let is_number = |word: &&str| decimal::<u32>(word).is_some();
    match keys {
        ["no" | "default" | "sequence", rest @ ..] => {
            rest.first().is_some_and(|word| is_verb(word) || is_number(word) || *word == "sequence")
        }
        [first, ..] => is_verb(first) || is_number(first),
        [] => false,
    }
}

/// Returns whether a line is like an entry but for its first word.
fn looks_like_entry(keys: &[&str], is_standard: bool) -> bool {
    match keys {
        ["ip" | "ipv6" | "no" | "default" | "name", ..] => false,
        [_, address] | [_, address, _] if is_standard => {
            *address == "any" || address.parse::<IpAddr>().is_ok()
        }
        [_, word, _, _, ..] if !is_standard => protocol(word).is_some() || *word == "ip",
        _ => false,
    }
}

/// A line with its number.
type Line<'a> = (usize, &'a str);

/// What the lines so far have stated.
#[derive(Default)]
pub(super) struct Reader<'a> {
    pub(super) lists: Lists,
    /// The number of lines that were read as entries.
    pub(super) entries: usize,
    objects: Objects,
    section: Section<'a>,
    interface: Option<&'a str>,
}

impl<'a> Reader<'a> {
    /// Reads a line. Its words come as they are and in lower case.
    pub(super) fn line(&mut self, here: Line<'a>, words: &[&'a str], keys: &[&str]) {
        self.interface(words, keys);
        if let (["name", ..], [_, address, name, ..]) = (keys, words) {
            self.objects.name(name, address);
        } else if let Some((kind, name)) = Kind::parse(keys, words) {
            self.section = Section::Object(kind, name);
        } else if !self.edits(here, words, keys) && !self.begins_list(here, words, keys) {
            self.belongs(here, words, keys);
        }
    }

    /// Reads the name or the address of an interface.
    fn interface(&mut self, words: &[&'a str], keys: &[&str]) {
        match *keys {
            ["interface", ..] => self.interface = None,
            ["nameif", _, ..] => self.interface = Some(words[1]),
            // A firewall of the older series names the interface in the line.
            ["ip", "address", name, address, _, ..] if name.parse::<IpAddr>().is_err() => {
                self.objects.interface(words[2], address);
            }
            ["ip", "address", _, ..] => {
                if let Some(name) = self.interface {
                    self.objects.interface(name, words[2]);
                }
            }
            _ => {}
        }
    }

    /// Reads a command that removes or changes a list. Returns whether the line is one.
    fn edits(&mut self, here: Line<'a>, words: &[&str], keys: &[&str]) -> bool {
        match *keys {
            ["ipv6" | "ip", "access-list", "resequence", _, ..] => {
                let at = self.lists.begin(words[3], keys[0] == "ipv6", here);
                self.lists.refuse(at, here, removal("changes the numbers of entries"));
            }
            ["no", "ip" | "ipv6", "access-list", ref name @ ..]
            | ["no", "access-list", ref name @ ..]
            | ["clear", "configure", "access-list", ref name @ ..] => {
                let is_headed = matches!(name, ["extended" | "standard", _, ..]);
                match words[words.len() - name.len() + usize::from(is_headed)..] {
                    [] if keys[0] == "clear" => self.lists.all.clear(),
                    [] => {}
                    [name] => self.lists.all.retain(|list| list.name != name),
                    [name, ..] => {
                        if let Some(at) = self.lists.all.iter().position(|list| list.name == name) {
                            self.lists.refuse(at, here, removal("removes entries"));
                        }
                    }
                }
            }
            // The end of a part, and settings of all lists.
            ["exit" | "end"]
            | ["access-list", "mode" | "alert-interval" | "deny-flow-max", _]
            | ["access-list", "compiled"] => {}
            _ => return false,
        }
        self.section = Section::Other;
        true
    }

    /// Reads the line that begins a list, or an entry with the name of its list. Returns whether
    /// the line is one.
    fn begins_list(&mut self, here: Line<'a>, words: &[&str], keys: &[&str]) -> bool {
        match *keys {
            ["ip" | "ipv6", list, kind, _, ref more @ ..]
                if is_short(list, "access-list", 3)
                    && (is_short(kind, "extended", 3) || is_short(kind, "standard", 3)) =>
            {
                let at = self.lists.begin(words[3], keys[0] == "ipv6", here);
                self.section = Section::List { at, is_standard: kind.starts_with('s') };
                if !more.is_empty() {
                    self.lists.refuse(at, here, one_line(keys[0]));
                }
            }
            ["ipv6" | "ip", "access-list", _] => {
                let at = self.lists.begin(words[2], keys[0] == "ipv6", here);
                self.section = Section::List { at, is_standard: false };
            }
            ["ipv6" | "ip", "access-list", _, ref rest @ ..]
                if begins_entry(rest) || rest.first() == Some(&"line") =>
            {
                self.section = Section::Other;
                let at = self.lists.begin(words[2], keys[0] == "ipv6", here);
                self.lists.refuse(at, here, one_line(keys[0]));
            }
            [list, _, ..] if is_short(list, "access-list", 6) => {
                self.section = Section::Other;
                let name = words[1];
                let at = self.lists.begin(name, false, here);
                let mut entry = Entry::new(here.0, here.1, (words, keys), &self.objects);
                entry.next = 2;
                let mut place = None;
                if entry.take("line") {
                    let number = keys.get(3).and_then(|word| decimal(word));
                    place = Some(Place::Line(number.unwrap_or(0)));
                    entry.next += 1;
                }
                let is_extended = entry.take_short("extended", 3);
                let is_numbered_standard =
                    name.parse::<u32>().is_ok_and(|n| n < 100 || (1300..2000).contains(&n));
                let is_standard = entry.take_short("standard", 3) || is_numbered_standard && !is_extended;
                if is_extended || name.parse::<u32>().is_err() {
                    entry.style = Style::Netmask;
                }
                self.entries += 1;
                add(&mut self.lists, at, entry, place, is_standard);
            }
            _ => return false,
        }
        true
    }

    /// Reads a line that belongs to what an earlier line began, or to another part of the
    /// configuration.
    fn belongs(&mut self, here: Line<'a>, words: &[&str], keys: &[&str]) {
        let is_indented = here.1.starts_with([' ', '\t']);
        match self.section {
            Section::List { at, .. } if keys[0] == "no" && begins_entry(keys) => {
                self.lists.refuse(at, here, removal("removes an entry"));
            }
            Section::List { at, is_standard }
                if is_indented || begins_entry(keys) || looks_like_entry(keys, is_standard) =>
            {
                let mut entry = Entry::new(here.0, here.1, (words, keys), &self.objects);
                entry.is_v6 = self.lists.all[at].is_v6;
                self.entries += 1;
                add(&mut self.lists, at, entry, None, is_standard);
            }
            Section::After { at, line } if begins_entry(keys) => {
                self.section = Section::Other;
                // Lists and maps of other kinds have entries of their own.
                let begun = lower(line.1);
                if !begun.contains("list") && !begun.contains("map") {
                    let message = format!(
                        "no entry of access list '{}' begins like this, but line {} is like one more; \
                         correct this line, or begin the next list",
                        self.lists.all[at].name, here.0
                    );
                    self.lists.refuse(at, line, message);
                }
            }
            // An unindented line begins another part of the configuration.
            Section::List { at, .. } | Section::After { at, .. } if !is_indented => {
                self.section = Section::After { at, line: here };
            }
            Section::Object(kind, name) if is_indented => {
                self.objects.line((kind, name), (words, keys), here.0, here.1);
            }
            Section::Object(..) => self.section = Section::Other,
            Section::List { .. } | Section::After { .. } | Section::Other => {}
        }
    }
}

/// The message about a command that edits a list.
fn removal(what: &str) -> String {
    format!("this command {what} of the list; write the list as 'show running-config' prints it then")
}

/// The message about an entry in the line that names its list.
fn one_line(family: &str) -> String {
    format!(
        "unsupported entry in the line of '{family} access-list'; write each entry in its own line below"
    )
}

fn add(lists: &mut Lists, at: usize, entry: Entry<'_>, place: Option<Place>, is_standard: bool) {
    let (number, line) = (entry.number, entry.line);
    let place = place.or_else(|| entry.sequence().map(Place::Sequence)).unwrap_or(Place::End);
    let list = &mut lists.all[at];
    let placed = entry.read(is_standard).and_then(|read| {
        let rule = read.map(|(conditions, action)| {
            let value = u32::from(action == Action::Accept);
            ChainRule::new(conditions, Target::Decide { action, value }, number)
        });
        let start = line.len() - line.trim_start().len();
        list.place(place, rule).map_err(|kind| LoadError::new(number, line, start, kind))
    });
    if let Err(error) = placed {
        list.errors.push(error);
    }
}
