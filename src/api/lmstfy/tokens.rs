//! `/token/NAMESPACE`: tokens of namespaces, as lmstfy's administrators make them. They are in Redis, as hashes, so that
//! every daemon knows them. Who makes them needs the right `admin` on all topics of the namespace.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use hyper::StatusCode;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::answer;
use super::names::namespace;
use crate::api::Api;
use crate::api::access::{Caller, Right};
use crate::api::call::{Call, Query};
use crate::api::problem::{Kind, Problem};
use crate::api::reply::Reply;
use crate::api::v1::errors::problem;
use crate::clock::Instant;

/// lmstfy's clients may name a pool in front of the token; there is one.
const POOL: &str = "default";
/// Shortest token that a client may choose.
const SHORTEST: usize = 20;
/// How long a token is known without another look.
const KNOWN: Duration = Duration::from_secs(2);
/// Most tokens that are known at once.
const MOST_KNOWN: usize = 1_000;

/// Tokens that were looked up lately, by namespace and hash.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<(String, String), Instant>>);

/// The hash under which a token is kept.
fn hash(token: &str) -> String {
    hex::encode(digest::digest(&digest::SHA256, token.as_bytes()).as_ref())
}

/// The token without its pool.
fn without_pool(token: &str) -> Result<&str, Problem> {
    match token.split_once(':') {
        None => Ok(token),
        Some((POOL, token)) => Ok(token),
        Some(_) => Err(Problem::new(Kind::NoSuchPath, "pool not found")),
    }
}

/// The owner of a token of the namespace in the path.
///
/// # Errors
/// There is no such token, or Redis cannot be asked.
pub async fn owner(api: &Api, token: &str, call: &Call) -> Result<Caller, Problem> {
    // Without a namespace in the path only the tokens of the file are valid.
    let namespace = namespace(call).map_err(|_| Problem::new(Kind::Unauthorized, "invalid token"))?;
    let hash = hash(without_pool(token)?);
    let key = (namespace.to_owned(), hash);
    let known = api.known.0.lock().get(&key).is_some_and(|at| at.elapsed() < KNOWN);
    if !known {
        let there =
            api.queue.has_token(namespace, &key.1).await.map_err(|error| problem("look the token up", error))?;
        if !there {
            return Err(Problem::new(Kind::Unauthorized, "invalid token"));
        }
        let mut tokens = api.known.0.lock();
        if tokens.len() >= MOST_KNOWN {
            tokens.clear();
        }
        tokens.insert(key, Instant::now());
    }
    Ok(Caller::of_pattern(&format!("lmstfy:{namespace}"), &format!("{namespace}.*")))
}

/// A new token.
pub async fn new(api: Arc<Api>, mut call: Call) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let body = call.body().await?;
    let form = Query::parse(&String::from_utf8_lossy(&body));
    let said = |name: &str| call.query.text(name).or_else(|| form.text(name)).filter(|text| !text.is_empty());
    let description = said("description").ok_or_else(|| Problem::bad("invalid description"))?;
    let token = match said("token") {
        None => random(),
        Some(token) if token.len() < SHORTEST => return Err(Problem::bad("the user token was too short")),
        Some(token) => without_pool(token)?.to_owned(),
    };
    let made = api.queue.make_token(&namespace, &hash(&token), description).await;
    match made.map_err(|error| problem("make a token", error))? {
        true => Ok(answer(StatusCode::CREATED, json!({ "token": token }))),
        false => Err(Problem::bad("token exist")),
    }
}

/// The tokens: their hashes, and what was said of them.
pub async fn list(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let tokens = api.queue.tokens(&namespace).await.map_err(|error| problem("list the tokens", error))?;
    let tokens: Map<String, Value> =
        tokens.into_iter().map(|(hash, description)| (format!("sha256:{hash}"), description.into())).collect();
    Ok(answer(StatusCode::OK, json!({ "tokens": tokens })))
}

/// The token, or the one with this hash, is valid no more; for other daemons within two seconds.
pub async fn delete(api: Arc<Api>, call: Call) -> Result<Reply, Problem> {
    let namespace = administered(&call)?;
    let token = call.part("token");
    let hash = match token.strip_prefix("sha256:") {
        Some(hash) => hash.to_owned(),
        None => hash(without_pool(token)?),
    };
    api.queue.delete_token(&namespace, &hash).await.map_err(|error| problem("delete the token", error))?;
    api.known.0.lock().remove(&(namespace, hash));
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// The namespace in the path, if the caller may do everything with all of its topics.
fn administered(call: &Call) -> Result<String, Problem> {
    let namespace = namespace(call)?;
    match call.caller.may(Right::Admin, &format!("{namespace}.*")) {
        true => Ok(namespace.to_owned()),
        false => Err(Problem::new(Kind::Forbidden, "invalid token")),
    }
}

/// A token of 160 random bits.
fn random() -> String {
    let mut bytes = [0; 20];
    // Without random numbers from the system no key of TLS could be made either.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    hex::encode(bytes)
}
