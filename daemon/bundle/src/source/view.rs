//! One way to look at a body in either syntax.
//!
//! In JSON what is a block and what an argument depends on who asks, and every level can be an object, or an
//! array of objects that count together. Here all of them are looked at, nested arrays too: where Terraform
//! would take less, it refuses the file.

use std::ops::Range;

use super::json::{Node, Property, Value};
use super::literal::{Entry, Literal};
use super::native::{Body, Item};

/// What is in a file or a block.
#[derive(Clone, Debug)]
pub(crate) enum View<'s> {
    Native(&'s Body),
    /// The bodies that count together.
    Json(Vec<&'s Node>),
}

/// The name of an argument, or the kind of a block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Name<'s> {
    pub(crate) text: &'s str,
    /// Counted from 1.
    pub(crate) line: u32,
    /// Whether it is certainly a block. In JSON that cannot be told.
    pub(crate) is_block: bool,
}

/// Where an argument of the native syntax stands, in bytes of the text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stands {
    /// Where its name begins.
    pub(crate) start: usize,
    pub(crate) value: Range<usize>,
}

/// A block of the kind that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Found<'s> {
    /// As many as were asked for, unless Terraform refuses the block for having another number of them.
    pub(crate) labels: Vec<&'s str>,
    /// Of its kind, or in JSON of its last label.
    pub(crate) line: u32,
    pub(crate) body: View<'s>,
}

impl Found<'_> {
    /// A label, or nothing where Terraform misses it.
    pub(crate) fn label(&self, index: usize) -> &str {
        self.labels.get(index).copied().unwrap_or_default()
    }
}

impl<'s> View<'s> {
    /// Everything in it by name, comments of the JSON syntax left out.
    pub(crate) fn names(&self) -> Vec<Name<'s>> {
        match self {
            Self::Native(body) => body.items.iter().map(name).collect(),
            Self::Json(nodes) => properties(nodes)
                .filter(|property| property.name != "//")
                .map(|property| Name {
                    text: &property.name,
                    line: property.line,
                    is_block: false,
                })
                .collect(),
        }
    }

    /// Its blocks of a kind that has so many labels.
    pub(crate) fn blocks(&self, kind: &str, labels: usize) -> Vec<Found<'s>> {
        match self {
            Self::Native(body) => body
                .items
                .iter()
                .filter_map(|item| match item {
                    Item::Block(block) if block.kind == kind => Some(Found {
                        labels: block.labels.iter().map(String::as_str).collect(),
                        line: block.line,
                        body: View::Native(&block.body),
                    }),
                    Item::Block(_) | Item::Argument(_) => None,
                })
                .collect(),
            Self::Json(nodes) => {
                let mut found = Vec::new();
                for property in properties(nodes).filter(|property| property.name == kind) {
                    let labels_used = &mut Vec::new();
                    unpack(
                        &property.node,
                        property.line,
                        labels,
                        labels_used,
                        &mut found,
                    );
                }
                found
            }
        }
    }

    /// Every value that an argument is given, with the line of its name.
    pub(crate) fn values(&self, name: &str) -> Vec<(u32, Literal)> {
        match self {
            Self::Native(body) => body
                .items
                .iter()
                .filter_map(|item| match item {
                    Item::Argument(argument) if argument.name == name => {
                        Some((argument.line, argument.value.clone()))
                    }
                    Item::Argument(_) | Item::Block(_) => None,
                })
                .collect(),
            Self::Json(nodes) => properties(nodes)
                .filter(|property| property.name == name)
                .map(|property| (property.line, literal(&property.node)))
                .collect(),
        }
    }

    /// Where those stand. In JSON nothing is told of that.
    pub(crate) fn stands(&self, name: &str) -> Vec<Stands> {
        let Self::Native(body) = self else {
            return Vec::new();
        };
        let of_that_name = body.items.iter().filter_map(|item| match item {
            Item::Argument(argument) if argument.name == name => Some(Stands {
                start: argument.start,
                value: argument.value_at.clone(),
            }),
            Item::Argument(_) | Item::Block(_) => None,
        });
        of_that_name.collect()
    }

    /// Every argument with its value, as in a block that takes any name.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        match self {
            Self::Native(body) => body
                .items
                .iter()
                .filter_map(|item| match item {
                    Item::Argument(argument) => Some(Entry {
                        key: argument.name.clone(),
                        line: argument.line,
                        value: argument.value.clone(),
                    }),
                    Item::Block(_) => None,
                })
                .collect(),
            Self::Json(nodes) => properties(nodes)
                .filter(|property| property.name != "//")
                .map(entry)
                .collect(),
        }
    }

    /// Where something stands that is no body, so that Terraform cannot read it.
    pub(crate) fn misshapen(&self) -> Option<u32> {
        match self {
            Self::Native(_) => None,
            Self::Json(nodes) => nodes.iter().find_map(|node| misshapen(node)),
        }
    }
}

fn name(item: &Item) -> Name<'_> {
    match item {
        Item::Argument(argument) => Name {
            text: &argument.name,
            line: argument.line,
            is_block: false,
        },
        Item::Block(block) => Name {
            text: &block.kind,
            line: block.line,
            is_block: true,
        },
    }
}

/// The properties of all objects that count together.
fn properties<'s>(nodes: &[&'s Node]) -> impl Iterator<Item = &'s Property> + use<'s> {
    let mut found = Vec::new();
    for node in nodes {
        flatten(node, &mut found);
    }
    found.into_iter()
}

fn flatten<'s>(node: &'s Node, found: &mut Vec<&'s Property>) {
    match &node.value {
        Value::Object(properties) => found.extend(properties),
        Value::Array(nodes) => nodes.iter().for_each(|node| flatten(node, found)),
        Value::Null | Value::Bool(_) | Value::Number | Value::Text(_) => {}
    }
}

/// Takes the labels off, one level of names each, then a block for every body.
fn unpack<'s>(
    node: &'s Node,
    line: u32,
    labels_left: usize,
    labels: &mut Vec<&'s str>,
    found: &mut Vec<Found<'s>>,
) {
    if labels_left > 0 {
        for property in properties(&[node]) {
            labels.push(&property.name);
            unpack(
                &property.node,
                property.line,
                labels_left - 1,
                labels,
                found,
            );
            labels.pop();
        }
        return;
    }
    let bodies = match &node.value {
        Value::Array(nodes) => nodes.iter().collect(),
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number | Value::Text(_) | Value::Object(_) => vec![node],
    };
    found.extend(bodies.into_iter().map(|body| Found {
        labels: labels.clone(),
        line,
        body: View::Json(vec![body]),
    }));
}

fn misshapen(node: &Node) -> Option<u32> {
    match &node.value {
        Value::Object(_) | Value::Null => None,
        Value::Array(nodes) => nodes.iter().find_map(misshapen),
        Value::Bool(_) | Value::Number | Value::Text(_) => Some(node.line),
    }
}

/// A value as it is written. Text is a template wherever Terraform evaluates it, so text with the beginning
/// of one is no literal.
fn literal(node: &Node) -> Literal {
    match &node.value {
        Value::Null => Literal::Null,
        Value::Bool(value) => Literal::Bool(*value),
        Value::Number => Literal::Other,
        Value::Text(text) if text.contains("${") || text.contains("%{") => Literal::Other,
        Value::Text(text) => Literal::Text(text.clone()),
        Value::Array(nodes) => Literal::List(nodes.iter().map(literal).collect()),
        Value::Object(properties) => Literal::Object(properties.iter().map(entry).collect()),
    }
}

fn entry(property: &Property) -> Entry {
    Entry {
        key: property.name.clone(),
        line: property.line,
        value: literal(&property.node),
    }
}
