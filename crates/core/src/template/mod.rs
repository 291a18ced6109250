//! Texts with `${...}` placeholders: compiled when the configuration is loaded, filled for every element ([`Filler`]).
//!
//! Fields: `${id}`, `${queue}`, `${due_ms}`, `${attempt}`, `${topic}`, `${payload}` (text, or a JSON scalar),
//! `${payload.a.b}`, `${payload.items.0}`; of a message that came by an input, `${input.routing_key}`, `${input.header.NAME}`
//! and others ([`Carried`]). A default follows `:-`. `$${` is a literal `${`; any other `$` is literal,
//! so keys like `a$b` and `a$$b` need no escaping. Environment variables were replaced before.

pub mod codes;
mod field;
mod fill;

use std::sync::Arc;

use bytes::Bytes;

pub(crate) use field::Field;
pub use field::FieldValue;
pub use fill::{ElementInfo, Fields, FillError, Filler, NoFields};

/// A compiled text with `${...}` placeholders.
#[derive(Debug, Clone)]
pub struct Template {
    source: Arc<str>,
    body: Body,
    /// Whether the address in a message's own header takes the place of the text.
    addressed: bool,
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        self.source == other.source
    }
}

/// The empty text.
impl Default for Template {
    fn default() -> Template {
        Template { source: "".into(), body: Body::Static { text: "".into(), bytes: Bytes::new() }, addressed: false }
    }
}

/// Serializes as the original text.
impl serde::Serialize for Template {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

#[derive(Debug, Clone)]
enum Body {
    /// Without placeholders: the bytes are UTF-8, and all elements share them.
    Static { text: Arc<str>, bytes: Bytes },
    /// With at least one placeholder.
    Dynamic(Arc<[Part]>),
}

#[derive(Debug)]
enum Part {
    Text(String),
    Hole { name: Arc<str>, field: Field, default: Option<String> },
}

/// The reason why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder without an end.
    #[error("`${{` at character {at} has no closing `}}`; a literal `${{` is written `$${{`")]
    Unclosed {
        /// The position in characters, starting at 1.
        at: usize,
    },
    /// A placeholder with an unknown name.
    #[error("`${{{field}}}` is no field of an element: there are id, queue, due_ms, attempt, payload, payload.NAME")]
    UnknownField {
        /// The name of the field, without the default.
        field: String,
    },
    /// A path with an empty step.
    #[error("`${{{field}}}` has an empty step in its path")]
    EmptyStep {
        /// The name of the field, without the default.
        field: String,
    },
}

impl Template {
    /// The fields that a placeholder may name.
    pub const FIELDS: [&'static str; 6] = ["id", "queue", "due_ms", "attempt", "topic", "payload"];

    /// Compiles `text`.
    ///
    /// # Errors
    /// Returns an error if a placeholder is not closed or names no field.
    pub fn compile(text: &str) -> Result<Template, TemplateError> {
        let source: Arc<str> = text.into();
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                literal.push_str(&rest[..at - 1]);
                literal.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            literal.push_str(&rest[..at]);
            let Some(length) = rest[at..].find('}') else {
                let before = text.len() - rest.len() + at;
                return Err(TemplateError::Unclosed { at: text[..before].chars().count() + 1 });
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::compile(&rest[at + 2..at + length])?);
            rest = &rest[at + length + 1..];
        }
        literal.push_str(rest);
        let body = if parts.is_empty() {
            let text: Arc<str> = if literal == text { source.clone() } else { literal.into() };
            Body::Static { bytes: Bytes::copy_from_slice(text.as_bytes()), text }
        } else {
            if !literal.is_empty() {
                parts.push(Part::Text(literal));
            }
            Body::Dynamic(parts.into())
        };
        Ok(Template { source, body, addressed: false })
    }

    /// Returns the routing key with which a message of an input was published, or none.
    pub fn original_key() -> Template {
        const TEXT: &str = "${input.routing_key}";
        Template::compile(TEXT).unwrap_or_else(|_| Template {
            source: TEXT.into(),
            body: Body::Dynamic([].into()),
            addressed: false,
        })
    }

    /// Returns the address of a message that came by an input: the one in its header, else this text.
    #[must_use]
    pub fn addressed(self) -> Template {
        let body = match self.body {
            Body::Static { text, .. } => Body::Dynamic([Part::Text(text.to_string())].into()),
            dynamic @ Body::Dynamic(_) => dynamic,
        };
        Template { body, addressed: true, ..self }
    }

    /// Returns the original text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the text, if it is the same for all elements.
    pub fn static_text(&self) -> Option<&str> {
        match &self.body {
            Body::Static { text, .. } => Some(text),
            Body::Dynamic(_) => None,
        }
    }

    /// Returns [`static_text`](Template::static_text) as shared text.
    pub fn static_shared(&self) -> Option<&Arc<str>> {
        match &self.body {
            Body::Static { text, .. } => Some(text),
            Body::Dynamic(_) => None,
        }
    }

    /// Returns the text of every element that has no address of its own, if it is the same for all of these.
    pub fn usual_text(&self) -> Option<Arc<str>> {
        match &self.body {
            Body::Static { text, .. } => Some(text.clone()),
            Body::Dynamic(parts) => match &**parts {
                [Part::Text(text)] => Some(text.as_str().into()),
                _ => None,
            },
        }
    }

    /// Returns [`static_text`](Template::static_text) as shared bytes.
    pub fn static_bytes(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Static { bytes, .. } => Some(bytes),
            Body::Dynamic(_) => None,
        }
    }

    /// Returns whether the result depends on the payload, or on a part of the message that came with it. Then a failure
    /// of its destination is the message's own: a dead letter, not a hold.
    pub fn uses_payload(&self) -> bool {
        let of_message = |part: &Part| matches!(part, Part::Hole { field: Field::Input(_), .. });
        self.addressed || self.reads_payload() || self.parts().iter().any(of_message)
    }

    /// Returns whether the template reads the payload itself.
    pub fn reads_payload(&self) -> bool {
        self.payload_fields().next().is_some()
    }

    /// Returns whether elements of one queue can get different texts.
    pub fn varies(&self) -> bool {
        self.addressed
            || self.parts().iter().any(|part| matches!(part, Part::Hole { field, .. } if *field != Field::Queue))
    }

    /// Returns whether the template reads a field inside the payload, which only a structured codec provides.
    pub fn uses_payload_path(&self) -> bool {
        self.payload_fields().any(|path| !path.is_empty())
    }

    /// Returns whether all placeholders read fields inside the payload, and there is at least one.
    pub fn is_of_payload_fields(&self) -> bool {
        let inside = |part: &&Part| matches!(part, Part::Hole { field: Field::Payload(path), .. } if !path.is_empty());
        let mut holes = self.parts().iter().filter(|part| matches!(part, Part::Hole { .. })).peekable();
        holes.peek().is_some() && holes.all(|hole| inside(&hole))
    }

    /// Returns whether the template reads the due time without a default; elements of the ready list have none.
    pub fn needs_due(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Part::Hole { field: Field::DueMs, default: None, .. }))
    }

    /// Returns the texts of the template for this queue, in order; `None` stands for a placeholder that depends on the
    /// element.
    pub fn outline(&self, queue: &str) -> impl Iterator<Item = Option<String>> {
        let known = self.static_text().map(|text| Some(text.to_owned()));
        let parts = self.parts().iter().map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Hole { field: Field::Queue, .. } => Some(queue.to_owned()),
            Part::Hole { .. } => None,
        });
        known.into_iter().chain(parts)
    }

    fn parts(&self) -> &[Part] {
        match &self.body {
            Body::Static { .. } => &[],
            Body::Dynamic(parts) => parts,
        }
    }

    fn payload_fields(&self) -> impl Iterator<Item = &[String]> {
        self.parts().iter().filter_map(|part| match part {
            Part::Hole { field: Field::Payload(path), .. } => Some(path.as_slice()),
            _ => None,
        })
    }

    /// Fills the template; fails with the name of the field that the element lacks.
    fn fill(&self, from: &Filler<'_>) -> Result<String, Arc<str>> {
        let parts = match &self.body {
            Body::Static { text, .. } => return Ok(text.to_string()),
            Body::Dynamic(parts) => parts,
        };
        if let (true, Some(to)) = (self.addressed, from.element.carried.and_then(|carried| carried.to.as_ref())) {
            return Ok(to.clone());
        }
        let mut filled = String::with_capacity(self.source.len() + 32);
        for part in parts.iter() {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Hole { name, field, default } => match (field.text(from), default) {
                    (Some(value), _) => filled.push_str(&value),
                    (None, Some(default)) => filled.push_str(default),
                    (None, None) => return Err(name.clone()),
                },
            }
        }
        Ok(filled)
    }
}

impl Part {
    /// Compiles the text between `${` and `}`.
    fn compile(hole: &str) -> Result<Part, TemplateError> {
        let (name, default) = match hole.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (hole, None),
        };
        let field = Field::named(name)?;
        Ok(Part::Hole { name: name.into(), field, default })
    }
}
