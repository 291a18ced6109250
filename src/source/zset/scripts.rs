//! The set's half of the ledger's scripts. What each takes, returns and bears is at its head.

use std::sync::LazyLock;

use crate::ledger::claims::{self, Patch};
use crate::ledger::{self, Clock, Fragments};

/// The set's half.
const FRAGMENTS: Fragments = Fragments {
    keys: include_str!("scripts/keys.lua"),
    stats: include_str!("scripts/stats.lua"),
    remove: ledger::REMOVE_SETS,
    claims: CLAIMS,
};

/// The set's parts of the claim script.
const CLAIMS: claims::Fragments = claims::Fragments {
    keys: include_str!("scripts/claims/keys.lua"),
    look: include_str!("scripts/claims/look.lua"),
    quick: "",
    check: include_str!("scripts/claims/check.lua"),
    open: "if got_z > 0 then open(Z) end",
    move_taken: include_str!("scripts/claims/move.lua"),
    finish: include_str!("scripts/claims/finish.lua"),
};

/// All scripts that a daemon runs for a queue that is a sorted set.
pub struct Scripts {
    /// The ledger's, with this half in them.
    pub ledger: ledger::Scripts,
}

/// The scripts that the daemon runs: Redis's clock decides.
pub static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Clock::Redis));

/// The same scripts under a clock that a test sets, so that a seed replays.
pub static SCRIPTS_ON_TEST_CLOCK: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Clock::Test));

impl Scripts {
    fn new(clock: Clock) -> Self {
        Scripts { ledger: ledger::Scripts::new(&FRAGMENTS, clock) }
    }

    /// The same with texts of the ledger's scripts replaced, so that a test can show that it notices a bug.
    ///
    /// # Panics
    ///
    /// For a script that does not exist, or that does not contain the text.
    #[doc(hidden)]
    pub fn patched(clock: Clock, patches: &[Patch]) -> Self {
        let mut scripts = Scripts::new(clock);
        scripts.ledger = ledger::Scripts::patched(&FRAGMENTS, clock, patches);
        scripts
    }
}
