//! The input of templates and their results, for the route's headers and the sinks' targets.

use std::borrow::Cow;
use std::sync::Arc;

use super::{FieldValue, Template};
use crate::carried::Carried;
use crate::message::Identity;

/// The data of an element besides its payload.
#[derive(Clone, Copy, Debug)]
pub struct ElementInfo<'a> {
    /// The identity, the same at every attempt.
    pub id: &'a Identity,
    /// The queue's id in the configuration.
    pub queue: &'a str,
    /// The due time in milliseconds since the epoch; `None` for elements of the ready list.
    pub due_ms: Option<i64>,
    /// The number of this attempt, starting at 1.
    pub attempt: u32,
    /// The topic of a job, if its source has topics.
    pub topic: Option<&'a str>,
    /// The address, headers and properties of a message that came by an input.
    pub carried: Option<&'a Carried>,
}

/// A payload whose fields templates can read.
pub trait Fields {
    /// Returns the value at this path. An empty path means the payload itself.
    fn value(&self, path: &[String]) -> Option<FieldValue<'_>>;

    /// Returns whether the payload is a text that is a JSON object or list, which its codec does not look into.
    fn is_json_text(&self) -> bool {
        false
    }

    /// Returns the text, number or boolean at this path, as text.
    fn field(&self, path: &[String]) -> Option<Cow<'_, str>> {
        self.value(path)?.text()
    }
}

/// A payload without fields.
#[derive(Clone, Copy, Debug)]
pub struct NoFields;

impl Fields for NoFields {
    fn value(&self, _path: &[String]) -> Option<FieldValue<'_>> {
        None
    }
}

/// The values that fill templates for one element.
#[derive(Clone, Copy)]
pub struct Filler<'a> {
    pub(super) element: &'a ElementInfo<'a>,
    pub(super) payload: &'a dyn Fields,
    content_type: Option<&'static str>,
}

/// The error for a template that can never be filled for this element, which becomes a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The element lacks a field that has no default.
    #[error("fill template of {place}: the element has no text, number or boolean `{field}`; {}", cure(field, *.in_text))]
    MissingField {
        /// The configuration key of the template.
        place: String,
        /// The name of the field in the template; never its value.
        field: Arc<str>,
        /// Whether the payload is a text that is JSON, where the field may be.
        in_text: bool,
    },
    /// The result is empty and must not be.
    #[error("fill template of {place}: the result is empty")]
    EmptyDestination {
        /// The configuration key of the template.
        place: String,
    },
    /// The result is invalid for the destination.
    #[error("fill template of {place}: {why}")]
    Unfit {
        /// The configuration key of the template.
        place: String,
        /// The reason; never the value.
        why: &'static str,
    },
}

/// Returns the remedy for a missing field.
fn cure(field: &str, in_text: bool) -> String {
    if in_text {
        "the payload is a text that is JSON: with `json_in_text: true` the queue looks into it".to_owned()
    } else {
        format!("a default is written `${{{field}:-...}}`")
    }
}

impl FillError {
    /// Returns a short stable code, safe as a metric label and in dead letters.
    pub fn code(&self) -> &'static str {
        match self {
            FillError::MissingField { .. } => "template_field_missing",
            FillError::EmptyDestination { .. } => "template_result_empty",
            FillError::Unfit { .. } => "template_result_unfit",
        }
    }

    /// Builds the error for an empty result of the template of `place`.
    pub fn empty(place: &str) -> FillError {
        FillError::EmptyDestination { place: place.to_owned() }
    }
}

impl<'a> Filler<'a> {
    /// Creates a filler for this element and its payload. `content_type` is the media type of the body if the envelope
    /// determines it; a target with a property for it sets it.
    pub fn new(element: &'a ElementInfo<'a>, payload: &'a dyn Fields, content_type: Option<&'static str>) -> Self {
        Filler { element, payload, content_type }
    }

    /// Returns the media type of the body, if the envelope determines it.
    pub fn content_type(&self) -> Option<&'static str> {
        self.content_type
    }

    /// Fills a template. `place` is the configuration key of the template, for errors.
    ///
    /// # Errors
    /// Returns an error if the element lacks a field without a default.
    pub fn text(&self, template: &Template, place: &dyn std::fmt::Display) -> Result<String, FillError> {
        template.fill(self).map_err(|field| FillError::MissingField {
            place: place.to_string(),
            in_text: field.starts_with("payload.") && self.payload.is_json_text(),
            field,
        })
    }

    /// Fills a template and checks the result with `unfit`, which returns what is wrong with it. A template without
    /// placeholders was checked with the configuration, and its text is shared.
    ///
    /// # Errors
    /// As [`text`](Self::text), and if the result is invalid.
    pub fn fitting(
        &self,
        template: &Template,
        place: &str,
        unfit: fn(&str) -> Option<&'static str>,
    ) -> Result<Arc<str>, FillError> {
        if let Some(text) = template.static_shared() {
            return Ok(text.clone());
        }
        let text = self.text(template, &place)?;
        match unfit(&text) {
            Some(why) => Err(FillError::Unfit { place: place.to_owned(), why }),
            None => Ok(text.into()),
        }
    }
}
