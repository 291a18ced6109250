//! The ledger's Lua scripts, compiled in. What each takes, returns and bears is at its head.

use super::claims;
use crate::link::{Clock, Script};

/// One script for each move between the states of an element (R2). Those that touch the source have its half in them, so
/// there is a set for each kind of source.
pub struct Scripts {
    pub(super) cancel: Script,
    pub(super) redrive: Script,
    pub(super) forward: Script,
    pub(super) pause: Script,
    pub(super) stats: Script,
    /// Those of claims.
    pub claims: claims::Scripts,
}

/// The Lua text that a source adds to the ledger's scripts.
#[derive(Debug, Clone, Copy)]
pub struct Fragments {
    /// Names for its keys, which come from the fourth of `KEYS` on, and `SOURCE_TYPES`, their types.
    pub keys: &'static str,
    /// `source_depths()`: see `stats.lua`.
    pub stats: &'static str,
    /// Its parts of the claim script.
    pub claims: claims::Fragments,
}

/// The text that Redis gets: what all scripts share, and the script.
pub fn whole(body: &str, clock: Clock) -> String {
    let text = format!("{}\n{body}", include_str!("scripts/prelude.lua"));
    clock.in_text(text)
}

impl Scripts {
    /// The ledger's scripts with this half in them.
    pub fn new(fragments: &Fragments, clock: Clock) -> Self {
        let script = |name: &str, body: &str| {
            let body = body.replace("--#source keys", fragments.keys).replace("--#source stats", fragments.stats);
            Script::new(name, whole(&body, clock))
        };
        Scripts {
            cancel: script("cancel", include_str!("scripts/cancel.lua")),
            redrive: script("redrive", include_str!("scripts/redrive.lua")),
            forward: script("forward", include_str!("scripts/forward.lua")),
            pause: script("pause", include_str!("scripts/pause.lua")),
            stats: script("stats", include_str!("scripts/stats.lua")),
            claims: claims::Scripts::new(&fragments.claims, clock),
        }
    }

    /// All of them, to be loaded when a connection is made.
    pub fn all(&self) -> Vec<&Script> {
        let Scripts { cancel, redrive, forward, pause, stats, claims } = self;
        claims.all().into_iter().chain([cancel, redrive, forward, pause, stats]).collect()
    }
}
