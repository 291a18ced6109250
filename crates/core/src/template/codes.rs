//! Error codes of templates that cannot be filled, with their causes and cures.

use crate::codes::{Code, code};

/// The error codes of templates, for the reference of errors.
pub const CODES: &[Code] = &[
    code(
        "template_field_missing",
        "A template uses a field that the element does not have.",
        "Give it a default: `${payload.x:-none}`. If the payload is a text that is JSON, write `json_in_text: true` at the queue.",
    ),
    code("template_result_empty", "A template's result is empty.", "Give it a default, or correct the payload."),
    code(
        "template_result_unfit",
        "A template's result is invalid for the destination.",
        "The message has the reason. Correct the template.",
    ),
];
