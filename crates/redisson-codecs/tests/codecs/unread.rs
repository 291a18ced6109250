//! The unsupported types: each row of that table in docs/codecs.md, with a payload of Redisson 4.7.0.

use redisson_codecs::bytes::Bytes;
use redisson_codecs::{ClassSpec, Classes, Codec, Coding, Content, JavaTypes, decode_with};

/// For each row of `unread.tsv`: the words of the row in the documentation, and the error.
const ROWS: &[(&str, &str, &str)] = &[
    ("not declared", "| an object of a class that is not declared | `opaque_class`", "opaque_class"),
    (
        "own serializer",
        "| an object of a class with a serializer of its own | as a class that is not declared",
        "opaque_class",
    ),
    (
        "throwable",
        "| a `Throwable`: Redisson writes it with Java's own serialization inside of Kryo | `opaque_class`",
        "opaque_class",
    ),
    (
        "key set view",
        "| `ConcurrentHashMap.KeySetView`, as `ConcurrentHashMap.newKeySet()` returns it | `opaque_class`",
        "opaque_class",
    ),
    ("contains itself", "it has no JSON | `unsupported`", "unsupported"),
    (
        "registered number",
        "| a class that the application has registered with a number, without `id` in its declaration | `unsupported`",
        "unsupported",
    ),
];

#[test]
fn what_is_not_read_is_refused_as_the_documentation_says() {
    let class = |name: &str, field: (&str, &str)| ClassSpec {
        name: format!("com.example.Unread${name}"),
        content: Content::Fields(vec![(field.0.to_owned(), field.1.to_owned())]),
        is_final: false,
        variables: Vec::new(),
        id: None,
    };
    // Declared, so that the reason is that of the row.
    let ring = class("Ring", ("next", "com.example.Unread$Ring"));
    let classes = Classes::new(vec![ring, class("Numbered", ("amount", "int"))]).unwrap();
    let documented = include_str!("../../../../docs/codecs.md");
    let mut seen = vec![0; ROWS.len()];
    for line in include_str!("../recorder/unread.tsv").lines() {
        let columns: Vec<_> = line.split('\t').collect();
        let row = columns[0];
        let codec = columns[1].parse::<Codec>().unwrap();
        let at = ROWS.iter().position(|(name, ..)| *name == row).unwrap_or_else(|| panic!("no row {row}"));
        let (_, words, code) = ROWS[at];
        assert!(documented.contains(words), "docs/codecs.md has no {words}");
        let payload = Bytes::from(hex::decode(columns[2]).unwrap());
        let coding = Coding { java_types: JavaTypes::Strip, ..codec.into() };
        let refused = decode_with(coding, &classes, &payload).expect_err(line);
        assert_eq!(refused.code(), code, "{row}, {codec}: {refused}");
        // `on_opaque` applies to a named class that only Java can read, otherwise `on_decode_error`.
        assert_eq!(refused.is_opaque(), code == "opaque_class", "{row}, {codec}: {refused}");
        seen[at] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
