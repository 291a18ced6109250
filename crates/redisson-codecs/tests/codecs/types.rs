//! Values of the JDK's types, and objects of an application's classes, as five versions of Redisson wrote them.
//!
//! `tests/recorder` has the program that recorded them, and explains how the declarations were made.

use std::collections::BTreeMap;

use redisson_codecs::bytes::Bytes;
use redisson_codecs::serde_json::{self, Number, Value};
use redisson_codecs::{ClassSpec, Classes, Codec, Coding, Content, JavaTypes, decode_with};

use super::json_of;

pub(super) struct Recorded {
    pub(super) codec: Codec,
    pub(super) class: String,
    pub(super) value: Value,
    pub(super) payload: Bytes,
    pub(super) versions: String,
}

pub(super) fn recorded() -> Vec<Recorded> {
    let read = |line: &str| {
        let columns: Vec<_> = line.split('\t').collect();
        let [codec, class, value, payload, versions] = columns.try_into().unwrap();
        Recorded {
            codec: codec.parse().unwrap(),
            class: class.to_owned(),
            value: serde_json::from_str(value).unwrap(),
            payload: hex::decode(payload).unwrap().into(),
            versions: versions.to_owned(),
        }
    };
    include_str!("../recorder/types.tsv").lines().map(read).collect()
}

/// The declarations that `tools/KryoClasses.java` printed for the recorder's classes.
pub(super) fn declared() -> Classes {
    declared_in(include_str!("../recorder/classes.yaml"))
}

/// Reads declarations as the tool prints them.
pub(super) fn declared_in(yaml: &str) -> Classes {
    let plain = |text: &str| text.trim().trim_matches('"').to_owned();
    let mut specs: Vec<ClassSpec> = Vec::new();
    for line in yaml.lines().skip(1) {
        let (name, value) = line.trim().rsplit_once(": ").or(line.trim().split_once(':')).unwrap();
        let items = || value.trim_matches(['[', ']']).split(", ").map(plain);
        let depth = line.len() - line.trim_start().len();
        if depth == 2 {
            let content = Content::Fields(Vec::new());
            specs.push(ClassSpec { name: plain(name), content, is_final: false, variables: Vec::new(), id: None });
            continue;
        }
        let spec = specs.last_mut().unwrap();
        match (depth, name) {
            (4, "final") => spec.is_final = true,
            (4, "abstract") => spec.content = Content::Abstract,
            (4, "record") => spec.content = Content::Record(Vec::new()),
            (4, "constants") => spec.content = Content::Constants(items().collect()),
            (4, "like") => spec.content = Content::Like(plain(value)),
            (4, "variables") => {
                spec.variables = items().map(|group| group.split(' ').map(plain).collect()).collect();
            }
            (4, _) => assert_eq!(name, "fields"),
            _ => match &mut spec.content {
                Content::Fields(fields) | Content::Record(fields) => fields.push((plain(name), plain(value))),
                other => panic!("{other:?} with fields"),
            },
        }
    }
    Classes::new(specs).unwrap()
}

/// Whether two values are equal, however their numbers are spelt.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => exact(one) == exact(other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
        }
        _ => one == other,
    }
}

/// The digits without zeros at their ends, and the power of ten after them.
fn exact(number: &Number) -> (bool, String, i64) {
    let text = number.to_string().to_lowercase();
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (digits, negative) = (digits.trim_start_matches('-'), digits.starts_with('-'));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    let zeros = all.len() - all.trim_end_matches('0').len();
    let power = power.parse::<i64>().unwrap() - fraction.len() as i64 + zeros as i64;
    (negative, significant.to_owned(), if significant.is_empty() { 0 } else { power })
}

#[test]
fn what_java_wrote_decodes_to_an_equal_value() {
    let classes = declared();
    let mut wrong = BTreeMap::<String, Vec<String>>::new();
    let mut read = 0;
    for Recorded { codec, class, value, payload, versions } in recorded() {
        let coding = Coding { java_types: JavaTypes::Strip, ..codec.into() };
        let got = match decode_with(coding, &classes, &payload) {
            Ok(got) => {
                let json = json_of(&got);
                let is_same = match (json.strip_prefix("bytes "), got.view()) {
                    (Some(_), _) => {
                        use base64::Engine as _;
                        value == base64::engine::general_purpose::STANDARD.encode(got.decoded())
                    }
                    (None, redisson_codecs::View::Text(text)) => value == text,
                    (None, redisson_codecs::View::Json(json)) => is_same(json, &value),
                    (None, redisson_codecs::View::Opaque) => false,
                };
                if is_same {
                    read += 1;
                    continue;
                }
                json
            }
            Err(error) => error.to_string(),
        };
        wrong.entry(format!("{codec} {class}")).or_default().push(format!("{versions}: {got}\n    not {value}"));
    }
    let shown: String = wrong.iter().map(|(what, all)| format!("{what} {}\n", all[0])).collect();
    assert!(wrong.is_empty(), "{} read, not:\n{shown}", read);
}

/// The rows of the table in docs/codecs.md: the label, and the classes that it counts.
const ROWS: &[(&str, &[&str])] = &[
    ("`String`, `StringBuilder`, `StringBuffer`", &["java.lang.String", "java.lang.StringBu"]),
    (
        "`Integer`, `Long`, `Short`, `Byte`, `Double`, `Float`, `Boolean`, `Character`",
        &[
            "java.lang.Integer",
            "java.lang.Long",
            "java.lang.Short",
            "java.lang.Byte",
            "java.lang.Double",
            "java.lang.Float",
            "java.lang.Boolean",
            "java.lang.Character",
        ],
    ),
    ("`BigInteger`, `BigDecimal`", &["java.math.BigInteger", "java.math.BigDecimal"]),
    ("`AtomicInteger`, `AtomicLong`, `AtomicBoolean`, `AtomicReference`", &["java.util.concurrent.atomic."]),
    (
        "arrays of primitives, of objects and of arrays",
        &[
            "boolean[]",
            "byte[]",
            "char[]",
            "short[]",
            "int[]",
            "long[]",
            "float[]",
            "double[]",
            "java.lang.Object[]",
            "java.lang.Object[][]",
            "java.lang.String[]",
            "java.lang.String[][]",
            "java.lang.Integer[]",
            "java.util.Date[]",
            "int[][]",
        ],
    ),
    (
        "`Date`, `java.sql.Date`, `Time`, `Timestamp`, `Calendar`, `TimeZone`",
        &["java.util.Date", "java.sql.", "java.util.GregorianCalendar", "java.util.TimeZone"],
    ),
    (
        "`Instant`, `Duration`, `Period`, `LocalDate`, `LocalTime`, `LocalDateTime`, `OffsetTime`, `OffsetDateTime`, \
         `ZonedDateTime`, `Year`, `YearMonth`, `MonthDay`, `ZoneId`, `ZoneOffset`",
        &[
            "java.time.Instant",
            "java.time.Duration",
            "java.time.Period",
            "java.time.Local",
            "java.time.Offset",
            "java.time.ZonedDateTime",
            "java.time.Year",
            "java.time.MonthDay",
            "java.time.ZoneRegion",
            "java.time.ZoneOffset",
        ],
    ),
    (
        "`UUID`, `Currency`, `Locale`, `URL`, `URI`, `Pattern`, `Charset`, `Class`, `BitSet`",
        &[
            "java.util.UUID",
            "java.util.Currency",
            "java.util.Locale",
            "java.net.",
            "java.util.regex.",
            "java.nio.charset.",
            "java.lang.Class",
            "java.util.BitSet",
        ],
    ),
    ("`Optional`, `OptionalInt`, `OptionalLong`, `OptionalDouble`", &["java.util.Optional"]),
    (
        "enums of the JDK, `EnumSet`, `EnumMap`",
        &[
            "java.util.concurrent.TimeUnit",
            "java.time.DayOfWeek",
            "java.time.temporal.",
            "java.math.RoundingMode",
            "java.util.EnumSet",
            "java.util.EnumMap",
            "java.util.RegularEnumSet",
        ],
    ),
    (
        "`ArrayList`, `LinkedList`, `Vector`, `Stack`, `ArrayDeque`, `PriorityQueue`, `HashSet`, `LinkedHashSet`, `TreeSet`",
        &[
            "java.util.ArrayList",
            "java.util.LinkedList",
            "java.util.Vector",
            "java.util.Stack",
            "java.util.ArrayDeque",
            "java.util.PriorityQueue",
            "java.util.HashSet",
            "java.util.LinkedHashSet",
            "java.util.TreeSet",
        ],
    ),
    (
        "`HashMap`, `LinkedHashMap`, `TreeMap`, `Hashtable`, `Properties`, `IdentityHashMap`",
        &[
            "java.util.HashMap",
            "java.util.LinkedHashMap",
            "java.util.TreeMap",
            "java.util.Hashtable",
            "java.util.Properties",
            "java.util.IdentityHashMap",
        ],
    ),
    ("collections and maps of `java.util.concurrent`", &["java.util.concurrent.C", "java.util.concurrent.Linked"]),
    (
        "`List.of`, `Set.of`, `Map.of`, `Arrays.asList`, `Collections.empty...`, `singleton...`, `nCopies`, \
         `unmodifiable...`, `synchronized...`, `checked...`",
        &[
            "java.util.ImmutableCollections",
            "java.util.Arrays",
            "java.util.Collections$Empty",
            "java.util.Collections$Singleton",
            "java.util.Collections$CopiesList",
            "java.util.Collections$Unmodifiable",
            "java.util.Collections$Synchronized",
            "java.util.Collections$Checked",
        ],
    ),
    ("objects, records and enums of the application, and arrays of them", &["com.example."]),
];

const COLUMNS: [Codec; 4] = [Codec::Kryo5, Codec::Kryo5Refs, Codec::Marshalling, Codec::Java];

#[test]
fn the_table_of_types_is_current() {
    let recorded = recorded();
    let row_of = |class: &str| {
        // The longest prefix counts: `java.util.concurrent.TimeUnit` is an enum.
        let beginnings =
            ROWS.iter().enumerate().flat_map(|(row, (_, names))| names.iter().map(move |name| (row, *name)));
        let fits = beginnings.filter(|(_, name)| {
            let is_whole = class == *name || class.strip_prefix(name).is_some_and(|rest| !rest.starts_with('['));
            class.starts_with(name) && is_whole
        });
        fits.max_by_key(|(_, name)| name.len()).map(|(row, _)| row)
    };
    let mut cells = vec![[0; COLUMNS.len()]; ROWS.len()];
    for one in &recorded {
        let row = row_of(&one.class).unwrap_or_else(|| panic!("no row for {}", one.class));
        cells[row][COLUMNS.iter().position(|codec| *codec == one.codec).unwrap()] += 1;
    }
    let mut table = String::from("| type | payloads |\n|---|---|\n");
    for ((label, _), counts) in ROWS.iter().zip(&cells) {
        let missing = COLUMNS.iter().zip(counts).filter(|(_, count)| **count == 0);
        let missing: Vec<_> = missing.map(|(codec, _)| format!("`{codec}`")).collect();
        let note = if missing.is_empty() { String::new() } else { format!("; not in {}", missing.join(", ")) };
        table += &format!("| {label} | {}{note} |\n", counts.iter().sum::<u32>());
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/codecs.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- types -->\n").unwrap();
    let (current, after) = rest.split_once("<!-- /types -->").unwrap();
    if current != table {
        std::fs::write(&path, format!("{before}<!-- types -->\n{table}<!-- /types -->{after}")).unwrap();
        panic!("the table of types in docs/codecs.md was out of date and is rewritten: look at it and commit it");
    }
}
