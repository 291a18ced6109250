//! Which failed tests may run once more.
//!
//! A test that is wrong about time passes when it runs alone. A loss, a duplicate or a wrong order that shows once in a
//! hundred runs passes as well, and is what the tests are for: its first failure counts.

/// Programs whose tests are never run again: random faults, models, and what an element costs.
const PROGRAMS: &[&str] = &["chaos", "explored", "guard", "allocations", "memory", "kit"];

/// Modules about what must hold in every run.
const MODULES: &[&str] = &["claims", "random", "crash", "order", "ordered", "reconcile"];

/// Words in the name of a test about what must hold in every run.
const WORDS: &[&str] = &[
    "lose",
    "loses",
    "lost",
    "loss",
    "losing",
    "duplicate",
    "duplicates",
    "twice",
    "once",
    "exactly",
    "order",
    "gone",
    "missing",
    "dropped",
];

/// What the oracle of the tests says before its verdict on elements. Such a failure counts whatever its test is called.
const ORACLE: &str = "broken promise: ";

/// What a test says whose fault has met nothing: it has not tried what it is for, so its failure says nothing of a loss.
const UNTRIED: &str = "the test shows nothing";

/// The message of a test that has rewritten a generated page. It passes the second time, although the committed page was wrong.
const REWRITTEN: &str = "was out of date and ";

/// Whether the first failure of a test decides.
pub fn first_failure_counts(program: &str, name: &str, output: &str) -> bool {
    let path: Vec<&str> = name.split("::").collect();
    let (own, modules) = path.split_last().unwrap_or((&name, &[]));
    // "At once" is about time.
    let own = own.replace("at_once", "");
    let by_name =
        modules.iter().any(|module| MODULES.contains(module)) || own.split('_').any(|word| WORDS.contains(&word));
    let by_output = [ORACLE, REWRITTEN].iter().any(|words| output.contains(words));
    PROGRAMS.contains(&program) || by_output || by_name && !output.contains(UNTRIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_hold_in_every_run_is_never_run_again() {
        let check = |program: &str, name: &str, output: &str, expected: bool| {
            assert_eq!(first_failure_counts(program, name, output), expected, "{program} {name} {output}");
        };
        check("it", "kafka::outages::a_broker_that_is_paused_dies_and_restarts_loses_nothing", "", true);
        check("it", "jobs::random::a_topic_does_what_its_model_says", "", true);
        check("it", "http::held::a_receiver_that_is_full_is_waited_for", "", false);
        let verdict = "panicked at a.rs:1:2:\nbroken promise: 4 offered, 3 arrived in 3 deliveries, 1 missing: [7]";
        check("it", "http::held::a_receiver_that_is_full_is_waited_for", verdict, true);
        let untried = "panicked at a.rs:1:2:\nno kill met anything in flight: the test shows nothing";
        check("it", "crash::kills::a_daemon_that_is_killed_loses_nothing", untried, false);
        check("it", "crash::kills::a_daemon_that_is_killed_loses_nothing", &format!("{untried}\n{verdict}"), true);
        let rewritten = "panicked at a.rs:1:2:\ndocs/a.md was out of date and is rewritten: look at it and commit it";
        check("delaybridge_config", "tests::generated::the_reference_is_current", rewritten, true);
        check("guard", "hot_path::an_element_costs_no_more", untried, true);
        check("it", "reload::a_daemon_at_rest_delivers_at_once_what_is_made_due", "", false);
        check("it", "jobs::a_crowd_gets_each_job_once_and_everybody_gets_one", "", true);
        check("guard", "hot_path::an_element_costs_no_more", "", true);
        check("delaybridge_link", "tests::a_peer_that_stops_answering_is_replaced", "", false);
    }
}
