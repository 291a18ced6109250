//! What a template is filled from, and what comes out of it: for route's headers and for the sinks' targets.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::Template;
use crate::message::Identity;

/// What is known of an element besides its payload.
#[derive(Clone, Copy, Debug)]
pub struct ElementInfo<'a> {
    /// Identity, the same at every attempt.
    pub id: &'a Identity,
    /// The queue's id in the configuration.
    pub queue: &'a str,
    /// Due time in milliseconds since the epoch; unknown for elements of the ready list.
    pub due_ms: Option<i64>,
    /// Number of this attempt, starting at 1.
    pub attempt: u32,
    /// The topic of a job, where its source has topics.
    pub topic: Option<&'a str>,
}

/// A payload as templates see it.
pub trait Fields {
    /// The text, number or boolean at this path, as text; an empty path is the payload itself.
    fn field(&self, path: &[String]) -> Option<Cow<'_, str>>;
}

/// A payload that no template reads.
#[derive(Clone, Copy, Debug)]
pub struct NoFields;

impl Fields for NoFields {
    fn field(&self, _path: &[String]) -> Option<Cow<'_, str>> {
        None
    }
}

/// Fills templates for one element.
#[derive(Clone, Copy)]
pub struct Filler<'a> {
    pub(super) element: &'a ElementInfo<'a>,
    pub(super) payload: &'a dyn Fields,
    content_type: Option<&'static str>,
}

/// A template cannot be filled for this element, now or later: a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// A template asks for something that the element does not have, and names no default.
    #[error(
        "fill template of {place}: the element has no text, number or boolean `{field}`; a default is written `${{{field}:-...}}`"
    )]
    MissingField {
        /// The configuration key of the template.
        place: String,
        /// The field as the template names it; never its value.
        field: Arc<str>,
    },
    /// The filled template is an empty key.
    #[error("fill template of {place}: the result is empty")]
    EmptyDestination {
        /// The configuration key of the template.
        place: String,
    },
    /// The filled template is nothing that the destination could be.
    #[error("fill template of {place}: {why}")]
    Unfit {
        /// The configuration key of the template.
        place: String,
        /// What is wrong; never the value.
        why: &'static str,
    },
}

impl FillError {
    /// Short stable code, safe as a metric label and in dead letters.
    pub fn code(&self) -> &'static str {
        match self {
            FillError::MissingField { .. } => "template_field_missing",
            FillError::EmptyDestination { .. } => "template_result_empty",
            FillError::Unfit { .. } => "template_result_unfit",
        }
    }

    /// The filled template of `place` is empty, and must not be.
    pub fn empty(place: &str) -> FillError {
        FillError::EmptyDestination { place: place.to_owned() }
    }
}

impl<'a> Filler<'a> {
    /// Fills from this element and its payload. `content_type` is the media type of the body where the envelope says
    /// so; a target that has a place of its own for it puts it there.
    pub fn new(element: &'a ElementInfo<'a>, payload: &'a dyn Fields, content_type: Option<&'static str>) -> Self {
        Filler { element, payload, content_type }
    }

    /// The media type of the body, where the envelope says so.
    pub fn content_type(&self) -> Option<&'static str> {
        self.content_type
    }

    /// The text; `place` names the key whose template it is.
    ///
    /// # Errors
    /// When the element lacks a field that has no default.
    pub fn text(&self, template: &Template, place: &dyn std::fmt::Display) -> Result<String, FillError> {
        template.fill(self).map_err(|field| FillError::MissingField { place: place.to_string(), field })
    }

    /// The text as bytes; those of a template without holes are shared, not copied.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn bytes(&self, template: &Template, place: &str) -> Result<Bytes, FillError> {
        match template.static_bytes() {
            Some(bytes) => Ok(bytes.clone()),
            None => self.text(template, &place).map(Bytes::from),
        }
    }

    /// The text, shared where the template has no holes (such a text was checked when it was configured); else `unfit`
    /// says what is wrong with it.
    ///
    /// # Errors
    /// As [`text`](Self::text), and when the text does not fit.
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
