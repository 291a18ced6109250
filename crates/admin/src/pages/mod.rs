//! The web page: HTML that the server makes, readable without a script.
//!
//! Every value goes through maud, which escapes it. There is no inline script and no inline style, so a value could not become one
//! either. Links are relative, so the page works under any path of a proxy.

mod ahead;
pub mod assets;
pub mod audit;
mod bars;
pub mod chosen;
pub mod config;
pub mod dead;
pub mod element;
pub mod elements;
pub mod events;
pub mod everywhere;
pub mod export;
pub mod fleet;
mod inputs;
mod layout;
pub mod list_place;
pub mod login;
pub mod overview;
mod past;
pub mod pausing;
pub mod problem;
pub mod queue;
pub mod search;
mod show;
pub mod sink;
pub mod sweep;
pub mod tonight;
pub mod topics;
mod why;

pub(super) use self::layout::see_other;
