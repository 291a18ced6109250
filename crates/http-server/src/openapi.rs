//! The OpenAPI document of an API: a line of its table of routes has the description of its endpoint, and the schemas are those of
//! the types that are answered. What writes the document is no part of the daemon, which answers the file.

pub mod operation;
#[cfg(any(test, feature = "testing"))]
pub mod schemas;
#[cfg(any(test, feature = "testing"))]
pub mod write;
