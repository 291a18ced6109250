//! The style and the scripts, as files of their own, because the policy of the page allows no others.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use xxhash_rust::xxh3::xxh3_64;

use crate::Admin;
use crate::access::AdminCaller;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;

const FILES: &[(&str, &str, &str)] = &[
    ("style.css", "text/css; charset=utf-8", include_str!("../assets/style.css")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("../assets/live.js")),
    ("local.js", "text/javascript; charset=utf-8", include_str!("../assets/local.js")),
    ("events.js", "text/javascript; charset=utf-8", include_str!("../assets/events.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Returns one of the files.
pub async fn serve(_: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let wanted = call.part("file");
    let Some((_, media_type, text)) = FILES.iter().find(|(name, ..)| *name == wanted) else {
        return Err(Problem::new(ProblemKind::NoSuchPath, "find the file: there is none of this name"));
    };
    let tag = format!("\"{:016x}\"", xxh3_64(text.as_bytes()));
    let known = call.headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let reply = if known {
        Reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        Reply::bytes(StatusCode::OK, HeaderValue::from_static(media_type), text.as_bytes())
    };
    Ok(reply.header(ETAG, tag))
}
