//! The OpenAPI 3.1 document of our own API; and the same as OpenAPI 3.0, which older generators read.
//!
//! The document is a file, which a test writes from the table of routes: a line of the table has the description of its endpoint, and
//! the schemas are those of the types that are answered; every answer that the tests get is compared with what the document says
//! of it. What writes it is no part of the daemon.

pub mod bodies;
#[cfg(test)]
mod own;

use serde_json::{Value, json};

#[cfg(test)]
pub(crate) use self::own::document;

/// The document.
pub(crate) const DOCUMENT: &str = include_str!("../openapi.json");

/// Returns the document of version 3.1 as OpenAPI 3.0: nothing in the schemas needs more.
pub(crate) fn older(mut document: Value) -> Value {
    document["openapi"] = json!("3.0.3");
    document["info"]["license"] = json!({ "name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0" });
    document
}
