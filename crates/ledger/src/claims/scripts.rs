//! The Lua scripts of claims, compiled in. The head of each documents its arguments, its reply, and a second call.
//!
//! A script is the ledger's Lua text with fragments of the source. Placeholders `--#source NAME` are replaced when the
//! script is built. The head of each script documents what its fragments must define. Scripts of queues with `order` are
//! the same texts with additional parts (`scripts/order`).

use delaybridge_link::{Clock, Script};

/// One script for each call on claims that is more than a single command. That of the claim has the source's parts in it,
/// so there is a set for each kind of source.
pub struct Scripts {
    pub(super) claim: Script,
    pub(super) take_over: Script,
    pub(super) extend: Script,
    pub(super) settle: Script,
    pub(super) bury: Script,
    /// For queues in order. Loaded when one is first served.
    pub(super) in_order: InOrder,
}

/// The same for queues in order: with the fence of the one daemon that delivers.
pub struct InOrder {
    pub(super) claim: Script,
    pub(super) take_over: Script,
    pub(super) extend: Script,
    pub(super) leave: Script,
}

/// The Lua text that a source adds to the claim script: see the head of `claim.lua` for what each part must do.
#[derive(Debug, Clone, Copy)]
pub struct Fragments {
    /// Names for its keys, which come from the fifth of `KEYS` on.
    pub keys: &'static str,
    /// Reads that show what it has.
    pub look: &'static str,
    /// Takes what is quickly taken.
    pub quick: &'static str,
    /// Reads its other keys, and what is to be taken.
    pub check: &'static str,
    /// Writes that remove nothing.
    pub open: &'static str,
    /// Moves what was read.
    pub move_taken: &'static str,
    /// Brings what it adds to the reply up to date.
    pub finish: &'static str,
}

/// A text in one script that is replaced: (script, text, what is there instead). For tests that plant a bug.
pub type Patch<'a> = (&'a str, &'a str, &'a str);

impl Scripts {
    /// Creates the scripts with these parts in them.
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
        for (script, ..) in patches {
            assert!(TEXTS.iter().any(|(name, _)| name == script), "no script of claims is called {script}");
        }
        let script = |name: &'static str| {
            let mut text = text_of(name, fragments, clock, false);
            for (_, from, to) in patches.iter().filter(|(script, ..)| *script == name) {
                assert!(text.contains(from), "script {name} does not contain {from}");
                text = text.replace(from, to);
            }
            Script::new(name, text)
        };
        let ordered = |name: &str| Script::new(format!("{name}_in_order"), text_of(name, fragments, clock, true));
        let in_order = InOrder {
            claim: ordered("claim"),
            take_over: ordered("take_over"),
            extend: ordered("extend"),
            leave: ordered("leave"),
        };
        Scripts {
            in_order,
            claim: script("claim"),
            take_over: script("take_over"),
            extend: script("extend"),
            settle: script("settle"),
            bury: script("bury"),
        }
    }

    /// Returns all of them, to be loaded when a connection is made.
    pub fn all(&self) -> [&Script; 5] {
        let Scripts { claim, take_over, extend, settle, bury, in_order: _ } = self;
        [claim, take_over, extend, settle, bury]
    }
}

const TEXTS: [(&str, &str); 6] = [
    ("leave", include_str!("scripts/order/leave.lua")),
    ("claim", include_str!("scripts/claim.lua")),
    ("take_over", include_str!("scripts/take_over.lua")),
    ("extend", include_str!("scripts/extend.lua")),
    ("settle", include_str!("scripts/settle.lua")),
    ("bury", include_str!("scripts/bury.lua")),
];

/// The text that a queue in order has in its scripts, and others have not.
const ORDER: [(&str, &str); 6] = [
    ("--#order keys", include_str!("scripts/order/keys.lua")),
    ("--#order claim", include_str!("scripts/order/claim.lua")),
    ("--#order places", include_str!("scripts/order/places.lua")),
    ("--#order take_over", include_str!("scripts/order/take_over.lua")),
    ("--#order extend", include_str!("scripts/order/extend.lua")),
    // Last: the others have it in them.
    ("--#order own", include_str!("scripts/order/own.lua")),
];

/// Returns the text that Redis gets.
fn text_of(name: &str, fragments: &Fragments, clock: Clock, ordered: bool) -> String {
    let body = TEXTS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
    let Fragments { keys, look, quick, check, open, move_taken, finish } = fragments;
    let mut body = body.to_owned();
    for (place, text) in ORDER {
        body = body.replace(place, if ordered { text } else { "" });
    }
    let text = format!("{}\n{body}", include_str!("scripts/prelude.lua"))
        .replace("--#source keys", keys)
        .replace("--#source look", look)
        .replace("--#source quick", quick)
        .replace("--#source check", check)
        .replace("--#source open", open)
        .replace("--#source move", move_taken)
        .replace("--#source finish", finish)
        .replace("--#include reading.lua", include_str!("scripts/reading.lua"))
        .replace("--#include headers.lua", include_str!("scripts/headers.lua"));
    clock.in_text(text)
}
