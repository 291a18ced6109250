//! What operators see of a running daemon, and what they may ask of it: an API under `/v1/`, and a web page.
//!
//! ```text
//! connection -> dispatch -> access -> v1/ ... or pages/ ... -> operate
//! http-server   routes      token     JSON       HTML          Redis
//! ```
//!
//! The listener, the reading of requests and the problems are those of all APIs ([`delaybridge_http_server`]). Both the API and the
//! pages call the same functions and show the same values, so nothing is only on a page.
//!
//! Redis is asked over connections of their own: what an operator looks at does not wait in front of a claim. An answer is kept for
//! a second ([`overview_cache`]), so several people who watch cost as much as one. What changes something runs to its end even if its
//! client goes away, and is written to the log with the name of its token.

mod access;
mod changes;
mod dispatch;
mod failures;
mod fleet;
mod forms;
mod live;
#[cfg(test)]
mod openapi;
mod overview_cache;
mod pages;
mod proxy;
mod queue_list;
mod routes;
mod sessions;
mod state;
mod v1;
mod views;

pub use self::state::Admin;

#[cfg(test)]
mod tests;
