//! The topic's half of the ledger's scripts: the half of a sorted set, the check whether the topic is paused, and the lives of jobs.

use std::sync::LazyLock;

use delaybridge_ledger::{Fragments, claims};
use delaybridge_link::Clock;

/// The topic's half. Its due set is a sorted set in milliseconds, so the parts of `zset` serve it.
const FRAGMENTS: Fragments = Fragments {
    keys: include_str!("../zset/scripts/keys.lua"),
    stats: include_str!("../zset/scripts/stats.lua"),
    remove: delaybridge_ledger::REMOVE_SETS,
    claims: claims::Fragments {
        keys: concat!("local LIVES = table.remove(KEYS)\n", include_str!("../zset/scripts/claims/keys.lua")),
        look: concat!(include_str!("scripts/paused.lua"), include_str!("../zset/scripts/claims/look.lua")),
        quick: "",
        check: concat!(include_str!("../zset/scripts/claims/check.lua"), "typed(LIVES, 'HLEN', LIVES)\n"),
        open: "if got_z > 0 then open(Z) end",
        move_taken: concat!(
            include_str!("../zset/scripts/claims/move.lua"),
            "for i = 1, #elements, 2 do call('HINCRBY', LIVES, 'n' .. elements[i], 1) end\n",
            "if urgent then for i = 1, #elements, 2 do call('ZREM', URGENT, elements[i]) end end\n"
        ),
        finish: include_str!("../zset/scripts/claims/finish.lua"),
    },
};

/// The scripts that the daemon runs: Redis's clock decides.
pub static SCRIPTS: LazyLock<delaybridge_ledger::Scripts> =
    LazyLock::new(|| delaybridge_ledger::Scripts::new(&FRAGMENTS, Clock::Redis));

/// The same scripts under a clock that a test sets, so that a seed replays.
pub static SCRIPTS_ON_TEST_CLOCK: LazyLock<delaybridge_ledger::Scripts> =
    LazyLock::new(|| delaybridge_ledger::Scripts::new(&FRAGMENTS, Clock::Test));
