//! The model of a configuration: the queues, routes, limits and listeners that a daemon runs on.
//!
//! Built by `config::load` of the daemon: every value has been checked, every default filled in, every template
//! compiled. What is plain has its keys beside its fields; nothing here knows the file.

mod audit;
mod daemon;
mod failures;
mod grafana;
mod inputs;
mod listeners;
mod message;
mod parts;
mod passing;
mod payload;
mod preview;
pub mod proxy;
mod queue;
pub mod role;
mod route;
mod servers;

pub use self::audit::{AuditFate, AuditSpec};
pub use self::daemon::{Config, ProcessLimits, Reload};
pub use self::failures::{
    HELD_MS, Jitter, OnAbsurdDue, OnDecodeError, OnExpired, OnOpaque, OnSkipped, OnUnroutable, REPEATED, RetryPolicy,
    Unroutable, is_absurd, is_in_seconds,
};
pub use self::grafana::GrafanaLinks;
pub use self::inputs::{InputRules, InputSpec};
pub use self::listeners::{AdminSpec, ApiSpec, Face, RequestRate};
pub use self::message::{
    EVENT_SOURCE, EVENT_TYPE, Envelope, EventData, EventMode, EventSpec, MessageSpec, RouteMessage,
};
pub use self::parts::{Difference, Parts};
pub use self::passing::{HeaderFilter, LeftOut};
pub use self::payload::Payload;
pub use self::preview::{Misfit, SKIPPED};
pub use self::queue::{MaxInFlight, Mode, Modes, Order, Ordered, QueueSpec};
pub use self::route::{Duplicates, RouteRules, RouteSpec, Routed, routes_taken};
pub use self::servers::{ONLY, Servers};

/// The keys of these structs, a module for each table.
pub mod keys {
    pub use super::daemon::{limits, reload};
    pub use super::failures::retry;
    pub use super::grafana::grafana;
    pub use super::inputs::input_rules;
    pub use super::listeners::admin;
    pub use super::proxy::{admin_proxy, proxy_role};
}
