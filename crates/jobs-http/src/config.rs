//! The keys under `jobs` that are about HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::access::Tokens;
use delaybridge_http_server::tokens_file::TokenList as _;
use delaybridge_model::{ApiSpec, Face, RequestRate};
use delaybridge_settings::keys::{Key, Table};
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::{self, show_duration, show_size};
use delaybridge_settings::words::{Words as _, words};
use delaybridge_settings::{Setting, Settings};

/// The keys under `jobs` of the listeners.
#[derive(Settings)]
#[settings(api, at = "jobs", hidden)]
struct ApiKeys {
    /// Address and port of the [HTTP API](http-api.md). If omitted, only the command line has access.
    #[key(Kind::Address)]
    listen: Option<SocketAddr>,
    /// The API of [lmstfy](lmstfy.md) on addresses of its own.
    #[key(Kind::Section(&lmstfy::TABLE))]
    lmstfy: Option<LmstfyKeys>,
    /// APIs of other job queues for the same jobs, at the address of `listen`. `lmstfy`: `/api/NAMESPACE/QUEUE` and
    /// `/token/NAMESPACE`. `ouqiang`: `/push`, `/pop`, `/finish`, `/delete`, `/get`. Default: none of them.
    #[key(words::<Compatible>(), read = faces)]
    compat: Vec<Face>,
    /// File with [tokens](http-api.md#tokens) and their rights on topics. Changes apply within a second. If omitted, only
    /// clients on the same machine are served.
    #[key(Kind::File)]
    tokens_file: Option<PathBuf>,
    /// Time for which tokens stay valid while the file cannot be read or is wrong; then requests with a token get 503.
    #[key(duration(10_000), default = "1h")]
    tokens_max_age: Duration,
    /// Certificate for HTTPS, for all listeners of the job queue.
    #[key(Kind::Section(&tls::TABLE), read = certificate)]
    tls: Option<[PathBuf; 2]>,
    /// Largest body of a request, decompressed. A job's body is limited by its topic.
    #[key(Kind::Size, default = "4MiB")]
    max_body: usize,
    /// Concurrent connections of each listener; further clients wait. A waiting `pop` uses one.
    #[key(count(1, 100_000), default = "1024")]
    max_connections: usize,
    /// Number of topics that match a token's patterns, from which on it may create no more.
    #[key(count_or("none", 1, 10_000_000), default = "1000")]
    max_topics_per_token: Option<u64>,
    /// Requests per token, or per address without one, at each daemon; `100/s` allows bursts of 100. Further requests get
    /// 429.
    #[key(Kind::Rate, default = "none")]
    max_rate_per_token: Option<f64>,
    /// Time after SIGTERM in which clients are still served, so that a load balancer can leave this daemon: answers close
    /// their connection, and a `pop` waits for a second at most. At most half of `shutdown_timeout`. The variable
    /// `DELAYBRIDGE_JOBS_SHUTDOWN_DELAY` sets another default (Helm chart: 5s).
    #[key(duration(0), default = "0s", read = shutdown_delay)]
    shutdown_delay: Duration,
}

/// The keys of the listeners.
pub const KEYS: &[Key] = api::OWN;
const DELAY_VARIABLE: &str = "DELAYBRIDGE_JOBS_SHUTDOWN_DELAY";

/// Both tables below these, in the order of the reference.
pub static TABLES: &[&Table] = &[&tls::TABLE, &lmstfy::TABLE];

/// Changed files are read again.
#[derive(Settings)]
#[settings(tls, at = "jobs.tls", hidden)]
struct CertificateKeys {
    /// Certificate in PEM, with its issuers behind it.
    #[key(Kind::File, required)]
    cert_file: Option<PathBuf>,
    /// Key of the certificate in PEM.
    #[key(Kind::File, required)]
    key_file: Option<PathBuf>,
}

/// The jobs, tokens, TLS and limits of `jobs.listen` at further addresses.
#[derive(Settings)]
#[settings(lmstfy, at = "jobs.lmstfy", hidden)]
struct LmstfyKeys {
    /// Address and port for clients: `/api/NAMESPACE/QUEUE`.
    #[key(Kind::Address, required)]
    listen: Option<SocketAddr>,
    /// Address and port for administrators: `/token/NAMESPACE` and `/info`. Clients on the same machine need no token: do
    /// not expose it through a proxy.
    #[key(Kind::Address)]
    admin: Option<SocketAddr>,
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
    let keys = ApiKeys::of(section);
    if let Some(path) = &keys.tokens_file
        && let Err(errors) = Tokens::read(path)
    {
        for problem in errors.problems {
            report.problem(&section.spot(&api::TOKENS_FILE), problem.to_string(), "");
        }
    }
    let (for_clients, for_administrators) = keys.lmstfy.map(|at| (at.listen, at.admin)).unzip();
    let listeners = [
        ("jobs.listen", [vec![Face::Own], keys.compat].concat(), keys.listen),
        ("jobs.lmstfy.listen", vec![Face::Lmstfy], for_clients.flatten()),
        ("jobs.lmstfy.admin", vec![Face::LmstfyAdmin], for_administrators.flatten()),
    ];
    let spec = |(key, faces, listen): (_, _, Option<SocketAddr>)| {
        Some(ApiSpec {
            key,
            listen: listen?,
            faces,
            tls: keys.tls.clone(),
            tokens_file: keys.tokens_file.clone(),
            tokens_max_age: keys.tokens_max_age,
            max_body: keys.max_body,
            max_connections: keys.max_connections,
            max_topics_per_token: keys.max_topics_per_token,
            max_rate: keys.max_rate_per_token.map(RequestRate::per_second),
            shutdown_delay: keys.shutdown_delay,
        })
    };
    let listeners: Vec<_> = listeners.into_iter().filter_map(spec).collect();
    let outside = listeners.iter().find(|spec| spec.tokens_file.is_none() && !spec.listen.ip().is_loopback());
    if let Some(spec) = outside {
        let help = "set `tokens_file`, or listen on 127.0.0.1";
        let message = format!("`{}`: without `tokens_file` only clients on this machine are served", spec.key);
        report.warning(&section.spot, message, help);
    }
    if !section.has(&api::LISTEN) && !section.has(&api::LMSTFY) {
        for key in KEYS.iter().filter(|key| section.has(key)) {
            let message = format!("`{}` has no effect without `listen`", key.name);
            report.problem(&section.spot(key), message, "write `listen`, for example 127.0.0.1:7777");
        }
    }
    listeners
}

fn certificate(section: &Section<'_>, key: &Key) -> Option<[PathBuf; 2]> {
    let CertificateKeys { cert_file, key_file } = Setting::read(section, key)?;
    let files = [cert_file?, key_file?];
    if let Err(problem) = delaybridge_http_server::tls::check(&files) {
        let help = "certificate and key are PEM files that belong together";
        section.cx.report.problem(&section.spot(key), problem, help);
    }
    Some(files)
}

fn faces(section: &Section<'_>, key: &Key) -> Vec<Face> {
    if section.has(key) { section.some_of::<Compatible>(key).concat() } else { Vec::new() }
}

/// Returns the time from SIGTERM to the end of listening.
fn shutdown_delay(section: &Section<'_>, key: &Key) -> Duration {
    let of_variable = || (section.cx.env)(DELAY_VARIABLE).filter(|text| !text.is_empty());
    match of_variable().filter(|_| !section.has(key)) {
        Some(text) => units::duration(&text.to_string_lossy()).unwrap_or_else(|bad| {
            let message = format!("the variable `{DELAY_VARIABLE}`: {}", bad.message);
            section.cx.report.problem(&section.spot(key), message, bad.help);
            Duration::ZERO
        }),
        None => section.duration(key),
    }
}

/// Leaves the drain at least half of `shutdown_timeout`. The default makes room by itself.
pub fn fit_delay(section: &Section<'_>, listeners: &mut [ApiSpec], shutdown_timeout: Duration) {
    let most = shutdown_timeout / 2;
    for spec in listeners.iter_mut().filter(|spec| spec.shutdown_delay > most) {
        if section.has(&api::SHUTDOWN_DELAY) {
            let message = format!(
                "`shutdown_delay` is {}: of the {} of `shutdown_timeout` the drain needs at least half",
                show_duration(spec.shutdown_delay),
                show_duration(shutdown_timeout)
            );
            let help = format!("write at most {}, or a longer `shutdown_timeout`", show_duration(most));
            return section.cx.report.problem(&section.spot(&api::SHUTDOWN_DELAY), message, help);
        }
        spec.shutdown_delay = most;
    }
}
