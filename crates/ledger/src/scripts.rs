//! The ledger's Lua scripts, compiled in. The head of each documents its arguments, its reply, and a second call.

use super::claims::{self, Patch};
use delaybridge_link::{Clock, Script};

/// One script for each move between the states of an element (R2). Those that touch the source have its half in them, so
/// there is a set for each kind of source.
pub struct Scripts {
    pub(super) reschedule: Script,
    pub(super) remove: Script,
    pub(super) redrive: Script,
    pub(super) forward: Script,
    pub(super) pause: Script,
    pub(super) others: Script,
    pub(super) stats: Script,
    /// The scripts of claims.
    pub claims: claims::Scripts,
}

/// The Lua text that a source adds to the ledger's scripts.
#[derive(Debug, Clone, Copy)]
pub struct Fragments {
    /// Names for its keys, which come from the fourth of `KEYS` on, and `SOURCE_TYPES`, their types.
    pub keys: &'static str,
    /// `source_depths()`: see `stats.lua`.
    pub stats: &'static str,
    /// The half of the removal of one element: see `remove.lua`.
    pub remove: &'static str,
    /// The parts of the claim script.
    pub claims: claims::Fragments,
}

/// The half of `remove.lua` of a source of which every key with elements is a sorted set.
pub const REMOVE_SETS: &str = include_str!("scripts/remove_sets.lua");

/// Returns the text that Redis gets: what all scripts share, and the script.
pub fn whole(body: &str, clock: Clock) -> String {
    let text = format!("{}\n{body}", include_str!("scripts/prelude.lua"));
    clock.in_text(text)
}

/// The texts that are the ledger's alone.
const TEXTS: [(&str, &str); 7] = [
    ("reschedule", include_str!("scripts/reschedule.lua")),
    ("remove", include_str!("scripts/remove.lua")),
    ("redrive", include_str!("scripts/redrive.lua")),
    ("forward", include_str!("scripts/forward.lua")),
    ("pause", include_str!("scripts/pause.lua")),
    ("others", include_str!("scripts/others.lua")),
    ("stats", include_str!("scripts/stats.lua")),
];

impl Scripts {
    /// Creates the ledger's scripts with this half in them.
    pub fn new(fragments: &Fragments, clock: Clock) -> Self {
        Self::patched(fragments, clock, &[])
    }

    /// Creates the scripts with texts replaced, so that a test can show that it notices a bug.
    ///
    /// # Panics
    ///
    /// For a script that does not exist, or that does not contain the text.
    #[doc(hidden)]
    pub fn patched(fragments: &Fragments, clock: Clock, patches: &[Patch]) -> Self {
        let is_own = |name: &str| TEXTS.iter().any(|(own, _)| *own == name);
        let script = |name: &'static str| {
            let body = TEXTS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
            let mut body = body
                .replace("--#source keys", fragments.keys)
                .replace("--#source stats", fragments.stats)
                .replace("--#source remove", fragments.remove);
            for (_, from, to) in patches.iter().filter(|(patched, ..)| *patched == name) {
                assert!(body.contains(from), "script {name} does not contain {from}");
                body = body.replace(from, to);
            }
            Script::new(name, whole(&body, clock))
        };
        let of_claims: Vec<Patch> = patches.iter().filter(|(name, ..)| !is_own(name)).copied().collect();
        Scripts {
            reschedule: script("reschedule"),
            remove: script("remove"),
            redrive: script("redrive"),
            forward: script("forward"),
            pause: script("pause"),
            others: script("others"),
            stats: script("stats"),
            claims: claims::Scripts::patched(&fragments.claims, clock, &of_claims),
        }
    }

    /// Returns all of them, to be loaded when a connection is made.
    pub fn all(&self) -> Vec<&Script> {
        let Scripts { reschedule, remove, redrive, forward, pause, others, stats, claims } = self;
        claims.all().into_iter().chain([reschedule, remove, redrive, forward, pause, others, stats]).collect()
    }
}
