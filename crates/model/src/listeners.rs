//! The listeners of a daemon beside that of its metrics: the operators' and those of the job queue.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::grafana::GrafanaLinks;
use super::proxy::ProxySpec;
use delaybridge_settings::keys::Key;
use delaybridge_settings::reader::Section;
use delaybridge_settings::{Listen, Settings};

/// The admin API `/v1/` and the web page `/`. With this section, `acl` also grants the rights of operators.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(admin, at = "http.admin")]
pub struct AdminSpec {
    /// Address and port, without TLS: not for untrusted networks. Or a Unix socket, for the daemon's user and root
    /// only.
    #[key(Kind::Listen, default = "127.0.0.1:9465")]
    pub listen: Listen,
    /// Path of the page behind a proxy that passes it on, as `/queues`. Requests without it are answered too.
    #[key(Kind::Text, read = base_path)]
    pub base_path: Option<String>,
    /// File with lines `NAME TOKEN ROLE PATTERN`. The role is `viewer` (no payloads), `reader` (payloads), `operator`
    /// (pauses, moves, redrives) or `admin` (removes, reloads), for the queues and topics of the pattern (`*`: any
    /// text; commas separate patterns). `sha256:` and 64 hex digits may stand for a token. Changes apply within a
    /// second. If omitted, changes and payloads are for clients on the same machine only.
    #[key(Kind::File)]
    pub tokens_file: Option<PathBuf>,
    /// Time for which tokens stay valid while the file cannot be read or is wrong; then requests with a token get 503.
    #[key(duration(10_000), default = "1h")]
    pub tokens_max_age: Duration,
    /// A proxy that logs people in, instead of tokens or beside them.
    #[key(Kind::Section(&crate::keys::admin_proxy::TABLE))]
    pub proxy: Option<ProxySpec>,
    /// Links to Grafana. None if omitted.
    #[key(Kind::Section(&crate::keys::grafana::TABLE))]
    pub grafana: Option<GrafanaLinks>,
}

fn base_path(section: &Section<'_>, key: &Key) -> Option<String> {
    let text = section.text(key)?;
    let is_plain = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !part.is_empty() && part != "." && part != ".." && part.bytes().all(allowed)
    };
    if !text.value.strip_prefix('/').is_some_and(|path| path.split('/').all(is_plain)) {
        let help = "write it as `/queues`: with a `/` at its beginning and none at its end, of letters, digits, `-`, `_`, `.` and `~`";
        section.cx.report.problem(&text.spot, "this is no plain path", help);
    }
    Some(text.value)
}

/// An API that a listener of the job queue serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// delaybridge's own.
    Own,
    /// That of bitleak/lmstfy, for its clients.
    Lmstfy,
    /// That of bitleak/lmstfy, for its administrators.
    LmstfyAdmin,
    /// That of ouqiang/delay-queue.
    Ouqiang,
}

/// One listener of the job queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSpec {
    /// The key that names its address, for messages.
    pub key: &'static str,
    /// Address and port.
    pub listen: SocketAddr,
    /// The APIs that are served there.
    pub faces: Vec<Face>,
    /// Certificate and key.
    pub tls: Option<[PathBuf; 2]>,
    /// The file with tokens.
    pub tokens_file: Option<PathBuf>,
    /// Longest time for which tokens are valid that the file cannot confirm.
    pub tokens_max_age: Duration,
    /// Largest body of a request in bytes.
    pub max_body: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// Topics of a token; `None` is no limit.
    pub max_topics_per_token: Option<u64>,
    /// Requests of a token; `None` is no limit.
    pub max_rate: Option<RequestRate>,
    /// Time from SIGTERM to the end of listening.
    pub shutdown_delay: Duration,
}

impl ApiSpec {
    /// Returns whether clients on the same machine need no token although there is a file with tokens.
    pub fn trusts_the_machine(&self) -> bool {
        self.faces == [Face::LmstfyAdmin]
    }
}

/// A number of requests in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate {
    /// The number, at least 1.
    pub count: u32,
    /// The interval.
    pub interval: Duration,
}

impl RequestRate {
    /// Returns a rate in requests per second; fewer than one are one in a longer interval.
    pub fn per_second(rate: f64) -> RequestRate {
        let count = rate.clamp(1.0, 1e9);
        let interval = Duration::from_secs_f64((count.floor() / rate).clamp(1e-3, 86_400.0));
        RequestRate { count: count as u32, interval }
    }
}

/// Writes the rate as the configuration does.
impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", f64::from(self.count) / self.interval.as_secs_f64())
    }
}
