//! The layering of the source tree: the allowed imports, and names that are allowed in one place only.
//!
//! Between crates the compiler enforces the imports. This test reads the text of `src/` and of our crates, not the compiled
//! program, so it sees test modules too. Comments and the contents of string literals do not count.

mod only_under;
mod timing;

use std::fs;
use std::path::Path;

use self::only_under::stands_alone;

/// One file of `src/` or of a crate.
struct Source {
    /// Path from the project's root, with `/`.
    file: String,
    /// Where it is in the house: path under `src/`, with the crate's name before it for those of a crate. `core` has parts of
    /// its own, as `src/` has.
    path: String,
    text: String,
    /// The text without comments and the contents of strings, with the same line numbers.
    code: String,
}

/// All of ours, but for the two crates that are of use to others and know nothing of the daemon.
fn sources() -> Vec<Source> {
    let others = ["redisson-codecs", "delivery-status"];
    let mut found = sources_under("src", "");
    for name in crates().iter().filter(|name| !others.contains(&name.as_str())) {
        let place = if name == "core" { String::new() } else { format!("{name}/") };
        found.extend(sources_under(&format!("crates/{name}/src"), &place));
    }
    found
}

/// The folders of `crates/`.
fn crates() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// The files under `top`; `place` is put before their paths.
fn sources_under(top: &str, place: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(top);
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap();
                let code = strip(&text);
                found.push(Source { file: format!("{top}/{path}"), path: format!("{place}{path}"), text, code });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Blanks comments and the contents of string and character literals.
fn strip(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let blank = |out: &mut Vec<u8>, from: usize, to: usize| {
        out[from..to].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    };
    let find = |needle: &str, from: usize| text[from..].find(needle).map_or(bytes.len(), |at| from + at);
    let mut i = 0;
    while i < bytes.len() {
        let start = i;
        match bytes[i] {
            b'/' if bytes[i..].starts_with(b"//") => {
                i = find("\n", i);
                blank(&mut out, start, i);
            }
            b'/' if bytes[i..].starts_with(b"/*") => {
                i = (find("*/", i) + 2).min(bytes.len());
                blank(&mut out, start, i);
            }
            b'r' if raw_hashes(bytes, i).is_some() => {
                let hashes = raw_hashes(bytes, i).unwrap();
                let close = format!("\"{}", "#".repeat(hashes));
                let end = find(&close, i + hashes + 2);
                blank(&mut out, i + hashes + 2, end);
                i = (end + close.len()).min(bytes.len());
            }
            b'"' => {
                i += 1;
                while i < bytes.len() && bytes[i] != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                blank(&mut out, start + 1, i.min(bytes.len()));
                i += 1;
            }
            // A character, not a lifetime: 'x' or '\x'. Longer escapes end in the next arm's single steps.
            b'\'' if bytes.get(i + 1) == Some(&b'\\') => i += 3,
            b'\'' if bytes.get(i + 2) == Some(&b'\'') => i += 3,
            _ => i += 1,
        }
    }
    String::from_utf8(out).unwrap()
}

/// The number of `#` if a raw string begins at `at`.
fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let identifier = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if at > 0 && identifier(bytes[at - 1]) && bytes[at - 1] != b'b' {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

/// Every path in the code below `crate::`, in a `use` or elsewhere, with groups split one level deep: the name of the
/// module, and the line.
fn crate_paths(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    // The binary is a crate of its own and calls the library by name; the parts of `core` may be named by their crate.
    let roots = ["crate::", "delaybridge::", "delaybridge_core::"];
    for (at, root) in roots.iter().flat_map(|root| code.match_indices(root)) {
        let line = line_of(code, at);
        let rest = &code[at + root.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut item = String::new();
            for letter in group.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 || (depth == 1 && letter == ',') {
                    found.push((first_segment(item.trim()), line));
                    item.clear();
                    if depth == 0 {
                        break;
                    }
                } else {
                    item.push(letter);
                }
            }
        } else {
            found.push((first_segment(rest), line));
        }
    }
    found.retain(|(module, _)| !module.is_empty());
    found
}

fn first_segment(path: &str) -> String {
    path.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The part that a file belongs to: `sink` for `sink/redis/list.rs`, `route` for `route.rs`.
fn part(path: &str) -> &str {
    path.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The allowed imports of the parts of `core` and of `src/`, each a folder or a file. A part that is not here has no place yet.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("message", &[]),
    // Names of metrics are plain data: telemetry registers them, sources bring their own.
    ("metric", &[]),
    // The messages of inputs, as bytes: pure.
    ("carried", &[]),
    ("clock", &[]),
    // Counts against a rate: pure.
    ("forecast", &[]),
    // JSON of strangers, as spans of its text: pure.
    ("json", &[]),
    ("backoff", &[]),
    // The macros for log lines.
    ("log", &[]),
    // Error codes with cause and cure: the type; each part keeps its own list.
    ("codes", &[]),
    // Futures of one task: pure, but for wakers.
    ("unordered", &[]),
    // What templates are filled from: both the routes and the sinks know it.
    ("template", &["message", "codes", "carried"]),
    // Conditions read the fields that templates name: pure.
    ("condition", &["message", "template"]),
    ("main", &[]),
    // The second binary.
    ("tools", &[]),
];

/// The crates from the bottom up: each depends on lower lines only.
const LAYERS: &[&[&str]] = &[
    // Nothing of the daemon, and nothing of each other: the kit must not read with what the producer writes with.
    &["redisson-codecs", "delivery-status", "offers", "conformance", "settings-derive"],
    &["core"],
    &["settings"],
    // Where all clients get their connections.
    &["dial"],
    &["link"],
    &["telemetry"],
    &["spans"],
    &["ledger", "jobs", "sink", "http-client"],
    &["aws", "input"],
    &[
        "source",
        "sink-kafka",
        "sink-amqp",
        "sink-amqp1",
        "sink-aws",
        "sink-http",
        "sink-nats",
        "sink-redis",
        "sink-rocketmq",
        "sink-stdout",
    ],
    &["model"],
    &["http-server"],
    &["pipeline", "jobs-http"],
    &["config", "ops"],
    &["admin", "cli"],
    &["app"],
];

/// What only tests depend on. No manifest has it among its dependencies.
const FOR_TESTS: &[&str] = &["testing"];

const WHY_LAYERS: &str = "The path of an element is main -> app -> pipeline -> {source, sink} -> ledger -> link. Below the \
     pipeline no stage knows another, the pipeline or telemetry. A stage that needs something of another gets it as an \
     argument from the pipeline. If the new arrow is right, add it here and say why in the commit.";

#[test]
fn each_part_imports_only_what_lies_below_it() {
    let mut wrong = Vec::new();
    let crates = crates();
    for source in sources() {
        let own = part(&source.path);
        // The root of a crate names all of its parts.
        if own == "lib" || crates.iter().any(|name| name == own) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == own) else {
            wrong.push(format!("{}: the part `{own}` has no place in MAY_IMPORT yet", source.file));
            continue;
        };
        for (module, line) in crate_paths(&source.code) {
            let known = MAY_IMPORT.iter().any(|(name, _)| *name == module);
            if known && module != own && !allowed.contains(&module.as_str()) {
                wrong.push(format!("{}:{line}: `{own}` must not import `{module}`", source.file));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n\n{WHY_LAYERS}\n", wrong.join("\n"));
}

#[test]
fn each_crate_depends_only_on_lower_ones() {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let mut wrong = Vec::new();
    for own in crates().iter().filter(|name| !FOR_TESTS.contains(&name.as_str())) {
        let Some(place) = layer(own) else {
            wrong.push(format!("crates/{own} has no place in LAYERS yet"));
            continue;
        };
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(own).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let names = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
        for name in names.filter(|name| !name.is_empty() && !name.starts_with('#')) {
            let name = name.strip_prefix("delaybridge-").unwrap_or(name);
            if FOR_TESTS.contains(&name) || layer(name).is_some_and(|lower| lower >= place) {
                wrong.push(format!("crates/{own}/Cargo.toml: `{own}` must not depend on `{name}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n\n{WHY_LAYERS}\n", wrong.join("\n"));
}

/// What reaches a sink is made of a payload and of templates alone: bodies and headers know no route, source or sink.
#[test]
fn messages_are_made_of_payloads_and_templates_alone() {
    let (own, allowed) = ("model/message/", ["Payload", "message", "template"]);
    let files: Vec<_> = sources().into_iter().filter(|source| source.path.starts_with(own)).collect();
    assert!(files.len() > 2, "there is nothing in {own}");
    for source in files {
        for (name, line) in crate_paths(&source.code) {
            assert!(allowed.contains(&name.as_str()), "{}:{line}: messages must not import `{name}`", source.file);
        }
        let others = source.code.matches("delaybridge_").count() - source.code.matches("delaybridge_core::").count();
        assert_eq!(others, 0, "{}: messages import the core alone", source.file);
    }
}

#[test]
fn each_file_opens_by_saying_what_it_is_for() {
    let all = sources().into_iter().chain(sources_under("crates/redisson-codecs/src", ""));
    let silent: Vec<_> = all.filter(|source| !source.text.starts_with("//! ")).map(|source| source.file).collect();
    assert!(silent.is_empty(), "no `//!` header, the first thing a reader looks for: {silent:?}");
}

#[test]
fn the_reader_of_this_test_sees_code_and_nothing_else() {
    let check = |text: &str, word: &str, expected: bool| {
        let code = strip(text);
        assert_eq!(code.len(), text.len(), "{text}");
        let found = code.match_indices(word).any(|(at, _)| stands_alone(&code, at, word));
        assert_eq!(found, expected, "{word} in {text}");
    };
    check("use redis::Client;", "redis::", true);
    check("// use redis::Client;", "redis::", false);
    check("/* redis::x */ let a = 1;", "redis::", false);
    check(r#"let text = "redis::Client";"#, "redis::", false);
    check(r##"let text = r#"a "redis::" b"#; redis::x()"##, "redis::", true);
    check(r##"let text = r#"a "redis::" b"#;"##, "redis::", false);
    check("use crate::sink::redis::List;", "redis::", false);
    check("let quote = '\"'; redis::x(\"\")", "redis::", true);
    check("fn a<'a>(x: &'a str) { redis::x() }", "redis::", true);
    check("serde::Deserialize", "Deserialize", true);
    check("DeserializeOwned", "Deserialize", false);
    let modules = |code: &str| crate_paths(code).into_iter().map(|(module, _)| module).collect::<Vec<_>>();
    assert_eq!(modules("use crate::{sink::{a, b}, route, clock::Instant};"), ["sink", "route", "clock"]);
    assert_eq!(modules("let x = crate::pipeline::settle::judge::backoff();"), ["pipeline"]);
    assert_eq!(part("sink/redis/list.rs"), "sink");
    assert_eq!(part("route.rs"), "route");
}

/// Where else files are read than in `settings/files.rs`, and why that can neither hang nor grow a daemon.
const OTHER_READERS: &[(&str, &str)] = &[
    ("settings/files.rs", "the one place"),
    ("settings/reader/values.rs", "the mode of a file that was just read there"),
    ("config/input.rs", "the configuration itself, bounded: a start may wait for the writer of a pipe"),
    ("telemetry/logging/journal.rs", "standard error, which is open"),
    ("sink-stdout/sink.rs", "standard output, which is open"),
    ("http-server/listener.rs", "the socket that the daemon makes"),
    ("ops/daemon.rs", "/proc, for a command"),
    ("ops/dead/aside.rs", "the file that a command writes"),
    ("ops/live/server.rs", "the directory of the socket, for a command"),
    ("cli/", "files that a person gives to a command, which ends with the command"),
    ("conformance/", "a program of its own"),
    ("offers/", "a library of its own"),
    ("testing/", "tests"),
];

#[test]
fn files_that_a_configuration_names_are_read_in_one_place() {
    let words = ["fs::read", "fs::metadata", "fs::File", "File::open", "from_pem_file", "pem_file_iter"];
    let is_test = |path: &str| {
        path.split('/').any(|part| part.contains("test") || ["contract.rs", "fuzz.rs", "vectors.rs"].contains(&part))
    };
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_test(&source.path)) {
        if OTHER_READERS.iter().any(|(place, _)| source.path.starts_with(place)) {
            continue;
        }
        // Tests are at the end of a file.
        let code = source.code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (at, word) in words.iter().flat_map(|word| code.match_indices(word)) {
            wrong.push(format!("{}:{}: `{word}`", source.file, line_of(code, at)));
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{}\n\nA file may hang, or grow, whenever it is read: use `delaybridge_settings::files`. Where it cannot, say why in OTHER_READERS.\n",
        wrong.join("\n")
    );
}

/// Where the name of a key or channel may have the default prefix: where it is defined, in crates that do not know the daemon, and in
/// a message about the key of other programs.
const OF_THE_DEFAULT_PREFIX: [&str; 6] =
    ["link/key_space.rs", "link/script.rs", "offers/", "conformance/", "testing/", "telemetry/jobs.rs"];

#[test]
fn names_of_keys_have_the_prefix_of_the_configuration() {
    let mut wrong = Vec::new();
    let is_name = |line: &str| {
        let after = line.split("\"delaybridge:").nth(1);
        after.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
    };
    for source in sources() {
        let elsewhere =
            source.path.contains("tests") || OF_THE_DEFAULT_PREFIX.iter().any(|at| source.path.starts_with(at));
        // Tests are at the end of a file.
        let code = source.text.split("mod tests {").next().unwrap_or_default();
        let lines = code.lines().enumerate().filter(|(_, line)| !elsewhere && is_name(line));
        wrong.extend(lines.map(|(at, line)| format!("{}:{}: {}", source.file, at + 1, line.trim())));
    }
    for path in scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")) {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        wrong.extend(
            code.filter(|line| line.contains("delaybridge:")).map(|line| format!("{}: {line}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "make the name with a `KeyPrefix`, a script's of its keys:\n{}", wrong.join("\n"));
}

fn scripts(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_script = |path: &Path| path.extension().is_some_and(|extension| extension == "lua");
    let of = |path: std::path::PathBuf| {
        if path.is_dir() { scripts(&path) } else { Vec::from_iter(is_script(&path).then_some(path)) }
    };
    entries.flat_map(of).collect()
}
