//! The filter of log lines. Everything that would silence the daemon by mistake is refused: to the library an unknown word is the
//! name of a part, and the levels of all others are then off.

use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The level without a filter.
const DEFAULT: &str = "info";
/// The first part of the targets of the daemon's own lines.
const OURS: &str = "delaybridge";
/// The second parts: the crates with log lines, and the lines about single elements in shadow mode.
const PARTS: [&str; 32] = [
    "admin",
    "app",
    "aws",
    "cli",
    "config",
    "core",
    "dial",
    "http_client",
    "http_server",
    "input",
    "jobs",
    "jobs_http",
    "ledger",
    "link",
    "model",
    "ops",
    "pipeline",
    "settings",
    "shadow",
    "sink",
    "sink_amqp",
    "sink_amqp1",
    "sink_aws",
    "sink_http",
    "sink_kafka",
    "sink_nats",
    "sink_redis",
    "sink_rocketmq",
    "sink_stdout",
    "source",
    "spans",
    "telemetry",
];

/// The directive for the logs of client libraries, which are off: every failure is returned as an error and logged
/// once, where it is judged. The filter `lapin=debug` turns them on.
const QUIET: &str = "lapin=off";
/// The directives for logs with payloads of returned messages or whole frames; they are off whatever the filter says.
pub(super) const NEVER: [&str; 3] = ["lapin::returned_messages=off", "lapin::channels=off", "lapin::frames=off"];

/// Reads a filter; without one the level is `info`.
pub(super) fn parse(filter: &str) -> Result<EnvFilter, String> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let directives = filter.split(',').map(str::trim).filter(|part| !part.is_empty()).map(directive);
    let mut directives = directives.collect::<Result<Vec<_>, _>>()?;
    if directives.is_empty() {
        directives.push(DEFAULT.to_owned());
    }
    if !directives.iter().any(|directive| !directive.contains('=') || directive.starts_with(OURS)) {
        return Err(format!("it has no level for the lines of the daemon: write `{DEFAULT},{filter}`"));
    }
    let text = directives.join(",");
    let mut read = EnvFilter::try_new(&text).map_err(|error| wrong(&error))?;
    let quiet = [QUIET].into_iter().filter(|_| !text.contains("lapin"));
    for directive in quiet.chain(NEVER) {
        read = read.add_directive(directive.parse().map_err(|error| wrong(&error))?);
    }
    Ok(read)
}

/// Converts a directive to the library's form: a level, or a target with its level.
fn directive(text: &str) -> Result<String, String> {
    let Some((target, level)) = text.rsplit_once('=') else {
        return level(text).ok_or_else(|| {
            if text.contains(OURS) || text.contains("::") {
                format!("`{text}` has no level: write `{text}=debug`")
            } else {
                format!("`{text}` is not a level")
            }
        });
    };
    let target = target.trim();
    let level_text = level.trim();
    let level = self::level(level_text).ok_or_else(|| format!("`{level_text}` is not a level"))?;
    if let Some(part) = target.strip_prefix("delaybridge::") {
        let part = part.split("::").next().unwrap_or_default();
        // The library compares beginnings, so `sink` is every sink.
        if !PARTS.iter().any(|known| known.starts_with(part)) {
            return Err(format!("`{target}` is no part of the daemon: the parts are {}", PARTS.join(", ")));
        }
    }
    Ok(format!("{target}={level}"))
}

/// Returns the level as the library spells it.
fn level(text: &str) -> Option<String> {
    let text = if text.eq_ignore_ascii_case("warning") { "warn" } else { text };
    LevelFilter::from_str(text).ok().filter(|_| !text.is_empty()).map(|level| level.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the directives in use, without those that are always there. Their order is up to the library.
    fn shown(filter: &str) -> Vec<String> {
        let parsed = parse(filter).unwrap_or_else(|problem| panic!("{filter}: {problem}"));
        let mut parts: Vec<_> = parsed.to_string().split(',').map(str::to_owned).collect();
        parts.retain(|part| !NEVER.contains(&part.as_str()) && part != QUIET);
        parts.sort();
        parts
    }

    #[test]
    fn a_filter_is_read_as_it_is_meant() {
        let check = |filter, expected: &[&str]| assert_eq!(shown(filter), expected, "{filter:?}");
        check("", &["info"]);
        check(" , ", &["info"]);
        check("warning", &["warn"]);
        check("WARNING", &["warn"]);
        check("off", &["off"]);
        check("Debug", &["debug"]);
        check("warn,delaybridge=debug", &["delaybridge=debug", "warn"]);
        check(" info , delaybridge::link = warning ", &["delaybridge::link=warn", "info"]);
        check("delaybridge::sink=trace", &["delaybridge::sink=trace"]);
        check("info,hyper=debug", &["hyper=debug", "info"]);
    }

    #[test]
    fn a_filter_that_would_silence_the_daemon_is_refused() {
        let check = |filter: &str, words: &str| {
            let problem = parse(filter).err().unwrap_or_else(|| panic!("{filter} is accepted"));
            assert!(problem.contains(words), "{filter}: {problem}");
        };
        for word in ["verbose", "warnin", "fatal", "info;debug"] {
            check(word, &format!("`{word}` is not a level"));
        }
        check("info,verbose", "`verbose` is not a level");
        check("level=debug", "no level for the lines of the daemon: write `info,level=debug`");
        check("delaybridge=loud", "`loud` is not a level");
        check("delaybridge=", "`` is not a level");
        check("delaybridge", "`delaybridge` has no level");
        check("hyper::client", "`hyper::client` has no level");
        check("delaybridge::lnk=debug", "`delaybridge::lnk` is no part of the daemon: the parts are admin,");
    }

    #[test]
    fn payloads_are_never_logged_and_client_libraries_only_on_request() {
        // Every directive against payloads is still there, and none that turns them on again.
        for asked in ["", "trace", "info,lapin=trace", "info,lapin::returned_messages=warn", "info,lapin::frames=trace"]
        {
            let filter = parse(asked).unwrap().to_string();
            assert!(NEVER.iter().all(|never| filter.contains(never)), "{asked}: {filter}");
            assert!(!filter.contains("frames=trace") && !filter.contains("messages=warn"), "{asked}: {filter}");
            assert_eq!(filter.contains(QUIET), !asked.contains("lapin"), "{asked}: {filter}");
        }
    }

    #[test]
    fn every_crate_of_the_daemon_is_a_part() {
        let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for entry in std::fs::read_dir(beside).unwrap() {
            let folder = entry.unwrap();
            let Ok(manifest) = std::fs::read_to_string(folder.path().join("Cargo.toml")) else { continue };
            // The crates that log have the macros of `core`, or `tracing` itself.
            let logs = manifest.contains("delaybridge-core.workspace") && !manifest.contains("publish = false");
            let name = folder.file_name().into_string().unwrap().replace('-', "_");
            assert!(!logs || PARTS.contains(&&*name), "{name} is missing");
        }
    }
}
