//! The job queue over HTTP: our own API, and two APIs of others on the same jobs.
//!
//! ```text
//! connection -> dispatch -> access -> handler -> JobQueue
//! server.rs     routes      token     v1/ ...    crates/jobs
//! ```
//!
//! A request comes in on a bounded [`server`], is matched with the one table of [`routes`], gets its caller from
//! [`access`], and is answered by a handler that has one call on the queue to make. What is wrong becomes a
//! [`problem`]. The OpenAPI document is made from the same table ([`openapi`]).
//!
//! Nothing is repeated here: whether a call may have taken effect the client has to know, and the answer says it.

pub mod access;
pub mod answer;
mod answers;
pub mod call;
pub mod config;
mod dialects;
mod dispatch;
pub mod feed;
pub mod fields;
pub mod file;
mod gzip;
pub mod handover;
mod job_call;
pub mod listener;
mod lmstfy;
mod message;
pub mod named;
pub mod openapi;
pub mod origin;
mod ouqiang;
pub mod places;
pub mod problem;
pub mod put;
pub mod rates;
pub mod reply;
mod repoll;
pub mod room;
mod route;
pub mod router;
mod routes;
pub mod server;
mod shares;
mod state;
mod stream;
mod take;
pub mod text;
pub mod tls;
pub mod tokens_file;
pub mod turns;
mod v1;
pub mod weight;

pub use self::dispatch::HttpApi;
pub(crate) use self::state::Api;
pub use self::state::ServiceEnd;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
