//! One value at a time: its kind, its unit, its range.

use bytes::Bytes;
use redisson_codecs::{Coding, JavaTypes};

use super::*;

#[test]
fn a_value_that_takes_more_than_asked_for_is_not_judged_by_the_smaller_bound() {
    let decode = |codec: &str, payload: &str| {
        let config = load(&GOOD.replace("codec: json", &format!("codec: {codec}"))).unwrap().config;
        let decoded = config.queues[1].decode_within(&Bytes::copy_from_slice(payload.as_bytes()), 1 << 10)?;
        Some(decoded.map(|payload| payload.decoded()).map_err(|error| error.code()))
    };
    let large = format!("[{}0]", "0,".repeat(100));
    assert_eq!(decode("json", "[1]"), Some(Ok(Bytes::from_static(b"[1]"))));
    assert_eq!(decode("json", "[1"), Some(Err("json_truncated")));
    assert_eq!(decode("json", &large), None, "each value counts 128 bytes");
    assert_eq!(decode("json\n    max_decoded_size: 1KiB", &large), Some(Err("too_large")));
    assert_eq!(decode("string", &large), Some(Ok(Bytes::from(large.clone()))), "it builds nothing");
    assert_eq!(decode("auto", "[1]"), None, "with another bound it may be something else");
}

#[test]
fn a_value_of_the_wrong_kind_says_what_to_write() {
    let mails = |line: &str, expected: &[&str]| check("codec: json", line, expected);
    mails("lease: 30", &["15:12 queues.mails.lease: `30` has no unit | write `30s` for seconds or `30ms`"]);
    mails("lease: 5 minutes", &["15:12 queues.mails.lease: `5 minutes` is not a duration | durations are written"]);
    mails("lease: 100ms", &["15:12 queues.mails.lease: `100ms` is too short | the shortest is 1s"]);
    mails("lease:", &["15:5 queues.mails.lease: the key has no value | write one, or remove the key"]);
    mails("lease: [30s]", &["15:12 queues.mails.lease: expected one value, found a list"]);
    mails(
        "max_in_flight_bytes: 1024",
        &["15:26 queues.mails.max_in_flight_bytes: `1024` has no unit | write `1024MiB`"],
    );
    mails("max_in_flight_bytes: 0B", &["15:26 queues.mails.max_in_flight_bytes: 0 would stop everything"]);
    mails("max_rate: 5000", &["15:15 queues.mails.max_rate: `5000` has no unit | write `5000/s` for elements"]);
    mails(
        "max_rate: 0/s",
        &["15:15 queues.mails.max_rate: 0 would stop everything | write a value above 0, or `none`"],
    );
    mails("max_lateness: 0s", &["15:19 queues.mails.max_lateness: 0 would stop everything"]);
    mails(
        "max_in_flight: many",
        &[
            "15:20 queues.mails.max_in_flight: `many` is not a whole number | write a number from 1 to 1000000, or `auto`",
        ],
    );
    mails("max_in_flight: 0", &["15:20 queues.mails.max_in_flight: 0 is out of range"]);
    mails("max_in_flight: 1.5", &["15:20 queues.mails.max_in_flight: `1.5` is not a whole number"]);
    check(
        "name: mails }",
        "name: mails, list_cleanup: exakt }",
        &["14:54 queues.mails.source.redisson.list_cleanup: `exakt` is not known here | did you mean `exact`?"],
    );
    mails(
        "on_decode_error: drop",
        &[
            "15:22 queues.mails.on_decode_error: `drop` is not known here | possible here: hold_repeated, dead_letter, forward_raw, hold",
        ],
    );
    mails(
        "on_opaque: hold_repeated",
        &[
            "15:16 queues.mails.on_opaque: `hold_repeated` is not known here | possible here: dead_letter, forward_raw, hold",
        ],
    );
    mails("codec: 5", &["15:12 queues.mails.codec: `5` is not known here"]);
    check(
        "name: mails",
        "name: 5",
        &[
            "14:33 queues.mails.source.redisson.name: expected text, found a number | if it is meant as text, write it in quotes",
        ],
    );
    check(
        "name: mails",
        "name: true",
        &["14:33 queues.mails.source.redisson.name: expected text, found true or false"],
    );
    check("name: mails", "name: ''", &["14:33 queues.mails.source.redisson.name: the text is empty"]);
    check(
        "name: mails",
        "name: mails, consume: ready",
        &[
            "14:49 queues.mails.source.redisson.consume: expected a list, found text | write one or more of: [delayed, ready]",
        ],
    );
    check(
        "name: mails",
        "name: mails, consume: [redy]",
        &["14:50 queues.mails.source.redisson.consume[0]: `redy` is not known here | did you mean `ready`?"],
    );
    check(
        "sink: out",
        "sink: out\n        headers: [a]",
        &["18:18 queues.mails.to[0].headers: expected names with values, found a list"],
    );
    check(
        "sink: out",
        "sink: out\n        headers: { v: 2 }",
        &["18:23 queues.mails.to[0].headers.v: expected text, found a number"],
    );
    check(
        "    to:\n      - sink: out",
        "    to: out",
        &["16:9 queues.mails.to: expected a list, found text | each item starts with `- `"],
    );
    check(
        "list: done",
        "list: done, exactly_once: maybe",
        &["7:40 sinks.ready.redis.exactly_once: `maybe` is neither true nor false"],
    );
    check("redis:\n", "limits: { in_flight: 0 }\nredis:\n", &["1:22 limits.in_flight: 0 is out of range"]);
    check(
        "redis:\n",
        "http: 9464\nredis:\n",
        &["1:7 http: expected keys with values, found a number | keys are: listen"],
    );
    check("redis:\n", "http: none\nredis:\n", &[]);
}

#[test]
fn an_object_of_java_is_a_dead_letter_where_decoded_values_were_promised() {
    use OnDecodeError::{DeadLetter, ForwardRaw, Hold};
    let check = |envelope: &str, keys: &str, expected| {
        let text = GOOD.replace("sink: out", &format!("sink: out\n        envelope: {envelope}"));
        let text = text.replace("codec: json", &format!("codec: kryo5{keys}"));
        assert_eq!(load(&text).unwrap().config.queues[1].on_opaque, expected, "{envelope} {keys}");
    };
    for envelope in ["raw", "json", "cloudevents"] {
        check(envelope, "", ForwardRaw);
    }
    check("decoded", "", DeadLetter);
    check("decoded", "\n    on_decode_error: forward_raw", DeadLetter);
    check("decoded", "\n    on_opaque: forward_raw", ForwardRaw);
    check("raw", "\n    on_opaque: dead_letter", DeadLetter);
    check("raw", "\n    on_opaque: hold", Hold);
}

#[test]
fn the_codecs_of_redisson_are_known_by_their_classes() {
    for (class, codec) in [
        ("Kryo5Codec", "kryo5"),
        ("org.redisson.codec.Kryo5Codec", "kryo5"),
        ("kryo5codec", "kryo5"),
        ("JsonJacksonCodec", "jackson"),
        ("TypedJsonJacksonCodec", "json"),
        ("SerializationCodec", "java"),
        ("MarshallingCodec", "marshalling"),
        ("StringCodec", "string"),
        ("LZ4Codec", "lz4+kryo5"),
    ] {
        let expected = format!("15:12 queues.mails.codec: `{class}` is not known here | did you mean `{codec}`?");
        check("codec: json", &format!("codec: {class}"), &[&expected]);
        check("codec: json", &format!("codec: {codec}"), &[]);
    }
    check(
        "codec: json",
        "codec: kryo",
        &["15:12 queues.mails.codec: `kryo` is not known here | did you mean `kryo5`?"],
    );
}

#[test]
fn names_that_are_nearly_right_get_the_right_one() {
    let list = |text: &str, expected: &str| {
        let row = format!("7:20 sinks.ready.redis.list: {expected}");
        check("list: done", &format!("list: '{text}'"), &[&row]);
    };
    const FIELDS: &str = "there are id, queue, due_ms, attempt, payload, payload.NAME";
    list(
        "a${paylod.id}",
        &format!("`${{paylod.id}}` is no field of an element: {FIELDS} | did you mean `${{payload.id}}`?"),
    );
    list(
        "a${attempts}",
        &format!("`${{attempts}}` is no field of an element: {FIELDS} | did you mean `${{attempt}}`?"),
    );
    list(
        "a${orderId}",
        &format!(
            "`${{orderId}}` is no field of an element: {FIELDS} | a field of the payload is written `${{payload.orderId}}`"
        ),
    );
    let hook = GOOD.replace("redis: { list: done }", "http: { url: 'https://h/${paylod.id}' }");
    #[cfg(feature = "http")]
    check_words(&hook, &["sinks.ready.http.url: `${paylod.id}` is no field of an element"]);
    assert!(load(&hook).unwrap_err().to_string().contains("did you mean `${payload.id}`?"));
    check(
        "codec: json",
        "retry: defautl",
        &["15:12 queues.mails.retry: there is no retry policy `defautl` | did you mean `default`?"],
    );
    let strict = GOOD.replace("queues:\n", "retry: { strict: { max_attempts: 1 } }\nqueues:\n");
    let strict = strict.replace("    codec: json\n", "    codec: json\n    retry: strikt\n");
    assert!(load(&strict).unwrap_err().to_string().contains("did you mean `strict`?"));
}

#[test]
fn templates_of_other_programs_are_constants_and_doubtful() {
    let doubt = |text: &str, expected: &[&str]| {
        check_warnings(&GOOD.replace("list: done", &format!("list: \"{text}\"")), expected);
    };
    let row = |written: &str, field: &str| {
        format!(
            "7:20 sinks.ready.redis.list: `{written}` is no template: every element gets this text as it is | write `${{{field}}}`"
        )
    };
    doubt("orders:$payload.id", &[&row("$payload.id", "payload.id")]);
    doubt("orders:{{payload.id}}", &[&row("{{payload.id}}", "payload.id")]);
    doubt("orders:{{ .payload.id }}:x", &[&row("{{ .payload.id }}", "payload.id")]);
    doubt("orders:$queue", &[&row("$queue", "queue")]);
    for fine in ["orders:${id}", "$idle", "a$b", "{{tag}}", "{payload}:x", "$$${id}"] {
        doubt(fine, &[]);
    }
}

#[test]
fn a_url_for_sentinels_says_how_they_are_written_here() {
    let url = |url: &str, help: &str| {
        let row = format!("2:8 redis.url: the URL does not begin with redis://, rediss:// or unix:// | {help}");
        check("redis://127.0.0.1:6379/0", url, &[&row]);
    };
    url(
        "redis-sentinel://s:26379/orders",
        "Sentinel is written `sentinel: { master: NAME, nodes: [host:26379] }` in place of `url`",
    );
    url("redis+sentinel://s:26379", "Sentinel is written `sentinel:");
    url("sentinel://s:26379", "Sentinel is written `sentinel:");
    url("redis-cluster://n:6379", "a cluster is written `cluster: [host:6379]`");
    url("http://h", "write `redis://host:6379/0`");
}

#[test]
fn a_key_without_function_is_refused_and_not_ignored() {
    check("codec: json", "mode: shadow", &[]);
    check(
        "codec: json",
        "mode: watch",
        &["15:11 queues.mails.mode: `watch` is not known here | possible here: deliver, shadow, rescue"],
    );
    check(
        "name: mails }",
        "name: mails, rescue_after: 5s }",
        &["14:54 queues.mails.source.redisson.rescue_after: `rescue_after` has no effect without `mode: rescue`"],
    );
    check("codec: json", "claim_ahead: 15s\n    mode: deliver", &[]);
    check(
        "codec: json",
        "claim_ahead: 15001ms",
        &[
            "15:18 queues.mails.claim_ahead: `claim_ahead` (15001ms) is more than half of the lease (30s) | write `claim_ahead: 15s` or less",
        ],
    );
    check(
        "redisson: { name: mails } }",
        "redisson: { name: mails, consume: [ready] } }\n    claim_ahead: 1s",
        &["15:18 queues.mails.claim_ahead: `claim_ahead` has no effect where only the ready list is consumed"],
    );
    check(
        "codec: json",
        "claim_ahead: 1s\n    max_rate: 5/s",
        &["15:18 queues.mails.claim_ahead: `claim_ahead` goes with no `max_rate`"],
    );
}

#[test]
fn secrets_and_certificates_are_looked_for() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("password", "geheim\nsecond line");
    write("empty", "\n");
    write("ca.pem", "-----BEGIN CERTIFICATE-----\n");
    write("key.pem", "-----BEGIN EC PRIVATE KEY-----\n");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let file = directory.path().join("c.yaml").display().to_string();
    let check = |line: &str, expected: &[&str]| {
        let text = GOOD.replace("  url: redis://127.0.0.1:6379/0", &format!("  url: {line}"));
        let got = match load_str(&text, &file, &env) {
            Ok(loaded) => {
                assert!(!format!("{loaded:?}").contains("geheim"));
                lines(&loaded.warnings)
            }
            Err(errors) => {
                assert!(!format!("{errors:?}").contains("geheim"));
                lines(&errors.problems)
            }
        };
        let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, row)| got.starts_with(row));
        assert!(same, "{line}: {got:#?}");
    };
    check("redis://h\n  password_file: password", &[]);
    check("redis://h\n  username: u\n  password: '${SECRET}'", &[]);
    check("redis://u:${SECRET}@h", &[]);
    check("redis://u:geheim@h", &["2:8 redis.url: the URL holds a password in plain text | put it into a file"]);
    check("redis://h\n  password: geheim", &["3:13 redis.password: the password is in the file in plain text"]);
    check("redis://u@h", &["2:8 redis.url: there is a user, but no password"]);
    check(
        "redis://:geheim@h\n  password: geheim",
        &["2:8 redis.url: the password is in the URL and in a separate key"],
    );
    check("redis://u:geheim@h\n  username: v", &["2:8 redis.url: the user is in the URL and in `username`"]);
    check(
        "redis://h\n  password: geheim\n  password_file: password",
        &["3:13 redis.password: there is both `password` and `password_file`"],
    );
    check("redis://h\n  password: 5", &["3:13 redis.password: expected text, found a number"]);
    check("redis://h\n  password_file: gone", &["3:18 redis.password_file: read `gone`: No such file"]);
    check("redis://h\n  password_file: .", &["3:18 redis.password_file: read `.`: not a regular file"]);
    check(
        "redis://h\n  password_file: empty",
        &["3:18 redis.password_file: the file cannot be used: its first line is empty"],
    );
    check("rediss://h\n  tls: { ca_file: ca.pem, cert_file: ca.pem, key_file: key.pem }", &[]);
    check(
        "rediss://h\n  tls: { ca_file: key.pem }",
        &["3:19 redis.tls.ca_file: the file is PEM, but no certificate is in it"],
    );
    check(
        "rediss://h\n  tls: { ca_file: password }",
        &["3:19 redis.tls.ca_file: the file is no PEM, so no certificate is in it"],
    );
    check(
        "rediss://h\n  tls: { cert_file: ca.pem }",
        &["3:21 redis.tls.cert_file: there is `cert_file`, but no `key_file`"],
    );
    check(
        "rediss://h\n  tls: { key_file: key.pem }",
        &["3:20 redis.tls.key_file: there is `key_file`, but no `cert_file`"],
    );
    check(
        "redis://h\n  tls: { ca_file: ca.pem }",
        &["3:8 redis.tls: `tls` has no effect, because the URL is redis://"],
    );
}

/// Only a binary without a client has something to say here.
#[cfg(not(feature = "kafka"))]
#[test]
fn kafka_that_was_left_out_of_the_binary_is_refused_by_name() {
    let text = GOOD.replace("stdout: {}", "kafka: { brokers: [k], topic: t }");
    check_words(
        &text,
        &["sinks.out.kafka: this binary was built without Kafka | use one that was built with the feature"],
    );
}

/// The same of the other one.
#[cfg(not(feature = "amqp"))]
#[test]
fn amqp_that_was_left_out_of_the_binary_is_refused_by_name() {
    let text = GOOD.replace("stdout: {}", "amqp: { url: 'amqp://r', exchange: x }");
    check_words(
        &text,
        &["sinks.out.amqp: this binary was built without AMQP | use one that was built with the feature"],
    );
}

/// And of AMQP 1.0.
#[cfg(not(feature = "amqp1"))]
#[test]
fn amqp1_that_was_left_out_of_the_binary_is_refused_by_name() {
    let text = GOOD.replace("stdout: {}", "amqp1: { url: 'amqp://b', address: a }");
    check_words(
        &text,
        &["sinks.out.amqp1: this binary was built without AMQP 1.0 | use one that was built with the feature"],
    );
}

/// And of NATS.
#[cfg(not(feature = "nats"))]
#[test]
fn nats_that_was_left_out_of_the_binary_is_refused_by_name() {
    let text = GOOD.replace("stdout: {}", "nats: { servers: [n], subject: s }");
    check_words(
        &text,
        &["sinks.out.nats: this binary was built without NATS | use one that was built with the feature"],
    );
}

/// And of SQS and SNS, which are one feature.
#[cfg(not(feature = "aws"))]
#[test]
fn sqs_that_was_left_out_of_the_binary_is_refused_by_name() {
    let text = GOOD.replace("stdout: {}", "sqs: { queue_url: 'https://sqs.eu-west-1.amazonaws.com/1/q' }");
    check_words(
        &text,
        &["sinks.out.sqs: this binary was built without SQS | use one that was built with the feature `aws`"],
    );
}

#[test]
fn a_codec_is_named_with_its_compression_and_its_settings() {
    let mails = |lines: &str, expected: &[&str]| check("codec: json", lines, expected);
    for name in Coding::names() {
        mails(&format!("codec: {name}"), &[]);
    }
    mails("codec: kryo6", &["15:12 queues.mails.codec: `kryo6` is not known here | did you mean `kryo5`?"]);
    mails("codec: lz4+kyro5", &["15:12 queues.mails.codec: `lz4+kyro5` is not known here | did you mean `lz4+kryo5`?"]);
    mails("codec: gzip+json", &["15:12 queues.mails.codec: `gzip+json` is not known here"]);
    mails("codec: jackson\n    java_types: strip", &[]);
    mails(
        "codec: string\n    java_types: strip",
        &["16:17 queues.mails.java_types: codec string finds no names of Java classes"],
    );
    mails("codec: kryo5\n    json_in_text: true", &[]);
    mails("codec: string\n    json_in_text: true\n    max_decoded_size: 1MiB", &[]);
    for codec in ["raw", "number", "lz4+raw"] {
        mails(
            &format!("codec: {codec}\n    json_in_text: true"),
            &[&format!("16:19 queues.mails.json_in_text: codec {codec} reads no texts")],
        );
    }
    mails("codec: kryo5\n    max_decoded_size: 1MiB", &[]);
    mails("codec: json\n    max_decoded_size: 1MiB", &[]);
    mails(
        "codec: string\n    max_decoded_size: 1MiB",
        &["16:23 queues.mails.max_decoded_size: codec string neither unpacks nor builds anything"],
    );
    let text = GOOD.replace("codec: json", "codec: zstd+cbor\n    java_types: strip\n    max_decoded_size: 1MiB");
    let config = load(&text).unwrap().config;
    let coding = config.queues[1].codec;
    assert_eq!((coding.as_str(), coding.java_types, coding.max_decoded_size), ("zstd+cbor", JavaTypes::Strip, 1 << 20));
    assert!(describe(&config).contains(
        "    codec: zstd+cbor\n    java_types: strip\n    json_in_text: false\n    max_decoded_size: 1MiB\n"
    ));
}

#[test]
fn an_unknown_codec_is_one_mistake() {
    let text = GOOD.replace("codec: json", "codec: jsn\n    java_types: strip").replace(
        "      - sink: out",
        "      - sink: out\n        envelope: decoded\n        headers: { a: '${payload.b}' }",
    );
    check_words(&text, &["queues.mails.codec: "]);
}

#[test]
fn a_secret_that_everybody_can_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, "x").unwrap();
    let warnings = |mode, above| {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(above)).unwrap();
        let login = format!("redis:\n  password_file: {}\n", file.display());
        let loaded = load(&GOOD.replace("redis:\n  url", &format!("{login}  url"))).unwrap();
        lines(&loaded.warnings).into_iter().filter(|line| line.contains("every user of this machine can read")).count()
    };
    assert_eq!((warnings(0o644, 0o755), warnings(0o640, 0o755), warnings(0o600, 0o755)), (1, 0, 0));
    assert_eq!(warnings(0o644, 0o700), 0, "nobody else can enter the directory");
}

#[test]
fn a_key_that_elements_choose_alone_is_a_warning() {
    let with = |key: &str| {
        let text = GOOD.replace("    stdout: {}", &format!("    redis: {{ list: '{key}' }}"));
        let loaded = load(&text).unwrap();
        lines(&loaded.warnings).into_iter().filter(|line| line.contains("elements choose the key")).count()
    };
    assert_eq!(["${payload.k}", "${payload.k}:x", "${id}"].map(with), [1, 1, 1]);
    assert_eq!(["due:${payload.k}", "${queue}:${payload.k}", "fixed"].map(with), [0, 0, 0]);
}

/// What follows from a file that is not there is no mistake of its own: the start waits for the file.
#[test]
fn a_file_that_is_not_there_is_one_problem_whatever_it_is_for() {
    let check = |section: &str| {
        let text = GOOD.replacen("sinks:\n", &format!("sinks:\n  more: {{ {section} }}\n"), 1);
        let errors = load(&text).expect_err(section);
        assert_eq!((errors.problems.len(), errors.absent, errors.may_pass()), (1, 1, true), "{section}: {errors}");
    };
    check("http: { url: 'https://h', bearer_token_file: gone }");
    check("http: { url: 'https://h', signature: { secret_file: gone } }");
    check("nats: { servers: [n], username: u, password_file: gone }");
    check("nats: { servers: [n], nkey_file: gone }");
    check("nats: { servers: [n], credentials_file: gone }");
    check("amqp: { url: 'amqp://r', username: u, password_file: gone }");
    check("kafka: { brokers: ['k:1'], sasl: { mechanism: PLAIN, username: u, password_file: gone } }");
    check("amqp: { url: 'amqps://r', tls: { ca_file: gone } }");
    let redis = GOOD.replacen("redis:\n", "redis:\n  username: u\n  password_file: gone\n", 1);
    let errors = load(&redis).expect_err("no password");
    assert!(errors.may_pass(), "{errors}");
    // A mistake beside it does not pass.
    assert!(!load(&redis.replacen("username: u", "username: u\n  usrname: u", 1)).expect_err("a mistake").may_pass());
}
