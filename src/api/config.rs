//! The keys under `jobs.http`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::access::Tokens;
use crate::settings::keys::tables;
use crate::settings::reader::Section;
use crate::settings::units::show_size;

tables! {
    mod http at "jobs.http", "The job queue's HTTP API. See [http-api.md](http-api.md)." {
        LISTEN = key("listen", Kind::Address, "Address and port.").default("127.0.0.1:7777");
        TLS = key("tls", Kind::Section(&tls::TABLE), "Certificate, for HTTPS.");
        TOKENS_FILE = key("tokens_file", Kind::File, "File with the hashes of tokens and their rights on topics. A change is noticed within a second. Without it only clients on the same machine are served.");
        MAX_BODY = key("max_body", Kind::Size, "Largest body of a request, unpacked. A topic's own limit for one job is `max_body` there.").default("4MiB");
        MAX_CONNECTIONS = key("max_connections", count(1, 100_000), "Connections at once. Each waiting `pop` needs one; further clients wait.").default("1024");
        COMPAT = key("compat", Kind::Words(&[now("lmstfy"), now("ouqiang")]), "APIs of other job queues, on the same jobs. `lmstfy`: `/api/NAMESPACE/QUEUE` and `/token/NAMESPACE`. `ouqiang`: `/push`, `/pop`, `/finish`, `/delete`, `/get`. Default: none of them.");
    }
    mod tls at "jobs.http.tls", "Both files are read again when they change." {
        CERT_FILE = key("cert_file", Kind::File, "Certificate in PEM, with those of its issuers behind it.").required();
        KEY_FILE = key("key_file", Kind::File, "Its key in PEM.").required();
    }
}

/// How the API is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSpec {
    /// Address and port.
    pub listen: SocketAddr,
    /// Certificate and key.
    pub tls: Option<[PathBuf; 2]>,
    /// The tokens' file.
    pub tokens_file: Option<PathBuf>,
    /// Largest body of a request in bytes.
    pub max_body: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// APIs of others.
    pub compat: Vec<Compat>,
}

impl ApiSpec {
    /// The settings in effect, in the shape and the units of the YAML.
    pub fn shown(&self) -> Map<String, Value> {
        let path = |path: &PathBuf| json!(path.display().to_string());
        let mut shown = Map::from_iter([
            ("listen".to_owned(), json!(self.listen.to_string())),
            ("max_body".to_owned(), json!(show_size(self.max_body as u64))),
            ("max_connections".to_owned(), json!(self.max_connections)),
        ]);
        if let Some([certificate, key]) = &self.tls {
            shown.insert("tls".to_owned(), json!({ "cert_file": path(certificate), "key_file": path(key) }));
        }
        if let Some(file) = &self.tokens_file {
            shown.insert("tokens_file".to_owned(), path(file));
        }
        if !self.compat.is_empty() {
            let words: Vec<_> = COMPAT.iter().filter(|(_, compat)| self.compat.contains(compat)).collect();
            shown.insert("compat".to_owned(), words.iter().map(|(word, _)| *word).collect());
        }
        shown
    }
}

/// An API of another job queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// The one of bitleak/lmstfy.
    Lmstfy,
    /// The one of ouqiang/delay-queue.
    Ouqiang,
}

const COMPAT: [(&str, Compat); 2] = [("lmstfy", Compat::Lmstfy), ("ouqiang", Compat::Ouqiang)];

/// Reads the section. `None` where nothing can be built; what is wrong is reported.
pub(crate) fn read(section: &Section<'_>) -> Option<ApiSpec> {
    let report = &section.cx.report;
    let tls = section.opt_section(&http::TLS).map(|tls| {
        let files = (tls.file(&tls::CERT_FILE), tls.file(&tls::KEY_FILE));
        (files.0.map(|(path, _)| path), files.1.map(|(path, _)| path))
    });
    let tls = tls.and_then(|(certificate, key)| Some([certificate?, key?]));
    if let Some(files) = &tls
        && let Err(problem) = super::tls::Certificates::read(files.clone())
    {
        report.problem(&section.spot(&http::TLS), problem, "certificate and key are PEM files that belong together");
    }
    let tokens_file = section.file(&http::TOKENS_FILE).map(|(path, _)| path);
    if let Some(path) = &tokens_file
        && let Err(errors) = Tokens::read(path)
    {
        for problem in errors.problems {
            report.problem(&section.spot(&http::TOKENS_FILE), problem.to_string(), "");
        }
    }
    let listen = section.address(&http::LISTEN);
    if let (Some(listen), false) = (listen, section.has(&http::TOKENS_FILE))
        && !listen.ip().is_loopback()
    {
        let help = "set `tokens_file`, or listen on 127.0.0.1";
        report.warning(
            &section.spot(&http::LISTEN),
            "without `tokens_file` only clients on this machine are served",
            help,
        );
    }
    let compat = match section.has(&http::COMPAT) {
        true => section.words(&http::COMPAT, &COMPAT),
        false => Vec::new(),
    };
    Some(ApiSpec {
        listen: listen?,
        tls,
        tokens_file,
        max_body: usize::try_from(section.size(&http::MAX_BODY)).unwrap_or(usize::MAX),
        max_connections: section
            .count(&http::MAX_CONNECTIONS)
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(1),
        compat,
    })
}
