//! `AtomicInteger` and its like in the two forms of Kryo: before Redisson 3.46.0, and since.

use redisson_codecs::{ClassSpec, Classes, Codec, Content, decode_with};

use super::{bytes, json_of};

const PACKAGE: &str = "java.util.concurrent.atomic";

/// A payload of codec `kryo5`: the class by its name, and what follows.
fn payload(class: &str, content: &str) -> String {
    let mut name = format!("{PACKAGE}.{class}").into_bytes();
    *name.last_mut().unwrap() |= 0x80;
    format!("0100{}{content}", hex::encode(name))
}

fn declared(class: &str, content: Content) -> Classes {
    let name = format!("{PACKAGE}.{class}");
    Classes::new(vec![ClassSpec { name, content, is_final: false, variables: Vec::new(), id: None }]).unwrap()
}

#[track_caller]
fn check(classes: &Classes, class: &str, content: &str, expected: &str) {
    let got = match decode_with(Codec::Kryo5, classes, &bytes(&payload(class, content))) {
        Ok(payload) => json_of(&payload),
        Err(error) => format!("!{}", error.code()),
    };
    assert_eq!(got, expected, "{class} {content}");
}

#[test]
fn both_forms_are_read_and_no_number_is_guessed() {
    let none = Classes::default();
    let check = |class, content, expected| check(&none, class, content, expected);
    check("AtomicLong", "10", "8");
    check("AtomicLong", "0800000000000000", "8");
    check("AtomicInteger", "d804", "300");
    check("AtomicInteger", "2c010000", "300");
    check("AtomicBoolean", "02", "true");
    check("AtomicBoolean", "01", "true");
    check("AtomicBoolean", "03", "!malformed");
    check("AtomicReference", "038261", r#""a""#);
    // A varint of four bytes is an int as well, one of eight bytes a long: 5,000,000 or 81,964,416; microseconds.
    check("AtomicInteger", "80ade204", "!unsupported");
    check("AtomicLong", "8080f28183898506", "!unsupported");
    // Kryo ends no varint with zeros, and the greatest number is more common than -2^27 or -2^55.
    check("AtomicInteger", "80ade200", "14855552");
    check("AtomicInteger", "ffffff7f", "2147483647");
    check("AtomicLong", "ffffffffffffff7f", "9223372036854775807");
    // As many bytes as neither form has.
    check("AtomicInteger", "8080808080", "!trailing");
    check("AtomicInteger", "", "!truncated");
}

#[test]
fn a_declaration_says_which_form_it_is() {
    let value = |of: &str| Content::Fields(vec![("value".to_owned(), of.to_owned())]);
    let like = |class: &str| Content::Like(format!("{PACKAGE}.{class}"));
    check(&declared("AtomicInteger", value("int")), "AtomicInteger", "80ade204", "5000000");
    check(&declared("AtomicInteger", like("AtomicInteger")), "AtomicInteger", "80ade204", "81964416");
    check(&declared("AtomicLong", value("long")), "AtomicLong", "0800000000000000", "!trailing");
    check(&declared("AtomicLong", like("AtomicLong")), "AtomicLong", "10", "!truncated");
    check(&declared("AtomicBoolean", value("int")), "AtomicBoolean", "02", "true");
    check(&declared("AtomicReference", value("java.lang.Object")), "AtomicReference", "038261", r#""a""#);
    let wrong = ClassSpec {
        name: "com.example.Count".to_owned(),
        content: like("AtomicLong"),
        is_final: false,
        variables: Vec::new(),
        id: None,
    };
    assert!(Classes::new(vec![wrong]).is_err());
}

/// The list with which `tools/KryoClasses.java` says that a class of the JDK needs no declaration.
#[test]
fn the_tool_names_what_is_read_without_a_declaration() {
    let source = include_str!("../../../../tools/KryoClasses.java");
    let list = source.split_once("Arrays.asList((").unwrap().1.split_once(").split").unwrap().0;
    let names = list.split(['"', ' ', '\n']).filter(|word| word.starts_with("java."));
    let mut count = 0;
    for name in names {
        let mut text = name.to_owned().into_bytes();
        *text.last_mut().unwrap() |= 0x80;
        // Addresses begin with the header of Java serialization.
        let payload = format!("0100{}aced0005", hex::encode(text));
        let answer = decode_with(Codec::Kryo5, &Classes::default(), &bytes(&payload));
        assert!(!answer.is_err_and(|error| error.is_opaque()), "{name}");
        count += 1;
    }
    assert!(count > 80, "{count}");
}
