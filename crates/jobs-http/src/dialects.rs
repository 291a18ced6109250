//! The differences between the APIs: the shape of problems, and the owners of tokens.

use super::access::Caller;
use super::job_call::JobCall;
use super::route::ApiDialect;
use super::{Api, lmstfy, ouqiang};
use delaybridge_http_server::answer::allow;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_model::Face;

/// Returns the dialect of a path that no route has, where these APIs are served.
pub fn of_path(faces: &[Face], path: &str) -> ApiDialect {
    let lmstfy = path.starts_with("/api/") || path.starts_with("/token/") || path == "/info";
    let serves = faces.contains(&Face::Lmstfy) || faces.contains(&Face::LmstfyAdmin);
    if serves && (lmstfy || !faces.contains(&Face::Own)) { ApiDialect::Lmstfy } else { ApiDialect::Own }
}

/// Converts a problem to an answer as clients of this API expect it.
pub fn reply(dialect: ApiDialect, problem: Problem) -> Reply {
    match dialect {
        ApiDialect::Own => allow(Reply::from(problem.clone()), &problem),
        ApiDialect::Lmstfy => lmstfy::reply(&problem),
        ApiDialect::Ouqiang => ouqiang::reply(&problem),
    }
}

/// Returns the problem of a request without a token.
pub fn no_token(dialect: ApiDialect) -> Problem {
    let detail = match dialect {
        ApiDialect::Own | ApiDialect::Ouqiang => "authenticate: there is no token; send `Authorization: Bearer TOKEN`",
        ApiDialect::Lmstfy => "token not found",
    };
    Problem::new(ProblemKind::Unauthorized, detail)
}

/// Finds the owner of a token that is not in the file.
pub async fn owner(dialect: ApiDialect, api: &Api, token: &str, call: &JobCall) -> Result<Caller, Problem> {
    match dialect {
        ApiDialect::Own | ApiDialect::Ouqiang => Err(Problem::new(
            ProblemKind::Unauthorized,
            "authenticate: the token is not known; is its SHA-256 in `jobs.tokens_file`?",
        )),
        ApiDialect::Lmstfy => lmstfy::tokens::owner(api, token, call).await,
    }
}
