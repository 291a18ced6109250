//! `/token/NAMESPACE`: tokens of namespaces, as lmstfy's administrators make them. They are in Redis, as hashes, so that
//! every daemon knows them. Who makes them needs the right `admin` on all topics of the namespace, by a token of the file or from
//! this machine: what was made at run time makes nothing, and ends with its maker.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::answer;
use super::known::TokenUse;
use super::names::namespace;
use crate::Api;
use crate::access::{Caller, Made, Right};
use crate::job_call::JobCall;
use crate::v1::errors::problem;
use delaybridge_http_server::call::Query;
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::{Problem, ProblemKind};
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{MadeToken, TokenLimits};
use delaybridge_model::RequestRate;

/// lmstfy's clients may name a pool in front of the token; there is one.
const POOL: &str = "default";
/// Shortest token that a client may choose.
const SHORTEST: usize = 20;

fn hash(token: &str) -> String {
    hex::encode(digest::digest(&digest::SHA256, token.as_bytes()).as_ref())
}

fn without_pool(token: &str) -> Result<&str, Problem> {
    match token.split_once(':') {
        None => Ok(token),
        Some((POOL, token)) => Ok(token),
        Some(_) => Err(Problem::new(ProblemKind::NoSuchPath, "pool not found")),
    }
}

/// Finds the owner of a token of the namespace in the path. It is valid as long as the token that made it has the right
/// to.
///
/// # Errors
/// There is no such token, or Redis cannot be asked.
pub async fn owner(api: &Api, token: &str, call: &JobCall) -> Result<Caller, Problem> {
    let invalid = || Problem::new(ProblemKind::Unauthorized, "invalid token");
    // Without a namespace in the path only the tokens of the file are valid.
    let namespace = namespace(call).map_err(|_| invalid())?;
    let key = (namespace.to_owned(), hash(without_pool(token)?));
    let made = match api.known.get(&key) {
        Some(made) => made,
        None => {
            let made = api.queue.token(namespace, &key.1).await;
            let made = made.map_err(|error| problem("look the token up", error))?.ok_or_else(invalid)?;
            api.known.keep(key.clone(), made.clone());
            made
        }
    };
    let maker = api.access.tokens()?.filter(|_| !made.maker.is_empty());
    if maker.is_some_and(|tokens| !tokens.named(&made.maker).is_some_and(|maker| administers(&maker, namespace))) {
        return Err(invalid());
    }
    let pattern = format!("{namespace}.*");
    let token = Made { hash: key.1.into(), limits: made.limits };
    Ok(Caller::of_made(&format!("lmstfy:{namespace}"), &pattern, token))
}

/// Counts a request with a token that has limits.
pub fn throttle(api: &Api, call: &JobCall, how: TokenUse) -> Result<(), Problem> {
    let Some(Made { hash, limits: Some(limits) }) = &call.caller.made else { return Ok(()) };
    let (count, interval) = match how {
        TokenUse::Read => (limits.read, limits.interval),
        TokenUse::Write => (limits.write, limits.interval),
    };
    match count {
        0 => Ok(()),
        _ => api
            .uses
            .admit((hash.clone(), *limits, how), RequestRate { count, interval: Duration::from_secs(interval.into()) }),
    }
}

/// Creates a new token.
pub async fn new(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let form = call.read(|body| Query::parse(&String::from_utf8_lossy(&body))).await?;
    let said = |name: &str| call.query.text(name).or_else(|| form.text(name)).filter(|text| !text.is_empty());
    let description = said("description").ok_or_else(|| Problem::bad("invalid description"))?;
    let token = match said("token") {
        None => random(),
        Some(token) if token.len() < SHORTEST => return Err(Problem::bad("the user token was too short")),
        Some(token) => without_pool(token)?.to_owned(),
    };
    let maker = call.caller.name.as_deref().unwrap_or_default().to_owned();
    let made = MadeToken { maker, limits: None, description: description.to_owned() };
    let made = api.queue.make_token(&namespace, &hash(&token), &made).await;
    if made.map_err(|error| problem("make a token", error))? {
        Ok(answer(StatusCode::CREATED, json!({ "token": token })))
    } else {
        Err(Problem::bad("token exist"))
    }
}

/// Answers with the tokens: their hashes, and what was said of them.
pub async fn list(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let tokens = api.queue.tokens(&namespace).await.map_err(|error| problem("list the tokens", error))?;
    let tokens: Map<String, Value> =
        tokens.into_iter().map(|(hash, token)| (format!("sha256:{hash}"), token.description.into())).collect();
    Ok(answer(StatusCode::OK, json!({ "tokens": tokens })))
}

/// Revokes the token, or the one with this hash; for other daemons within two seconds.
pub async fn delete(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let hash = hash_in(&call)?;
    api.queue.delete_token(&namespace, &hash).await.map_err(|error| problem("delete the token", error))?;
    api.known.forget(&namespace, &hash);
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Answers the limits of the token.
pub async fn limits(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let hash = hash_in(&call)?;
    let made = made(&api, &namespace, &hash).await?;
    Ok(match made.limits {
        Some(limits) => answer(StatusCode::OK, json!(limits)),
        None => answer(StatusCode::NOT_FOUND, Value::Null),
    })
}

/// Sets limits of a token that has none; for other daemons within two seconds. Each daemon counts for itself.
pub async fn add_limits(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let limits = change_limits(&api, call, false).await?;
    Ok(answer(StatusCode::CREATED, json!({ "limiter": limits })))
}

/// Sets limits of a token in place of those that it has.
pub async fn set_limits(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let limits = change_limits(&api, call, true).await?;
    Ok(answer(StatusCode::OK, json!({ "limiter": limits })))
}

async fn change_limits(api: &Api, mut call: JobCall, again: bool) -> Result<TokenLimits, Problem> {
    let namespace = administered(&call)?;
    let hash = hash_in(&call)?;
    let mut fields = call.read(JsonFields::parse).await?;
    let mut number = |name| Ok::<_, Problem>(fields.number(name)?.map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX)));
    let limits = TokenLimits { read: number("read")?, write: number("write")?, interval: number("interval")? };
    if limits.read == 0 && limits.write == 0 {
        return Err(Problem::bad("read and write should not both be 0"));
    }
    if limits.interval == 0 {
        return Err(Problem::bad("interval should be > 0"));
    }
    let made = made(api, &namespace, &hash).await?;
    if made.limits.is_some() && !again {
        return Err(Problem::new(ProblemKind::Conflict, "the token has a limiter"));
    }
    keep(api, &namespace, &hash, &MadeToken { limits: Some(limits), ..made }).await?;
    Ok(limits)
}

/// Removes the limits on the use of a token.
pub async fn delete_limits(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let hash = hash_in(&call)?;
    let made = made(&api, &namespace, &hash).await?;
    keep(&api, &namespace, &hash, &MadeToken { limits: None, ..made }).await?;
    Ok(answer(StatusCode::OK, json!({ "msg": "success" })))
}

async fn made(api: &Api, namespace: &str, hash: &str) -> Result<MadeToken, Problem> {
    let made = api.queue.token(namespace, hash).await.map_err(|error| problem("look the token up", error))?;
    made.ok_or_else(|| Problem::new(ProblemKind::NotFound, "token not found"))
}

async fn keep(api: &Api, namespace: &str, hash: &str, token: &MadeToken) -> Result<(), Problem> {
    let kept = api.queue.change_token(namespace, hash, token).await;
    api.known.forget(namespace, hash);
    kept.map_err(|error| problem("change the token", error))
}

/// Computes the hash of the token in the path, or reads that hash itself.
fn hash_in(call: &JobCall) -> Result<String, Problem> {
    let token = call.part("token");
    match token.strip_prefix("sha256:") {
        Some(hash) => Ok(hash.to_owned()),
        None => Ok(hash(without_pool(token)?)),
    }
}

/// Reads the namespace in the path, if the caller may do everything with all of its topics. A token that was made at
/// run time makes no others, and does not change what it may do itself.
fn administered(call: &JobCall) -> Result<String, Problem> {
    let namespace = namespace(call)?;
    if call.caller.made.is_none() && administers(&call.caller, namespace) {
        Ok(namespace.to_owned())
    } else {
        Err(Problem::new(ProblemKind::Forbidden, "invalid token"))
    }
}

fn administers(caller: &Caller, namespace: &str) -> bool {
    caller.may(Right::Admin, &format!("{namespace}.*"))
}

/// Returns a token of 160 random bits.
fn random() -> String {
    let mut bytes = [0; 20];
    // Without random numbers from the system no key of TLS could be made either.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    hex::encode(bytes)
}
