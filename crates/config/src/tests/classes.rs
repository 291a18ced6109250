//! The classes of payloads in Kryo 5.

use bytes::Bytes;

use super::*;

/// A configuration with these classes, and one queue of this codec.
fn with(classes: &str, codec: &str) -> String {
    format!(
        "http: none\nredis: {{ url: \"redis://127.0.0.1/0\" }}\nsinks: {{ out: {{ stdout: {{}} }} }}\nqueues:\n  orders:\n    \
         source: {{ redisson: {{ name: orders }} }}\n    codec: {codec}\n    to: [{{ sink: out }}]\nclasses:\n{classes}"
    )
}

#[test]
fn objects_of_declared_classes_are_read_by_a_queue() {
    let text = with(
        "  com.example.Line: { final: true, fields: { count: int, sku: java.lang.String } }\n  \
         com.example.Order: { fields: { id: long, lines: \"java.util.List<com.example.Line>\", state: com.example.State } }\n  \
         com.example.State: { final: true, constants: [OPEN, PAID] }\n",
        "kryo5",
    );
    let loaded = crate::load_str(&text, "t.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&loaded.warnings), [""; 0]);
    // id 5, a list of one line without its class, the second constant.
    let payload = b"\x01\x00com.example.Orde\xf2\x0a\x01\x01java.util.ArrayLis\xf4\x02\x04\x82a\x02";
    let read = loaded.config.queues[0].decode(&Bytes::from_static(payload)).unwrap();
    let expected = r#"{"@class":"com.example.Order","id":5,"lines":[{"@class":"com.example.Line","count":2,"sku":"a"}],"state":"PAID"}"#;
    assert_eq!(read.decoded(), expected);
}

#[test]
fn what_is_wrong_with_a_class_is_reported_at_its_place() {
    let check = |classes: &str, expected: &str| {
        let errors = crate::load_str(&with(classes, "kryo5"), "t.yaml", &|_| None).unwrap_err();
        let found = lines(&errors.problems);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
    };
    check("  a.B: { fields: { x: lang } }\n", "classes.a.B.fields.x: class `lang` is not declared");
    check("  a.B: { fields: { x: \"java.util.List<a.C>\" } }\n", "class `a.C` is not declared");
    check("  a.B: { fields: { x: \"java.util.List<\" } }\n", "`java.util.List<` is not a Java type");
    check("  a.B: {}\n", "a class has one of `fields`, `constants`, `like` and `abstract: true`");
    check("  a.B: { like: java.util.UUID }\n", "`java.util.UUID` is not a list, set or map of the JDK");
    check("  a.B: { fields: { x: int }, id: 9 }\n  a.C: { fields: {}, id: 9 }\n", "the class is declared twice");
}

#[test]
fn classes_that_no_queue_needs_are_doubtful() {
    let warned = |codec: &str| {
        let loaded = crate::load_str(&with("  a.B: { abstract: true }\n", codec), "t.yaml", &|_| None).unwrap();
        lines(&loaded.warnings).iter().any(|line| line.contains("no queue has a codec that needs the classes"))
    };
    assert!(warned("json") && warned("jackson") && !warned("kryo5"));
}

/// Of a field of an application's class only the declaration says whether two texts are an array or a constant.
#[test]
fn a_declared_enum_is_stripped_of_its_class_in_json() {
    let text = with("  a.State: { constants: [OPEN, PAID] }\n", "jackson\n    java_types: strip");
    let loaded = crate::load_str(&text, "t.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&loaded.warnings), [""; 0]);
    let payload = br#"{"@class":"a.Order","call":["a.Service","close"],"state":["a.State","PAID"]}"#;
    let read = loaded.config.queues[0].decode(&Bytes::from_static(payload)).unwrap();
    assert_eq!(read.decoded(), r#"{"call":["a.Service","close"],"state":"PAID"}"#);
}
