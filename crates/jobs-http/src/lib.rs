//! The job queue over HTTP: our own API, and two APIs of others on the same jobs.
//!
//! ```text
//! connection  -> dispatch -> access -> handler -> JobQueue
//! http-server    routes      token     v1/ ...    crates/jobs
//! ```
//!
//! A request comes in on a bounded server ([`delaybridge_http_server`]), is matched with the one table of [`routes`], gets its caller
//! from [`access`], and is answered by a handler that has one call on the queue to make. The OpenAPI document is made from the same
//! table ([`openapi`]).

pub mod access;
pub mod config;
mod dialects;
mod dispatch;
mod job_call;
mod lmstfy;
mod message;
pub mod openapi;
mod ouqiang;
pub mod put;
mod route;
mod routes;
mod state;
mod take;
mod v1;
pub mod weight;

pub use self::dispatch::HttpApi;
pub(crate) use self::state::Api;
pub use self::state::ServiceEnd;

#[cfg(test)]
mod tests;
