//! Redisson's half of the ledger's scripts, and its own. The head of each documents its arguments, its reply, and a second call.

use std::sync::LazyLock;

use delaybridge_ledger::Fragments;
use delaybridge_ledger::claims::{self, Patch};
use delaybridge_link::{Clock, Script};
use delaybridge_offers::Text;

/// Redisson's half.
const FRAGMENTS: Fragments = Fragments {
    keys: include_str!("scripts/keys.lua"),
    stats: include_str!("scripts/stats.lua"),
    remove: include_str!("scripts/remove.lua"),
    claims: CLAIMS,
};

/// Redisson's parts of the claim script.
const CLAIMS: claims::Fragments = claims::Fragments {
    keys: include_str!("scripts/claims/keys.lua"),
    look: include_str!("scripts/claims/look.lua"),
    quick: include_str!("scripts/claims/quick.lua"),
    check: include_str!("scripts/claims/check.lua"),
    open: include_str!("scripts/claims/open.lua"),
    move_taken: concat!(include_str!("scripts/claims/move.lua"), "\n", include_str!("scripts/claims/list.lua")),
    finish: include_str!("scripts/claims/finish.lua"),
};

/// All scripts that a daemon runs for a queue of Redisson.
pub struct Scripts {
    /// The ledger's, with this half in them.
    pub ledger: delaybridge_ledger::Scripts,
    pub(super) sweep: Script,
    pub(super) offer: Script,
    pub(super) rescue: Script,
}

/// The scripts that the daemon runs: Redis's clock decides.
pub static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Clock::Redis));

/// The same scripts under a clock that a test sets, so that a seed replays.
pub static SCRIPTS_ON_TEST_CLOCK: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Clock::Test));

/// Returns a script that only the command line sends: loaded when it is first needed, under Redis's clock.
pub(super) fn of_the_command_line(name: &str, body: &str) -> Script {
    Script::new(name, delaybridge_ledger::whole(&with_half(body), Clock::Redis))
}

fn with_half(body: &str) -> String {
    body.replace("--#source keys", FRAGMENTS.keys)
        .replace("--#include list.lua", include_str!("scripts/claims/list.lua"))
}

/// In front of the script of all producers, which ends at a wrong type too, but without the name of the key.
const TYPES_FIRST: &str = "local bad = wrong_type('zset', 'list')\nif bad then return bad end\n";

impl Scripts {
    fn new(clock: Clock) -> Self {
        let script = |name: &str, body: &str| Script::new(name, delaybridge_ledger::whole(&with_half(body), clock));
        Scripts {
            ledger: delaybridge_ledger::Scripts::new(&FRAGMENTS, clock),
            sweep: script("sweep", include_str!("scripts/sweep.lua")),
            offer: script("offer", &format!("{TYPES_FIRST}{}", Text::Offer.text())),
            rescue: script("rescue", include_str!("scripts/rescue.lua")),
        }
    }

    /// Creates the scripts with texts of the ledger's replaced, so that a test can show that it notices a bug.
    ///
    /// # Panics
    ///
    /// For a script that does not exist, or that does not contain the text.
    #[doc(hidden)]
    pub fn patched(clock: Clock, patches: &[Patch]) -> Self {
        let mut scripts = Scripts::new(clock);
        scripts.ledger = delaybridge_ledger::Scripts::patched(&FRAGMENTS, clock, patches);
        scripts
    }

    /// Returns the scripts that are Redisson's alone.
    pub fn own(&self) -> [&Script; 3] {
        [&self.sweep, &self.offer, &self.rescue]
    }

    /// Returns all of them, to be loaded when a connection is made.
    pub fn all(&self) -> Vec<&Script> {
        self.ledger.all().into_iter().chain(self.own()).collect()
    }
}
