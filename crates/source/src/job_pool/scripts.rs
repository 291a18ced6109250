//! The pool's half of the ledger's scripts. The head of each documents its arguments and its reply.

use std::sync::LazyLock;

use delaybridge_ledger::{Fragments, claims};
use delaybridge_link::Clock;

/// The pool's half.
const FRAGMENTS: Fragments = Fragments {
    keys: include_str!("scripts/keys.lua"),
    stats: include_str!("scripts/stats.lua"),
    remove: delaybridge_ledger::REMOVE_SETS,
    claims: claims::Fragments {
        keys: include_str!("scripts/claims/keys.lua"),
        look: include_str!("scripts/claims/look.lua"),
        quick: "",
        check: include_str!("scripts/claims/check.lua"),
        open: include_str!("scripts/claims/open.lua"),
        move_taken: include_str!("scripts/claims/move.lua"),
        finish: include_str!("scripts/claims/finish.lua"),
    },
};

/// The scripts that the daemon runs: Redis's clock decides.
pub static SCRIPTS: LazyLock<delaybridge_ledger::Scripts> =
    LazyLock::new(|| delaybridge_ledger::Scripts::new(&FRAGMENTS, Clock::Redis));

/// The same scripts under a clock that a test sets, so that a seed replays.
pub static SCRIPTS_ON_TEST_CLOCK: LazyLock<delaybridge_ledger::Scripts> =
    LazyLock::new(|| delaybridge_ledger::Scripts::new(&FRAGMENTS, Clock::Test));
