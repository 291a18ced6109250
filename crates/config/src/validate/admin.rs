//! The operators' listener.

use delaybridge_http_server::named::NamedTokens;
use delaybridge_http_server::tokens_file::TokenList as _;
use delaybridge_model::AdminSpec;
use delaybridge_model::keys::admin;
use delaybridge_settings::Settings;
use delaybridge_settings::reader::{Needs, Section};

/// Reads the section; what is wrong is reported.
pub(super) fn read(section: &Section<'_>) -> AdminSpec {
    let report = &section.cx.report;
    let spec = AdminSpec::of(section);
    // A command at a queue can do without it.
    if let Some(path) = &spec.tokens_file
        && section.cx.needs == Needs::Everything
        && let Err(problem) = NamedTokens::read(path)
    {
        let help = "write one token a line, `NAME TOKEN ROLE PATTERN`; `openssl rand -hex 24` makes one";
        let spot = section.spot(&admin::TOKENS_FILE);
        if path.exists() { report.problem(&spot, problem, help) } else { report.absent(&spot, problem, help) }
    }
    if !section.has(&admin::TOKENS_FILE) && spec.proxy.is_none() && !spec.listen.is_local() {
        report.warning(
            &section.spot(&admin::LISTEN),
            "without `tokens_file` and `proxy` only clients on this machine can change something or see payloads",
            "set one of them, or listen on 127.0.0.1",
        );
    }
    spec
}
