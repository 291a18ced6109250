//! The Lua scripts, compiled in. What each takes, returns and bears stands at its head.

use std::sync::LazyLock;

use crate::link::Script;

/// One script for each move between the states of an element (R2).
pub struct Scripts {
    pub(super) claim: Script,
    pub(super) recover: Script,
    pub(super) settle: Script,
    pub(super) extend: Script,
    pub(super) sweep: Script,
    pub(super) offer: Script,
    pub(super) cancel: Script,
    pub(super) redrive: Script,
    pub(super) forward: Script,
    pub(super) rescue: Script,
    pub(super) stats: Script,
}

/// Key that holds the seconds and microseconds of the injected clock: a list of two.
pub const TEST_CLOCK: &str = "delaybridge:test:clock";

/// The scripts that the daemon runs: Redis's clock decides.
pub static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(false));

/// The same scripts under a clock that a test sets, so that a seed replays.
pub static SCRIPTS_ON_TEST_CLOCK: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(true));

/// A script that only the command line sends: loaded when it is first needed, under Redis's clock.
pub(super) fn of_the_command_line(name: &str, body: &str) -> Script {
    Script::new(name, whole(body))
}

/// The text that Redis gets: what all scripts share, and the script with what it includes.
fn whole(body: &str) -> String {
    let body = body.replace("--#include list.lua", include_str!("scripts/list.lua"));
    format!("{}\n{body}", include_str!("scripts/prelude.lua"))
}

impl Scripts {
    fn new(test_clock: bool) -> Self {
        let script = |name, body: &str| {
            let text = whole(body);
            let text = match test_clock {
                true => text.replace("redis.call('TIME')", &format!("redis.call('LRANGE', '{TEST_CLOCK}', 0, 1)")),
                false => text,
            };
            Script::new(name, text)
        };
        Scripts {
            claim: script("claim", include_str!("scripts/claim.lua")),
            recover: script("recover", include_str!("scripts/recover.lua")),
            settle: script("settle", include_str!("scripts/settle.lua")),
            extend: script("extend", include_str!("scripts/extend.lua")),
            sweep: script("sweep", include_str!("scripts/sweep.lua")),
            offer: script("offer", include_str!("scripts/offer.lua")),
            cancel: script("cancel", include_str!("scripts/cancel.lua")),
            redrive: script("redrive", include_str!("scripts/redrive.lua")),
            forward: script("forward", include_str!("scripts/forward.lua")),
            rescue: script("rescue", include_str!("scripts/rescue.lua")),
            stats: script("stats", include_str!("scripts/stats.lua")),
        }
    }

    /// All of them, to be loaded when a connection is made.
    pub fn all(&self) -> [&Script; 11] {
        let Scripts { claim, recover, settle, extend, sweep, offer, cancel, redrive, forward, rescue, stats } = self;
        [claim, recover, settle, extend, sweep, offer, cancel, redrive, forward, rescue, stats]
    }
}
