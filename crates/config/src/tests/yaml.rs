//! YAML that is read, that cannot be read, and that is made to hurt.

use redisson_codecs::Codec;

use super::*;

#[test]
fn yaml_that_cannot_be_read_is_an_error_with_its_place() {
    check_text("", &["1:1 : the file is empty"]);
    check_text("# nothing\n", &["2:1 : the file is empty"]);
    check_text("a: [1, 2\n", &["1:4 : read YAML: unclosed bracket"]);
    check_text(
        "redis:\n  url: x\n\ttls: 1\n",
        &["3:1 : there is a tab in the indentation | YAML is indented with spaces"],
    );
    check_text("redis:\n\turl: x\n", &["2:1 : there is a tab in the indentation"]);
    check(
        "{ list: done }",
        "{ list: a${id} }",
        &[
            "7:22 : read YAML: while parsing a flow mapping, did not find expected ',' or '}' | between `{ }` and `[ ]`, a value with `${...}` needs quotes",
        ],
    );
    check_text("- a\n", &["1:1 : expected keys with values, found a list"]);
    check_text("redis: {}\n---\nredis: {}\n", &["3:1 : a second YAML document begins here"]);
    check_text("a: *unknown\n", &["1:4 : read YAML: "]);
    check_text("password: 'geheim\n", &["2:1 : read YAML: "]);
    check(
        "    codec: json\n",
        "    codec: json\n    codec: raw\n",
        &["16:5 : the key `codec` is there twice, first on line 15 | merge the two, or remove one"],
    );
    // The keys after a duplicate key are read all the same.
    check(
        "    codec: json\n",
        "    codec: json\n    codec: raw\n    lease: 7\n",
        &["16:5 : the key `codec` is there twice", "17:12 queues.mails.lease: `7` has no unit"],
    );
    // What is only in the second of two maps is there: nothing else seems to be wrong.
    check(
        "  ready:\n    redis: { list: done }\n",
        "sinks:\n  ready:\n    redis: { list: done }\n",
        &["6:1 : the key `sinks` is there twice, first on line 3"],
    );
    check(
        "source: { redisson: { name: mails } }",
        "source: { redisson: { name: mails, name: letters }, redisson: { consume: [delayed] } }",
        &["14:40 : the key `name` is there twice", "14:57 : the key `redisson` is there twice"],
    );
}

#[test]
fn a_file_made_to_hurt_is_refused() {
    // Read to its end, the first would be 9^9 items.
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let item = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{item}]\n"));
    }
    for text in [bomb, "[".repeat(100_000), "{a: ".repeat(1000), "- ".repeat(5000), "x".repeat(5 << 20)] {
        let errors = load(&text).unwrap_err();
        let [problem] = &errors.problems[..] else { panic!("{errors}") };
        let says = ["aliases (`*name`) repeat", "the file is nested deeper", "the file is larger than"];
        assert!(says.iter().any(|says| problem.message.starts_with(says)), "{errors}");
    }
    let anchors: String = (0..300_000).map(|_| "- x\n").collect();
    assert!(load(&anchors).unwrap_err().to_string().contains("the file is larger than any configuration"));
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = GOOD
        .replace("    codec: json\n", "    <<: *common\n")
        .replace("  orders:\n", "  orders:\n    <<: &common { codec: json, lease: 1m }\n");
    let config = load(&text).unwrap().config;
    // An own key wins over a merged one, and is no second one.
    let own = text.replace("    <<: *common\n", "    <<: *common\n    lease: 2m\n");
    assert_eq!(load(&own).unwrap().config.queues[1].lease.as_secs(), 120);
    assert!(config.queues.iter().all(|queue| queue.lease.as_secs() == 60 && queue.codec == Codec::Json.into()));
}

#[test]
fn variables_are_replaced_inside_values_only() {
    let text = GOOD
        .replace("127.0.0.1:6379/0", ":${SECRET}@${HOST}:${PORT:-6380}/0")
        .replace("codec: json", "codec: json\n    max_in_flight: ${TEN}\n    lease: ${TEN}${EMPTY:-0}s")
        .replace("list: done", "list: 'x$${HOST}${HOST}'");
    let config = load(&text).unwrap().config;
    assert_eq!(config.redis.named(ONLY).address(), "redis-0:6380/0");
    assert_eq!(config.queues[1].max_in_flight, MaxInFlight::Fixed(10));
    assert_eq!(config.queues[1].lease.as_secs(), 100);
    assert!(describe(&config).contains("list: x$${HOST}redis-0\n"), "{}", describe(&config));

    check("127.0.0.1", "${GONE}", &["2:8 redis.url: the environment variable GONE is not set | set it, or"]);
    check("127.0.0.1", "${host}", &["2:8 redis.url: `${host}` is a template, and this key takes none"]);
    check("127.0.0.1", "${Host}", &["2:8 redis.url: `${Host}` is neither a variable nor a template"]);
    check("127.0.0.1", "${HOST", &["2:8 redis.url: `${` has no closing `}`"]);
    check("list: done", "list: 'a${ident}'", &["7:20 sinks.ready.redis.list: `${ident}` is no field of an element"]);
    // A secret in the wrong place is not shown.
    check(
        "codec: json",
        "lease: ${SECRET}",
        &["15:12 queues.mails.lease: `${SECRET}`: the variable's value does not fit here | durations are written"],
    );
    check("codec: json", "codec: ${SECRET}", &["15:12 queues.mails.codec: `${SECRET}` is not known here"]);
    check("sink: out", "sink: ${SECRET}", &["17:15 queues.mails.to[0].sink: there is no sink `${SECRET}`"]);
    check("codec: json", "retry: ${SECRET}", &["15:12 queues.mails.retry: there is no retry policy `${SECRET}`"]);
    check(
        "codec: json",
        "max_in_flight: ${SECRET}",
        &["15:20 queues.mails.max_in_flight: `${SECRET}`: the variable's"],
    );
    check("redis://127.0.0.1:6379/0", "redis//:geheim@h", &["2:8 redis.url: the URL does not begin with redis://"]);
    check(
        "redis:\n  url: redis://127.0.0.1:6379/0",
        "redis: redis://:geheim@h",
        &["1:8 redis: expected keys with values, found text | keys are: url, sentinel, cluster"],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    let directory = tempfile::tempdir().unwrap();
    let error = crate::load(&directory.path().join("gone.yaml"), &env).unwrap_err().to_string();
    assert!(error.contains("gone.yaml\n  read configuration: No such file"), "{error}");
    let path = directory.path().join("latin1.yaml");
    std::fs::write(&path, b"a: \xff").unwrap();
    let error = crate::load(&path, &env).unwrap_err().to_string();
    assert!(error.contains("latin1.yaml:1:4\n  read configuration: the file is not UTF-8 text: byte 0xff"), "{error}");
    std::fs::write(&path, b"# caf\xc3\xa9\nredis:\n  url: \xe9\n").unwrap();
    let error = crate::load(&path, &env).unwrap_err().to_string();
    assert!(error.contains("latin1.yaml:3:8\n") && error.contains("save the file as UTF-8"), "{error}");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let junk = [
        "{", "}", "[", "]", ":", "- ", "\n", "  ", "0", "none", "${", "}", "${id}", "*a", "&a", "!!int", "'", "\"",
        "ü", "|", ">", "<<: ",
    ];
    for _ in 0..2_000 {
        let mut text = GOOD.to_owned();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..text.len());
            let Some(at) = (at..=text.len()).find(|&at| text.is_char_boundary(at)) else { continue };
            let end = (at + random.usize(..6)).min(text.len());
            let end = (end..=text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(at);
            text.replace_range(at..end, junk[random.usize(..junk.len())]);
        }
        let _ = load(&text);
    }
}
