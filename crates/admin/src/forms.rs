//! Fields of a form, as a browser sends them.

use super::access::AdminCaller;
use delaybridge_http_server::call::{Call, Query};
use delaybridge_http_server::problem::{Problem, ProblemKind};

/// Returns the fields of the form in a request.
pub async fn form(call: &mut Call<AdminCaller>) -> Result<Query, Problem> {
    let media_type = call.media_type();
    if media_type != "application/x-www-form-urlencoded" {
        return Err(Problem::new(ProblemKind::MediaType, "read the form: it is not sent as a form"));
    }
    call.read(|body| match std::str::from_utf8(&body) {
        Ok(text) => Query::parse(text),
        Err(_) => Err(Problem::bad("read the form: it is not UTF-8 text")),
    })
    .await
}
