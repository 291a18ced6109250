//! Sorted sets as sources.

use super::*;

fn zset(keys: &str, expected: &[&str]) {
    let source = format!("source: {{ zset: {{ {keys} }} }}");
    check_words(&GOOD.replace("source: { redisson: { name: mails } }", &source), expected);
}

#[test]
fn a_set_has_a_key_and_a_unit() {
    zset("key: due, score: ms", &[]);
    zset("key: due, score: 'ms*4096', id: '${payload.jid}', body: '${payload.data}'", &[]);
    zset("key: due", &["queues.mails.source.zset: `score` is missing"]);
    let spring = "key_base64: rO0ABXQAC2RlbGF5X3F1ZXVl";
    zset(&format!("{spring}, score: ms"), &[]);
    zset(&format!("{spring}, key: due, score: ms"), &["queues.mails.source.zset.key_base64: the key is there twice"]);
    zset("key_base64: '%', score: ms", &["queues.mails.source.zset.key_base64: this is no base64"]);
    // As a person writes what redis-cli shows.
    zset(
        "key: \"\\xac\\xed\\0\\x05t\\0\\x01q\", score: ms",
        &["queues.mails.source.zset.key: the key looks like bytes that are no text"],
    );
    zset("key: 'café', score: ms", &[]);
    zset("score: s", &["queues.mails.source.zset: `key` is missing"]);
    zset("key: due, score: min", &["queues.mails.source.zset.score: `min` is not known here"]);
    for id in ["name", "${id}", "${payload}", "${payload.a}${due_ms}"] {
        let message =
            format!("queues.mails.source.zset.id: `{id}` is neither `hash` nor made of fields of the payload");
        zset(&format!("key: due, score: s, id: '{id}'"), &[&message]);
    }
    zset(
        "key: due, score: s, body: '${queue}'",
        &["queues.mails.source.zset.body: `${queue}` is neither `member` nor made of fields of the payload"],
    );
    zset("key: due, score: s, name: x", &["queues.mails.source.zset.name: `name` has no effect without a `preset`"]);
    zset(
        "key: 'delaybridge:retry:{x}', score: s",
        &["queues.mails.source.zset.key: `delaybridge:retry:{x}` is among the keys of delayed queues"],
    );
    zset("key: 'order:timeout', score: s", &["queues.mails.source.zset.key: queue `orders` has the same name"]);
    zset(
        "key: '{order:timeout}', score: s",
        &["queues.mails.source.zset.key: queue `orders` has the same keys in Redis"],
    );
    zset(
        "key: due, score: s }, redisson: { name: x",
        &["queues.mails.source: a queue has one source, and this one has 2"],
    );
    zset(
        "key: due, score: s } }\n    mode: rescue\n    x: { y: {",
        &[
            "queues.mails.mode: a source `zset` has no ready list",
            "queues.mails.x: unknown key",
            "queues.mails.codec: `codec` has no effect with `mode: rescue`",
            "queues.mails.to: `to` has no effect with `mode: rescue`",
        ],
    );
}

#[test]
fn a_preset_knows_key_and_unit_and_id() {
    fn check(keys: &str, expected: [&str; 3]) {
        let text = GOOD.replace("redisson: { name: mails }", &format!("zset: {{ {keys} }}"));
        let config = load(&text).unwrap_or_else(|errors| panic!("{keys}: {errors}")).config;
        let shown = config.queues[1].source.settings(false);
        assert_eq!(
            ["key", "score", "id"].map(|key| shown["zset"][key].as_str().unwrap_or_default()),
            expected,
            "{keys}"
        );
    }
    check("preset: laravel", ["queues:default:delayed", "s", "${payload.uuid}"]);
    check(
        "preset: laravel, name: '{mails}', prefix: laravel_database_",
        ["laravel_database_queues:{mails}:delayed", "s", "${payload.uuid}"],
    );
    check("preset: sidekiq", ["schedule", "s", "${payload.jid}"]);
    check("preset: sidekiq, name: retry, id: hash", ["retry", "s", "hash"]);
    check("preset: hyperf", ["{queue}:delayed", "s", "hash"]);
    check("preset: hyperf, prefix: 'app:', name: mails", ["app:mails:delayed", "s", "hash"]);
    check("preset: machinery", ["delayed_tasks", "ns", "${payload.UUID}"]);
    check("preset: machinery, key: other, score: s", ["other", "s", "${payload.UUID}"]);
}
