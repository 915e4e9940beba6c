//! YAML documents as trees with line numbers.
//!
//! A tree has bounded depth, and a bounded number of nodes and of nodes that aliases repeat. JSON
//! is YAML too.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::{LoadError, LoadErrorKind, line_at};

/// Maximum nesting of lists and mappings.
const DEPTH_MAX: usize = 64;

/// Maximum number of nodes in all documents together.
const NODES_MAX: usize = 1 << 22;

/// Maximum number of nodes that anchors keep and aliases repeat: a few lines of nested aliases can
/// stand for more nodes than fit any memory.
const COPIED_MAX: usize = 1 << 16;

/// A node of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Yaml {
    /// First line of the node, from one.
    pub(super) line: usize,
    pub(super) value: Value,
}

/// The contents of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Text, and whether it is unquoted.
    Scalar(String, bool),
    List(Vec<Yaml>),
    /// Keys, each with its line and its value, in the order of the text.
    Map(Vec<(String, usize, Yaml)>),
}

impl Yaml {
    /// Returns the value of a key; `None` if this is not a mapping, or if the key is missing. An
    /// empty or `null` value counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let (_, _, value) = self.fields().iter().find(|(name, ..)| name == key)?;
        (!value.is_null()).then_some(value)
    }

    /// Returns whether a mapping has a key, with any value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields().iter().any(|(name, ..)| name == key)
    }

    /// Returns the keys and values of a mapping; none for other nodes.
    pub(super) fn fields(&self) -> &[(String, usize, Self)] {
        match &self.value {
            Value::Map(fields) => fields,
            _ => &[],
        }
    }

    /// Returns the items of a list; none for other nodes.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the items below a key; none if the key is missing.
    pub(super) fn list(&self, key: &str) -> &[Self] {
        self.get(key).map_or(&[], Self::items)
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text, _) => Some(text),
            _ => None,
        }
    }

    /// Returns the text below a key.
    pub(super) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Self::text)
    }

    fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(text, true) if matches!(text.as_str(), "" | "~" | "null"))
    }
}

/// A node that is being read.
#[derive(Debug)]
struct Open {
    node: Yaml,
    /// The key that waits for its value.
    key: Option<(String, usize)>,
    anchor: usize,
    /// The state of reading a text.
    nodes: usize,
}

/// What has been read of a text.
#[derive(Debug, Default)]
struct Reading {
    documents: Vec<Yaml>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Yaml, usize)>,
    nodes: usize,
    copied: usize,
}

/// Reads the documents of a text.
///
/// # Errors
///
/// The first position at which the text is not YAML, or exceeds the limits.
pub(super) fn parse(text: &str) -> Result<Vec<Yaml>, LoadError> {
    let mut parser = Parser::new_from_str(text);
    let mut reading = Reading::default();
    let refuse = |line: usize, column: usize, message: String| {
        let content = line_at(text, line);
        let byte = content.char_indices().nth(column).map_or(content.len(), |(byte, _)| byte);
        LoadError::new(line, content, byte, LoadErrorKind::Refused(message))
    };
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            let place = error.marker();
            refuse(place.line(), place.col(), format!("no YAML: {}", error.info()))
        })?;
        reading
            .take(event, span)
            .map_err(|message| refuse(span.start.line(), span.start.col(), message))?;
    }
    Ok(reading.documents)
}

impl Reading {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = Value::Scalar(text.into_owned(), style == ScalarStyle::Plain);
                self.add(Yaml { line, value }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => self.begin(line, Value::List(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => self.begin(line, Value::Map(Vec::new()), anchor),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { node, anchor, nodes, .. }) => self.add(node, anchor, nodes + 1),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                // An anchor has no entry while its own node is open.
                let kept = self.anchors.get(&anchor).map(|(_, nodes)| *nodes);
                let nodes = kept.ok_or("an alias to a node that contains it; write the node out")?;
                self.copy(nodes)?;
                let (node, _) = self.anchors[&anchor].clone();
                self.add(node, 0, nodes)
            }
            _ => Ok(()),
        }
    }

    /// Counts nodes before they are copied.
    fn copy(&mut self, nodes: usize) -> Result<(), String> {
        self.copied = self.copied.saturating_add(nodes);
        if self.copied > COPIED_MAX {
            return Err(format!("anchors and aliases of more than {COPIED_MAX} nodes; write them out"));
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, value: Value, anchor: usize) -> Result<(), String> {
        if self.open.len() == DEPTH_MAX {
            return Err(format!("YAML nests deeper than {DEPTH_MAX} lists and mappings"));
        }
        self.open.push(Open { node: Yaml { line, value }, key: None, anchor, nodes: 0 });
        Ok(())
    }

    /// Adds a complete node to the open one.
    fn add(&mut self, node: Yaml, anchor: usize, nodes: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(format!("more than {NODES_MAX} nodes; split the file"));
        }
        if anchor > 0 {
            self.copy(nodes)?;
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        let Some(parent) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        parent.nodes += nodes;
        match (&mut parent.node.value, parent.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(fields), Some((key, line))) => fields.push((key, line, node)),
            (Value::Map(fields), None) => {
                let key = node.text().map(String::from).ok_or("a key that is not text")?;
                if fields.iter().any(|(other, ..)| *other == key) {
                    return Err(format!("duplicate key '{key}' in this mapping; remove one of the two"));
                }
                parent.key = Some((key, node.line));
            }
            (Value::Scalar(..), _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_nodes_keep_their_line_numbers() {
        let text = "# a\na:\n- 1\n- {b: 'null', c: null}\n---\nd: &x [e, f]\ng: *x\n";
        let all = parse(text).unwrap();
        assert_eq!(all.len(), 2);
        let list = all[0].list("a");
        assert_eq!((list[0].text(), list[0].line, list[1].line), (Some("1"), 3, 4));
        assert_eq!((list[1].text_of("b"), list[1].get("c")), (Some("null"), None));
        assert!(list[1].has("c"));
        assert_eq!(all[1].list("g").len(), 2);
        assert_eq!(parse("{\"a\": [1, 2]}").unwrap()[0].list("a").len(), 2);
    }

    #[test]
    fn invalid_or_too_large_yaml_is_an_error() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("a: [1\nb: 2").contains("no YAML"), "{}", error("a: [1\nb: 2"));
        assert!(error("a: 1\na: 2").starts_with("2:1: duplicate key 'a'"), "{}", error("a: 1\na: 2"));
        assert!(error(&"[".repeat(100)).contains("deeper than 64"));
        assert!(error("a: &x [*x]").contains("alias"), "{}", error("a: &x [*x]"));
        let level = |level: u32| {
            let below = if level == 0 { String::from("x") } else { format!("*a{}", level - 1) };
            format!("a{level}: &a{level} [{}]\n", [&*below; 10].join(", "))
        };
        let bomb: String = (0..12).map(level).collect();
        assert!(error(&bomb).contains("aliases of more than"), "{}", error(&bomb));
    }
}
