//! `decode`: elements and payloads from every source, mostly without a configuration and without Redis.

use std::io::Write;
use std::process::{Command, Stdio};

use redis::AsyncCommands;
use serde_json::{Value, json};

use super::{Answer, ask, config};
use harness::redisson::Element;
use harness::{Layout, RedisServer, RedissonQueue, vectors};

/// Runs the binary without a configuration.
fn alone(arguments: &[&str], input: &[u8]) -> Answer {
    let mut child = Command::new(env!("CARGO_BIN_EXE_delaybridge"))
        .arg("decode")
        .args(arguments)
        .env_remove("DELAYBRIDGE_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    // A command that does not read standard input closes it.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    Answer::of(child.wait_with_output().expect("wait for the command"))
}

fn json_of(arguments: &[&str], input: &[u8]) -> Value {
    alone(&[arguments, &["--output", "json"]].concat(), input).json()["elements"][0].clone()
}

#[test]
fn a_payload_and_an_element_are_read_from_every_side() {
    let text = alone(&["--hex", "036162e3"], b"").well();
    assert_eq!(text, "layout  bare\nid      -\nsize    4\ncodec   kryo5\nsure    certain\nvalue   \"abc\"\n");
    let expected = json!({
        "layout": "new", "id": hex::encode("RANDOM8B"), "size": 4, "codec": "kryo5", "sure": "certain", "value": "abc",
    });
    let element = Layout::New.pack(*b"RANDOM8B", b"\x03ab\xe3");
    assert_eq!(json_of(&["--hex", &hex::encode(&element)], b""), expected);
    assert_eq!(json_of(&["-"], &element), expected);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("element");
    std::fs::write(&file, &element).unwrap();
    assert_eq!(json_of(&["--file", file.to_str().unwrap()], b""), expected);
    assert_eq!(json_of(&["-"], b"\xff\x00")["value_base64"], "/wA=");
}

#[test]
fn the_codec_and_the_types_are_the_users_to_choose() {
    let long = br#"["java.lang.Long",7]"#;
    let kept = json_of(&["-"], long);
    assert_eq!(
        (&kept["codec"], &kept["sure"], &kept["value"]),
        (&json!("jackson"), &json!("certain"), &json!(["java.lang.Long", 7]))
    );
    assert_eq!(json_of(&["--strip-types", "-"], long)["value"], 7);
    let given = json_of(&["--codec", "string", "--strip-types", "-"], long);
    assert_eq!((&given["sure"], &given["value"]), (&json!("given"), &json!(r#"["java.lang.Long",7]"#)));
    assert_eq!(json_of(&["--codec", "lz4+kryo5", "--hex", "00000004 40 036162e3"], b"")["value"], "abc");
    assert_eq!(json_of(&["--codec", "auto", "--hex", "036162e3"], b"")["codec"], "kryo5");
}

#[test]
fn what_cannot_be_read_says_why_and_shows_nothing_of_it() {
    let refused = alone(&["--codec", "json", "-", "--output", "json"], b"{secret");
    assert_eq!(refused.code, 1);
    assert!(refused.out.contains("decode payload as json: not JSON at byte 1") && !refused.out.contains("secret"));
    // A guess that needs a class counts as an answer.
    let order = "0100 636f6d2e6578616d706c652e4f726465f2 01";
    let opaque = json_of(&["--hex", order], b"");
    assert!(opaque["error"].as_str().unwrap().contains("an object of the class com.example.Order"), "{opaque}");
    alone(&["--codec", "gzip", "-"], b"").failed(2, &["lz4+"]);
    alone(&["--file", "/nowhere/element"], b"").failed(2, &["/nowhere/element"]);
    alone(&["--queue", "texts"], b"").failed(2, &["/etc/delaybridge/delaybridge.yaml"]);
}

#[test]
fn recorded_elements_of_every_codec_are_guessed() {
    let mut seen = std::collections::BTreeSet::new();
    for vector in vectors() {
        if vector.value_kind != "map" || !seen.insert(vector.codec.clone()) {
            continue;
        }
        let answer = json_of(&["--strip-types", "-"], &vector.member());
        let layout = if vector.layout() == Layout::New { "new" } else { "old" };
        assert_eq!((&answer["layout"], &answer["id"]), (&json!(layout), &json!(hex::encode(vector.parts().0))));
        if vector.codec.contains("FstCodec") {
            assert!(answer.get("value").is_none(), "{answer}")
        } else {
            assert_eq!(answer["value"], vector.value, "{} {answer}", vector.codec)
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
}

#[tokio::test]
async fn an_element_of_a_queue_is_found_in_redis() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    ask(&config, "decode --queue bytes").failed(1, &["nothing scheduled", "peek bytes"]);
    let queue = RedissonQueue::new("app:bytes");
    let first = queue.offer(&mut redis, 1_000, b"\x03ab\xe3".to_vec()).await;
    let second = queue.offer(&mut redis, 2_000, b"\x09\x0e".to_vec()).await;

    let read = |line: &str| {
        ask(&config, format!("decode --queue bytes --output json {line}").trim_end()).json()["elements"][0].clone()
    };
    assert_eq!((&read("")["id"], &read("")["value"]), (&json!(first.id_text()), &json!("abc")));
    let seen = read(&format!("--id {}", second.id_text()));
    assert_eq!((&seen["codec"], &seen["sure"], &seen["value"]), (&json!("kryo5"), &json!("guess"), &json!(7)));
    ask(&config, "decode --queue bytes --id 0000000000000000").failed(1, &["no element 0000000000000000"]);

    // `peek` decodes payloads of which it is nearly certain; the queue's own codec is `raw`.
    let peeked = ask(&config, "peek bytes --output json").json();
    assert_eq!((&peeked["elements"][0]["value"], peeked["elements"][1].get("value")), (&json!("abc"), None));
    assert!(ask(&config, "peek bytes").well().contains("abc"));

    // A queue's own codec is used.
    let docs = Element::new(Layout::New, 1_000, "{\"a\": 1}");
    RedissonQueue::new("app:docs").offer_bulk(&mut redis, &[docs]).await;
    let answer = &ask(&config, "decode --queue docs --output json").json()["elements"][0];
    assert_eq!((&answer["codec"], &answer["sure"]), (&json!("json"), &json!("configured")));
    let left: i64 = redis.zcard(&queue.timeouts).await.unwrap();
    assert_eq!(left, 2);
}

#[test]
fn classes_of_the_configuration_are_known_without_a_queue() {
    let config = harness::daemon::ConfigFile::new(
        "redis: { url: 'redis://127.0.0.1:1' }\nhttp: none\nclasses: { com.example.Order: { fields: { id: long } } }\n\
         sinks: { out: { stdout: } }\nqueues: { q: { source: { redisson: { name: q } }, codec: kryo5, to: [{ sink: out }] } }\n",
    );
    let path = config.path().display().to_string();
    let element =
        json_of(&["--config", &path, "--codec", "kryo5", "--hex", "0100636f6d2e6578616d706c652e4f726465f20e"], b"");
    assert_eq!(element["value"], json!({ "@class": "com.example.Order", "id": 7 }));
}
