//! The operators' listener.

use crate::tables::admin;
use delaybridge_jobs_http::named::NamedTokens;
use delaybridge_model::AdminSpec;
use delaybridge_settings::reader::{Needs, Section};

/// Reads the section. `None` where nothing can be built; what is wrong is reported.
pub(super) fn read(section: &Section<'_>) -> Option<AdminSpec> {
    let report = &section.cx.report;
    let token_file = section.file(&admin::TOKEN_FILE).map(|(path, _)| path);
    // A command at a queue can do without it.
    if let Some(path) = &token_file
        && section.cx.needs == Needs::Everything
        && let Err(problem) = NamedTokens::read(path)
    {
        let help = "write one token a line, `NAME TOKEN`; `openssl rand -hex 24` makes one";
        report.problem(&section.spot(&admin::TOKEN_FILE), problem, help);
    }
    let listen = section.listen(&admin::LISTEN);
    if let (Some(listen), false) = (&listen, section.has(&admin::TOKEN_FILE))
        && !listen.is_local()
    {
        report.warning(
            &section.spot(&admin::LISTEN),
            "without `token_file` only clients on this machine can change something or see payloads",
            "set `token_file`, or listen on 127.0.0.1",
        );
    }
    Some(AdminSpec { listen: listen?, token_file })
}
