//! The audit trail.

use super::*;

/// The good file with this trail at the queue `mails`, and keys beside it.
fn trail(audit: &str, beside: &str) -> String {
    let sinks = GOOD.replace("  ready:\n", "  trail: { redis: { stream: audit } }\n  ready:\n");
    sinks.replace("    codec: json\n", &format!("    codec: json\n{beside}    audit: {audit}\n"))
}

#[test]
fn a_trail_is_read_and_shown() {
    let config = load(&trail("{ sink: trail }", "")).expect("a configuration").config;
    let mails = &config.queues[1];
    let audit = mails.audit.as_deref().expect("a trail");
    let all = [AuditFate::Delivered, AuditFate::Skipped, AuditFate::Dead, AuditFate::Expired];
    assert_eq!((&*audit.route.sink, &audit.on[..]), ("trail", &all[..]));
    assert_eq!(mails.routes().map(|route| &*route.sink).collect::<Vec<_>>(), ["out", "trail"]);
    let shown = describe(&config);
    assert!(shown.contains("sink: trail\n") && shown.contains("on: [delivered, skipped, dead, expired]"), "{shown}");
    let text = trail("{ sink: trail, on: [dead, delivered] }", "");
    let audit = load(&text).expect("a configuration").config.queues[1].audit.clone().expect("a trail");
    assert_eq!(audit.on[..], [AuditFate::Dead, AuditFate::Delivered]);
}

#[test]
fn what_cannot_be_recorded_before_an_element_leaves_is_refused() {
    let refused = |audit: &str, beside: &str, expected: &str| {
        let problems = load(&trail(audit, beside)).err().map(|errors| lines(&errors.problems)).unwrap_or_default();
        assert_eq!(problems.len(), 1, "{audit}: {problems:?}");
        assert!(problems[0].contains(expected), "{audit}: {problems:?}");
    };
    refused("{ sink: trail, on: [dead, cancelled] }", "", "`cancelled` cannot be recorded before the element leaves");
    refused("{ sink: trail, on: [expired] }", "", "`expired` never happens: no element of the queue expires");
    refused(
        "{ sink: trail, on: [expired] }",
        "    max_lateness: 1h\n    on_expired: deliver\n",
        "`expired` never happens",
    );
    refused("{ sink: trail, on: [skipped] }", "", "`skipped` never happens: a destination without `when`");
    refused("{ sink: trail }", "    mode: shadow\n", "`audit` has no effect with `mode: shadow`");
    refused("{ sink: tral }", "", "did you mean `trail`?");
    refused("{ on: [dead] }", "", "`sink` is missing");
    refused("{ sink: trail, on: [deliverd] }", "", "did you mean `delivered`?");
    assert!(load(&trail("{ sink: trail, on: [expired] }", "    max_lateness: 1h\n")).is_ok());
}

#[test]
fn the_sink_of_a_trail_counts_as_a_sink_of_the_queue() {
    let slow = trail("{ sink: trail }", "").replace("stream: audit", "stream: audit, timeout: 25s");
    let problems = lines(&load(&slow).expect_err("a lease that is too short").problems);
    assert!(problems[0].contains("the time-out of sink `trail` (25s)"), "{problems:?}");
    let own = trail("{ sink: trail }", "").replace("stream: audit", "list: mails");
    let problems = lines(&load(&own).expect_err("a list that is consumed").problems);
    assert!(problems[0].contains("queue `mails` consumes the list `mails`"), "{problems:?}");
}
