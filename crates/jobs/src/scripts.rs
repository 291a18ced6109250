//! The Lua scripts, compiled in. Arguments, replies and repeatability are documented at the head of each.

use std::sync::LazyLock;

use delaybridge_link::{Clock, Script};

/// One script for each change of a job, and for each view.
pub struct Scripts {
    pub(super) add: Script,
    pub(super) change: Script,
    pub(super) pop: Script,
    pub(super) finish: Script,
    pub(super) release: Script,
    pub(super) touch: Script,
    pub(super) delete: Script,
    pub(super) empty: Script,
    pub(super) destroy: Script,
    pub(super) get: Script,
    pub(super) peek: Script,
    pub(super) stats: Script,
    pub(super) redrive: Script,
    pub(super) purge: Script,
    pub(super) tick: Script,
    pub(super) counts: Script,
    pub(super) recover: Script,
    pub(super) limits: Script,
    pub(super) unreadable: Script,
    pub(super) order: Script,
    pub(super) forget: Script,
    pub(super) recurring_set: Script,
    pub(super) recurring_switch: Script,
    pub(super) recurring_list: Script,
    pub(super) recurring_fire: Script,
}

/// The scripts with Redis's clock.
pub static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Clock::Redis));

/// A replacement in one script: (script, text, replacement). For tests that plant a bug.
pub type Patch<'a> = (&'a str, &'a str, &'a str);

const PRELUDE: &str = include_str!("scripts/prelude.lua");

/// The parts that scripts include: the line that includes one, and its text.
const INCLUDES: [(&str, &str); 10] = [
    ("--#include types.lua", include_str!("scripts/types.lua")),
    ("--#include state.lua", include_str!("scripts/state.lua")),
    ("--#include moves.lua", include_str!("scripts/moves.lua")),
    ("--#include free_keys.lua", include_str!("scripts/free_keys.lua")),
    ("--#include deleted.lua", include_str!("scripts/deleted.lua")),
    ("--#include urgent.lua", include_str!("scripts/urgent.lua")),
    ("--#include wake.lua", include_str!("scripts/wake.lua")),
    // After those that include them.
    ("--#include limit.lua", include_str!("scripts/limit.lua")),
    ("--#include priority.lua", include_str!("scripts/priority.lua")),
    ("--#include recurring.lua", include_str!("scripts/recurring.lua")),
];

const TEXTS: [(&str, &str); 24] = [
    ("add", include_str!("scripts/add.lua")),
    ("change", include_str!("scripts/change.lua")),
    ("pop", include_str!("scripts/pop.lua")),
    ("finish", include_str!("scripts/finish.lua")),
    ("release", include_str!("scripts/release.lua")),
    ("touch", include_str!("scripts/touch.lua")),
    ("delete", include_str!("scripts/delete.lua")),
    ("empty", include_str!("scripts/empty.lua")),
    ("destroy", include_str!("scripts/destroy.lua")),
    ("get", include_str!("scripts/get.lua")),
    ("peek", include_str!("scripts/peek.lua")),
    ("stats", include_str!("scripts/stats.lua")),
    ("redrive", include_str!("scripts/redrive.lua")),
    ("purge", include_str!("scripts/purge.lua")),
    ("tick", include_str!("scripts/tick.lua")),
    ("recover", include_str!("scripts/recover.lua")),
    ("limits", include_str!("scripts/limits.lua")),
    ("unreadable", include_str!("scripts/unreadable.lua")),
    ("order", include_str!("scripts/order.lua")),
    ("forget", include_str!("scripts/forget.lua")),
    ("recurring_set", include_str!("scripts/recurring_set.lua")),
    ("recurring_switch", include_str!("scripts/recurring_switch.lua")),
    ("recurring_list", include_str!("scripts/recurring_list.lua")),
    ("recurring_fire", include_str!("scripts/recurring_fire.lua")),
];

impl Scripts {
    /// Builds the scripts with this clock.
    pub fn new(clock: Clock) -> Self {
        Self::patched(clock, &[])
    }

    /// Builds the scripts with replacements, so that a test can show that it notices a bug. A replaced text may be in
    /// an included part.
    ///
    /// # Panics
    ///
    /// Panics if a script does not exist, or does not contain the text.
    #[doc(hidden)]
    pub fn patched(clock: Clock, patches: &[Patch]) -> Self {
        let script = |name: &'static str| {
            let body = TEXTS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
            let text =
                INCLUDES.iter().fold(format!("{PRELUDE}\n{body}"), |text, (line, file)| text.replace(line, file));
            let mut text = clock.in_text(text);
            for (_, from, to) in patches.iter().filter(|(script, ..)| *script == name) {
                assert!(text.contains(from), "script {name} does not contain {from}");
                text = text.replace(from, to);
            }
            Script::new(format!("jobs_{name}"), text)
        };
        for (name, ..) in patches {
            assert!(TEXTS.iter().any(|(known, _)| known == name), "no script of jobs is called {name}");
        }
        Scripts {
            add: script("add"),
            change: script("change"),
            pop: script("pop"),
            finish: script("finish"),
            release: script("release"),
            touch: script("touch"),
            delete: script("delete"),
            empty: script("empty"),
            destroy: script("destroy"),
            get: script("get"),
            peek: script("peek"),
            stats: script("stats"),
            redrive: script("redrive"),
            purge: script("purge"),
            tick: script("tick"),
            counts: Script::new("jobs_counts", include_str!("scripts/counts.lua")),
            recover: script("recover"),
            limits: script("limits"),
            unreadable: script("unreadable"),
            order: script("order"),
            forget: script("forget"),
            recurring_set: script("recurring_set"),
            recurring_switch: script("recurring_switch"),
            recurring_list: script("recurring_list"),
            recurring_fire: script("recurring_fire"),
        }
    }

    /// Returns all scripts, which are loaded when a connection is made.
    pub fn all(&self) -> [&Script; 25] {
        let Scripts {
            add,
            change,
            pop,
            finish,
            release,
            touch,
            delete,
            empty,
            destroy,
            get,
            peek,
            stats,
            redrive,
            purge,
            tick,
            counts,
            recover,
            limits,
            unreadable,
            order,
            forget,
            recurring_set,
            recurring_switch,
            recurring_list,
            recurring_fire,
        } = self;
        [
            add,
            pop,
            finish,
            release,
            touch,
            delete,
            empty,
            destroy,
            get,
            peek,
            stats,
            redrive,
            purge,
            tick,
            counts,
            recover,
            limits,
            unreadable,
            order,
            forget,
            change,
            recurring_set,
            recurring_switch,
            recurring_list,
            recurring_fire,
        ]
    }
}
