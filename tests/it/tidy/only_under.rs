//! Names that are allowed in one place only.

use super::{line_of, sources};

/// A word that is allowed only under certain paths.
struct OnlyUnder {
    word: &'static str,
    places: &'static [&'static str],
    why: &'static str,
}

// What library a crate may use is in its manifest.
const ONLY_UNDER: &[OnlyUnder] = &[
    OnlyUnder {
        word: "Deserialize",
        // What a daemon answers to a command is read into the very shapes that it was written from.
        places: &[
            "settings/",
            "ops/queue_state.rs",
            // Requests, from which a daemon reads what the command line wrote.
            "ops/operation/",
            "ops/operations/",
            "ops/time.rs",
            "ops/content.rs",
            // The answer of a provider of tokens, and what a token says.
            "sink-kafka/tokens/",
            "ops/search.rs",
            "ops/forecast/",
            "ops/audit.rs",
            // Records of other daemons, bounded.
            "ops/fleet.rs",
            // A bounded note of another process, for the log.
            "ops/note.rs",
            "ops/pause.rs",
            "ops/overview.rs",
            "ops/error.rs",
            "ops/peek.rs",
            "ops/element/",
            "ops/dead/",
            "ops/horizon.rs",
            "ops/queue_order.rs",
            "ops/jobs/",
            // Sizes and limits of a topic in such an answer.
            "jobs/limits.rs",
            "jobs/look.rs",
            "ops/remote",
            // The id in such an answer.
            "message.rs",
        ],
        why: "what comes from outside is checked where it is parsed; everywhere else values are valid by construction",
    },
    OnlyUnder {
        word: "tokio::spawn",
        places: &[
            "app/",
            "pipeline/",
            "link/",
            "sink-",
            "sink/task.rs",
            "testing/",
            "jobs-http/tests/",
            "admin/tests/",
        ],
        why: "every task has an owner that knows what its end and its panic mean: the app, the pipeline, a link's \
              supervisor, a sink's one worker",
    },
    OnlyUnder {
        word: "task::spawn",
        places: &["app/", "pipeline/", "link/", "sink-", "testing/", "jobs-http/tests/", "admin/tests/"],
        why: "every task has an owner that knows what its end and its panic mean: the app, the pipeline, a link's \
              supervisor, a sink's one worker",
    },
    OnlyUnder {
        word: "SystemTime",
        // A producer counts delays from its own clock, as Redisson does, and the kit compares that with its own.
        places: &["clock.rs", "offers/clock.rs", "conformance/bench.rs", "sink-kafka/tokens/"],
        why: "points in time are Redis's (R9), and only clock.rs may guess them before Redis has answered",
    },
    OnlyUnder {
        word: "std::time::Instant",
        places: &["clock.rs", "config/tests/", "link/test_server.rs", "link/tests/", "testing/"],
        why: "that clock stops while the machine sleeps, and a lease does not (R3): use delaybridge_core::clock::Instant",
    },
    OnlyUnder {
        word: "time::{Duration, Instant",
        // The trait of a reactor has it in a signature; no time is measured there.
        places: &[
            "clock.rs",
            "config/tests/",
            "link/test_server.rs",
            "link/tests/",
            "sink-amqp/wire/runtime.rs",
            "testing/",
        ],
        why: "that clock stops while the machine sleeps, and a lease does not (R3): use delaybridge_core::clock::Instant",
    },
    OnlyUnder {
        word: "unbounded_channel",
        places: &[],
        why: "what is in flight is bounded (R4): use a channel with a capacity",
    },
    OnlyUnder {
        word: "mpsc::unbounded",
        places: &[],
        why: "what is in flight is bounded (R4): use a channel with a capacity",
    },
];

/// Whether `word` is at `at` as a path of its own, not as the end of a longer one (`tokio_redis::`).
pub(super) fn stands_alone(code: &str, at: usize, word: &str) -> bool {
    let before = code[..at].chars().next_back();
    let own_module = word == "redis::" && code[..at].ends_with("::"); // crate::sink::redis:: is ours
    let after = code[at + word.len()..].chars().next();
    let identifier = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    !identifier(before) && !own_module && (word.ends_with(':') || !identifier(after))
}

#[test]
fn what_belongs_in_one_place_is_only_there() {
    let mut wrong = Vec::new();
    for source in sources() {
        for rule in ONLY_UNDER {
            if rule.places.iter().any(|place| source.path.starts_with(place)) {
                continue;
            }
            for (at, _) in source.code.match_indices(rule.word) {
                if stands_alone(&source.code, at, rule.word) {
                    let line = line_of(&source.code, at);
                    let places = if rule.places.is_empty() { "nowhere".into() } else { rule.places.join(", ") };
                    wrong
                        .push(format!("{}:{line}: `{}` is allowed in: {places}; {}", source.file, rule.word, rule.why));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
