//! The differences between the APIs: the shape of problems, and the owners of tokens.

use super::access::Caller;
use super::answer::allow;
use super::call::Call;
use super::config::Face;
use super::problem::{Kind, Problem};
use super::reply::Reply;
use super::route::Dialect;
use super::{Api, lmstfy, ouqiang};

/// The dialect of a path that no route has, where these APIs are served.
pub fn of_path(faces: &[Face], path: &str) -> Dialect {
    let lmstfy = path.starts_with("/api/") || path.starts_with("/token/") || path == "/info";
    let serves = faces.contains(&Face::Lmstfy) || faces.contains(&Face::LmstfyAdmin);
    if serves && (lmstfy || !faces.contains(&Face::Own)) { Dialect::Lmstfy } else { Dialect::Own }
}

/// A problem, as clients of this API expect it.
pub fn reply(dialect: Dialect, problem: Problem) -> Reply {
    match dialect {
        Dialect::Own => allow(Reply::from(problem.clone()), &problem),
        Dialect::Lmstfy => lmstfy::reply(&problem),
        Dialect::Ouqiang => ouqiang::reply(&problem),
    }
}

/// The problem of a request without a token.
pub fn no_token(dialect: Dialect) -> Problem {
    let detail = match dialect {
        Dialect::Own | Dialect::Ouqiang => "authenticate: there is no token; send `Authorization: Bearer TOKEN`",
        Dialect::Lmstfy => "token not found",
    };
    Problem::new(Kind::Unauthorized, detail)
}

/// The owner of a token that is not in the file.
///
/// # Errors
/// There is none.
pub async fn owner(dialect: Dialect, api: &Api, token: &str, call: &Call) -> Result<Caller, Problem> {
    match dialect {
        Dialect::Own | Dialect::Ouqiang => Err(Problem::new(
            Kind::Unauthorized,
            "authenticate: the token is not known; is its SHA-256 in `jobs.tokens_file`?",
        )),
        Dialect::Lmstfy => lmstfy::tokens::owner(api, token, call).await,
    }
}
