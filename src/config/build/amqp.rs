//! AMQP 0-9-1: the cluster, and who we are to it.

use secrecy::SecretString;

use super::amqp_place::AmqpPlace;
use super::amqp_url::AmqpUrl;
use super::{amqp_declare, secrets, tls};
use crate::config::keys::sink_amqp;
use crate::config::model::{AmqpLogin, AmqpSpec, Secret, TlsFiles};
use crate::config::problem::Spot;
use crate::config::reader::{Scalar, Section};

/// The cluster under `section`; `place` is where the sink delivers to unless a route says otherwise.
pub(super) fn spec(section: &Section<'_>, place: &AmqpPlace) -> AmqpSpec {
    let tls = section.opt_section(&sink_amqp::TLS).map(|section| tls::files(&section));
    let urls = urls(section);
    let encrypted = urls.first().is_some_and(|(url, _)| url.tls);
    if let (true, Some(_), false) = (tls.is_some(), urls.first(), encrypted) {
        let help = "write `amqps://`, or remove `tls`";
        section.cx.report.problem(
            &section.spot(&sink_amqp::TLS),
            "`tls` has no effect, because the URL is amqp://",
            help,
        );
    }
    let tls = encrypted.then(|| tls.unwrap_or_default());
    let heartbeat = section.duration(&sink_amqp::HEARTBEAT);
    if heartbeat.subsec_nanos() > 0 || heartbeat.as_secs() > u16::MAX.into() {
        let help = "write whole seconds, as in `10s`";
        section.cx.report.problem(&section.spot(&sink_amqp::HEARTBEAT), "the broker takes seconds, up to 65535", help);
    }
    let window = section.count(&sink_amqp::MAX_UNCONFIRMED).and_then(|count| u32::try_from(count).ok());
    AmqpSpec {
        vhost: urls.first().map(|(url, _)| url.vhost.clone()).unwrap_or_default(),
        login: login(section, &urls, tls.as_ref()),
        nodes: urls.into_iter().map(|(url, _)| (url.host, url.port)).collect(),
        tls,
        connect_timeout: section.duration(&sink_amqp::CONNECT_TIMEOUT),
        heartbeat,
        window: window.unwrap_or(1),
        mandatory: safe(section, &sink_amqp::MANDATORY, "messages that no queue takes are confirmed and lost"),
        persistent: safe(section, &sink_amqp::PERSISTENT, "messages are lost when the broker restarts"),
        max_message_bytes: section.size(&sink_amqp::MAX_MESSAGE_SIZE),
        declare: amqp_declare::topology(section, place),
    }
}

/// A flag that is on unless the user wants to lose messages.
fn safe(section: &Section<'_>, key: &crate::config::keys::Key, loss: &str) -> bool {
    let on = section.flag(key).unwrap_or(true);
    if !on {
        section.cx.report.warning(&section.spot(key), loss, "remove the key unless that is what you want");
    }
    on
}

fn urls(section: &Section<'_>) -> Vec<(AmqpUrl, Scalar)> {
    let report = &section.cx.report;
    let mut written: Vec<Scalar> = section.text(&sink_amqp::URL).into_iter().collect();
    written.extend(section.texts(&sink_amqp::URLS));
    match (section.has(&sink_amqp::URL), section.has(&sink_amqp::URLS)) {
        (true, true) => {
            let help = "write all nodes under `urls`";
            report.problem(&section.spot(&sink_amqp::URLS), "there is both `url` and `urls`", help);
        }
        (false, false) => report.problem(&section.spot, "`url` is missing", sink_amqp::URL.help),
        _ => {}
    }
    let mut urls: Vec<(AmqpUrl, Scalar)> = Vec::new();
    for text in written {
        match AmqpUrl::parse(&text.value) {
            Ok(url) => {
                if let Some(what) = urls.first().and_then(|(first, _)| first.differs(&url)) {
                    let message = format!("the URL has another {what} than the first");
                    report.problem(&text.spot, message, "the nodes of one cluster have one login and one vhost");
                }
                if url.password.is_some() && text.is_plain() {
                    let help = "put it into a file of its own with `password_file`, or write `${AMQP_PASSWORD}`";
                    report.warning(&text.spot, "the URL holds a password in plain text", help);
                }
                urls.push((url, text));
            }
            Err(problem) => {
                report.problem(&text.spot, problem, "write `amqp://user@host:5672/vhost`, or `amqps://` for TLS")
            }
        }
    }
    urls
}

fn login(section: &Section<'_>, urls: &[(AmqpUrl, Scalar)], tls: Option<&TlsFiles>) -> AmqpLogin {
    let report = &section.cx.report;
    let own_name = section.text(&sink_amqp::USERNAME).map(|name| name.value);
    let own_password = secrets::password(section, "AMQP_PASSWORD");
    let external = section.word(&sink_amqp::LOGIN, &[("plain", false), ("external", true)]) == Some(true);
    let (url, spot) = match urls.first() {
        Some((url, text)) => (Some(url), text.spot.clone()),
        None => (None, section.spot.clone()),
    };
    let name_in_url = url.and_then(|url| url.username.clone());
    let password_in_url = url.and_then(|url| url.password.clone());
    if name_in_url.is_some() && own_name.is_some() {
        report.problem(&spot, "the user stands in the URL and in `username`", "keep one of them");
    }
    if password_in_url.is_some() && own_password.is_some() {
        report.problem(&spot, "the password stands in the URL and in a key of its own", "keep one of them");
    }
    let username = name_in_url.or(own_name);
    let password = password_in_url.map(Secret::Literal).or(own_password);
    if external {
        check_external(section, url, tls, username.is_some() || password.is_some());
        return AmqpLogin::External;
    }
    plain(section, &spot, username, password)
}

fn plain(section: &Section<'_>, spot: &Spot, username: Option<String>, password: Option<Secret>) -> AmqpLogin {
    let guest = || Secret::Literal(SecretString::from("guest"));
    // What cannot be read has been reported, and is not missing.
    let written = [&sink_amqp::USERNAME, &sink_amqp::PASSWORD, &sink_amqp::PASSWORD_FILE].map(|key| section.has(key));
    let (username, password) = match (username, password) {
        (Some(username), Some(password)) => (username, password),
        (Some(username), None) => {
            if !written[1] && !written[2] {
                let help = "write `password_file: PATH`, or `password: ${AMQP_PASSWORD}`";
                section.cx.report.problem(spot, "there is a user, but no password", help);
            }
            (username, guest())
        }
        (None, Some(password)) => {
            if !written[0] {
                section.cx.report.problem(spot, "there is a password, but no user", "write `username: NAME`");
            }
            (String::new(), password)
        }
        (None, None) => ("guest".to_owned(), guest()),
    };
    AmqpLogin::Plain { username, password }
}

fn check_external(section: &Section<'_>, url: Option<&AmqpUrl>, tls: Option<&TlsFiles>, named: bool) {
    let spot = section.spot(&sink_amqp::LOGIN);
    let refuse = |message: &str, help: &str| section.cx.report.problem(&spot, message, help);
    if url.is_some_and(|url| !url.tls) {
        refuse("login external needs amqps://", "the client certificate says who we are");
    } else if tls.is_some_and(|tls| tls.client.is_none()) {
        refuse("login external needs a client certificate", "write `tls: { cert_file: PATH, key_file: PATH }`");
    }
    if named {
        refuse("login external takes no user and no password", "the client certificate says who we are");
    }
}
