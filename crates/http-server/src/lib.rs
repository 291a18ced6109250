//! HTTP on the server's side, as all APIs of the daemon need it: connections, requests, answers and problems.
//!
//! ```text
//! connection -> router -> call    -> handler -> reply     -> connection
//! server.rs     a table   room.rs               answer.rs    handover.rs
//! ```
//!
//! It knows no job, no queue and no operator: an API has its own table of routes and its own callers. What is wrong with a request
//! becomes a [`problem`], and the OpenAPI document is made from the table of routes ([`openapi`]).
//!
//! Nothing is repeated here: whether a call may have taken effect the client has to know, and the answer says it.

pub mod accept;
pub mod answer;
mod answers;
pub mod call;
pub mod feed;
pub mod fields;
pub mod file;
pub mod gzip;
pub mod handover;
mod listen;
pub mod listener;
pub mod named;
pub mod openapi;
pub mod origin;
pub mod places;
pub mod problem;
pub mod rates;
pub mod reply;
mod repoll;
pub mod room;
pub mod route;
pub mod router;
pub mod server;
pub mod shares;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod tls;
pub mod tokens_file;
pub mod turns;
