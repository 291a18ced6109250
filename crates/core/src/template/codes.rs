//! Error codes of templates that cannot be filled, with their causes and cures.

use crate::codes::{Code, code};

/// The error codes of templates, for the reference of errors.
pub const CODES: &[Code] = &[
    code(
        "template_field_missing",
        "The element lacks a field of a template.",
        "Give it a default (`${payload.x:-none}`); for JSON within a text write `json_in_text: true`.",
    ),
    code("template_result_empty", "A template's result is empty.", "Give it a default, or correct the payload."),
    code(
        "template_result_unfit",
        "A template's result is invalid for the destination.",
        "Correct the template; the message has the reason.",
    ),
];
