//! The keys under `jobs` that are about HTTP.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::access::Tokens;
use delaybridge_http_server::tokens_file::TokenList as _;
use delaybridge_model::{ApiSpec, Face, RequestRate};
use delaybridge_settings::keys::{Key, Kind, count, count_or, duration, key, tables};
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::{self, show_duration, show_size};
use delaybridge_settings::words::{Words as _, words};

/// The key `listen`.
pub const LISTEN: Key = key(
    "listen",
    Kind::Address,
    "Address and port of the [HTTP API](http-api.md). If omitted, only the command line has access.",
);
/// The key `tls`.
pub const TLS: Key =
    key("tls", Kind::Section(&tls::TABLE), "Certificate for HTTPS, for all listeners of the job queue.");
/// The key `tokens_file`.
pub const TOKENS_FILE: Key = key(
    "tokens_file",
    Kind::File,
    "File with [tokens](http-api.md#tokens) and their rights on topics. Changes apply within a second. If omitted, only clients on the same machine are served.",
);
/// The key `tokens_max_age`.
pub const TOKENS_MAX_AGE: Key = key(
    "tokens_max_age",
    duration(10_000),
    "Time for which tokens stay valid while the file cannot be read or is wrong; then requests with a token get 503.",
)
.default("1h");
/// The key `max_body`.
pub const MAX_BODY: Key =
    key("max_body", Kind::Size, "Largest body of a request, decompressed. A job's body is limited by its topic.")
        .default("4MiB");
/// The key `max_connections`.
pub const MAX_CONNECTIONS: Key = key(
    "max_connections",
    count(1, 100_000),
    "Concurrent connections of each listener; further clients wait. A waiting `pop` uses one.",
)
.default("1024");
/// The key `max_topics_per_token`.
pub const MAX_TOPICS_PER_TOKEN: Key = key(
    "max_topics_per_token",
    count_or("none", 1, 10_000_000),
    "Number of topics that match a token's patterns, from which on it may create no more.",
)
.default("1000");
/// The key `max_rate_per_token`.
pub const MAX_RATE_PER_TOKEN: Key = key(
    "max_rate_per_token",
    Kind::Rate,
    "Requests per token, or per address without one, at each daemon; `100/s` allows bursts of 100. Further requests get 429.",
)
.default("none");
/// The key `shutdown_delay`.
pub const SHUTDOWN_DELAY: Key = key(
    "shutdown_delay",
    Kind::Duration { min_ms: 0 },
    "Time after SIGTERM in which clients are still served, so that a load balancer can leave this daemon: answers close their connection, and a `pop` waits for a second at most. At most half of `shutdown_timeout`. The variable `DELAYBRIDGE_JOBS_SHUTDOWN_DELAY` sets another default (Helm chart: 5s).",
)
.default("0s");
/// The variable with the default of [`SHUTDOWN_DELAY`].
const DELAY_VARIABLE: &str = "DELAYBRIDGE_JOBS_SHUTDOWN_DELAY";
/// The key `compat`.
pub const COMPAT: Key = key(
    "compat",
    words::<Compatible>(),
    "APIs of other job queues for the same jobs, at the address of `listen`. `lmstfy`: `/api/NAMESPACE/QUEUE` and `/token/NAMESPACE`. `ouqiang`: `/push`, `/pop`, `/finish`, `/delete`, `/get`. Default: none of them.",
);
/// The key `lmstfy`.
pub const LMSTFY: Key =
    key("lmstfy", Kind::Section(&lmstfy::TABLE), "The API of [lmstfy](lmstfy.md) on addresses of its own.");

tables! {
    mod tls at "jobs.tls", "Changed files are read again." {
        CERT_FILE = key("cert_file", Kind::File, "Certificate in PEM, with its issuers behind it.").required();
        KEY_FILE = key("key_file", Kind::File, "Key of the certificate in PEM.").required();
    }
    mod lmstfy at "jobs.lmstfy", "The jobs, tokens, TLS and limits of `jobs.listen` at further addresses." {
        LISTEN = key("listen", Kind::Address, "Address and port for clients: `/api/NAMESPACE/QUEUE`.").required();
        ADMIN = key("admin", Kind::Address, "Address and port for administrators: `/token/NAMESPACE` and `/info`. Clients on the same machine need no token: do not expose it through a proxy.");
    }
}

words! {
    /// The APIs of other job queues.
    list Compatible of &'static [Face] {
        "lmstfy" => &[Face::Lmstfy, Face::LmstfyAdmin],
        "ouqiang" => &[Face::Ouqiang],
    }
}

/// Returns the settings in effect, in the shape and the units of the YAML.
pub fn shown(listeners: &[ApiSpec]) -> Map<String, Value> {
    let mut shown = Map::new();
    let Some(first) = listeners.first() else { return shown };
    let path = |path: &PathBuf| json!(path.display().to_string());
    shown.insert("max_body".to_owned(), json!(show_size(first.max_body as u64)));
    shown.insert("max_connections".to_owned(), json!(first.max_connections));
    shown.insert(
        "max_topics_per_token".to_owned(),
        first.max_topics_per_token.map_or(json!("none"), |most| json!(most)),
    );
    shown.insert("shutdown_delay".to_owned(), json!(show_duration(first.shutdown_delay)));
    shown.insert("max_rate_per_token".to_owned(), first.max_rate.map_or(json!("none"), |rate| json!(rate.to_string())));
    if let Some([certificate, key]) = &first.tls {
        shown.insert("tls".to_owned(), json!({ "cert_file": path(certificate), "key_file": path(key) }));
    }
    if let Some(file) = &first.tokens_file {
        shown.insert("tokens_file".to_owned(), path(file));
        shown.insert("tokens_max_age".to_owned(), json!(show_duration(first.tokens_max_age)));
    }
    for spec in listeners {
        let address = json!(spec.listen.to_string());
        match spec.faces.as_slice() {
            [Face::Lmstfy] => shown.entry("lmstfy").or_insert_with(|| json!({}))["listen"] = address,
            [Face::LmstfyAdmin] => shown.entry("lmstfy").or_insert_with(|| json!({}))["admin"] = address,
            faces => {
                shown.insert("listen".to_owned(), address);
                let words: Vec<_> =
                    Compatible::VALUES.iter().filter(|(_, all)| all.iter().all(|face| faces.contains(face))).collect();
                if !words.is_empty() {
                    shown.insert("compat".to_owned(), words.iter().map(|(word, _)| *word).collect());
                }
            }
        }
    }
    shown
}

/// Reads what is under `jobs:`: each listener. What is wrong is reported.
pub fn read(section: &Section<'_>) -> Vec<ApiSpec> {
    let report = &section.cx.report;
    let tls = section.opt_section(&TLS).map(|tls| {
        let files = (tls.file(&tls::CERT_FILE), tls.file(&tls::KEY_FILE));
        (files.0.map(|(path, _)| path), files.1.map(|(path, _)| path))
    });
    let tls = tls.and_then(|(certificate, key)| Some([certificate?, key?]));
    if let Some(files) = &tls
        && let Err(problem) = delaybridge_http_server::tls::check(files)
    {
        report.problem(&section.spot(&TLS), problem, "certificate and key are PEM files that belong together");
    }
    let tokens_file = section.file(&TOKENS_FILE).map(|(path, _)| path);
    if let Some(path) = &tokens_file
        && let Err(errors) = Tokens::read(path)
    {
        for problem in errors.problems {
            report.problem(&section.spot(&TOKENS_FILE), problem.to_string(), "");
        }
    }
    let tokens_max_age = section.duration(&TOKENS_MAX_AGE);
    let max_body = usize::try_from(section.size(&MAX_BODY)).unwrap_or(usize::MAX);
    let max_connections = section.count(&MAX_CONNECTIONS).and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
    let max_topics_per_token = section.count(&MAX_TOPICS_PER_TOKEN);
    let max_rate = section.rate(&MAX_RATE_PER_TOKEN).map(RequestRate::per_second);
    let shutdown_delay = shutdown_delay(section);
    let mut own = vec![Face::Own];
    if section.has(&COMPAT) {
        own.extend(section.some_of::<Compatible>(&COMPAT).into_iter().flatten());
    }
    let lmstfy = section.opt_section(&LMSTFY);
    let of_lmstfy = |key: &Key| lmstfy.as_ref().filter(|lmstfy| lmstfy.has(key)).and_then(|lmstfy| lmstfy.address(key));
    let for_clients = lmstfy.as_ref().and_then(|lmstfy| lmstfy.address(&lmstfy::LISTEN));
    let listeners = [
        ("jobs.listen", own, section.has(&LISTEN).then(|| section.address(&LISTEN)).flatten()),
        ("jobs.lmstfy.listen", vec![Face::Lmstfy], for_clients),
        ("jobs.lmstfy.admin", vec![Face::LmstfyAdmin], of_lmstfy(&lmstfy::ADMIN)),
    ];
    let listeners = listeners.into_iter().filter_map(|(key, faces, listen)| {
        let tls = tls.clone();
        let tokens_file = tokens_file.clone();
        let spec = ApiSpec {
            key,
            listen: listen?,
            faces,
            tls,
            tokens_file,
            tokens_max_age,
            max_body,
            max_connections,
            max_topics_per_token,
            max_rate,
            shutdown_delay,
        };
        Some(spec)
    });
    let listeners: Vec<_> = listeners.collect();
    let outside = listeners.iter().find(|spec| spec.tokens_file.is_none() && !spec.listen.ip().is_loopback());
    if let Some(spec) = outside {
        let help = "set `tokens_file`, or listen on 127.0.0.1";
        let message = format!("`{}`: without `tokens_file` only clients on this machine are served", spec.key);
        report.warning(&section.spot, message, help);
    }
    if !section.has(&LISTEN) && lmstfy.is_none() {
        let all = [
            &TLS,
            &TOKENS_FILE,
            &TOKENS_MAX_AGE,
            &MAX_BODY,
            &MAX_CONNECTIONS,
            &MAX_TOPICS_PER_TOKEN,
            &MAX_RATE_PER_TOKEN,
            &SHUTDOWN_DELAY,
            &COMPAT,
        ];
        for key in all.into_iter().filter(|key| section.has(key)) {
            let message = format!("`{}` has no effect without `listen`", key.name);
            report.problem(&section.spot(key), message, "write `listen`, for example 127.0.0.1:7777");
        }
    }
    listeners
}

/// Returns the time from SIGTERM to the end of listening.
fn shutdown_delay(section: &Section<'_>) -> Duration {
    let of_variable = || (section.cx.env)(DELAY_VARIABLE).filter(|text| !text.is_empty());
    match of_variable().filter(|_| !section.has(&SHUTDOWN_DELAY)) {
        Some(text) => units::duration(&text.to_string_lossy()).unwrap_or_else(|bad| {
            let message = format!("the variable `{DELAY_VARIABLE}`: {}", bad.message);
            section.cx.report.problem(&section.spot(&SHUTDOWN_DELAY), message, bad.help);
            Duration::ZERO
        }),
        None => section.duration(&SHUTDOWN_DELAY),
    }
}

/// Leaves the drain at least half of `shutdown_timeout`. The default makes room by itself.
pub fn fit_delay(section: &Section<'_>, listeners: &mut [ApiSpec], shutdown_timeout: Duration) {
    let most = shutdown_timeout / 2;
    for spec in listeners.iter_mut().filter(|spec| spec.shutdown_delay > most) {
        if section.has(&SHUTDOWN_DELAY) {
            let message = format!(
                "`shutdown_delay` is {}: of the {} of `shutdown_timeout` the drain needs at least half",
                show_duration(spec.shutdown_delay),
                show_duration(shutdown_timeout)
            );
            let help = format!("write at most {}, or a longer `shutdown_timeout`", show_duration(most));
            return section.cx.report.problem(&section.spot(&SHUTDOWN_DELAY), message, help);
        }
        spec.shutdown_delay = most;
    }
}
