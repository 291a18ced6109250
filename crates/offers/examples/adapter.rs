//! The producer in Rust under `delaybridge conformance`: one JSON object a line in, one line out.

use std::time::Duration;

use delaybridge_offers::redis::aio::MultiplexedConnection;
use delaybridge_offers::{Clock, DelayedOffers, Due, Error, Id, Layout, Offer, Payload, Request, redis};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout};

enum Failed {
    /// The producer does not have it.
    Unsupported(&'static str),
    /// Redis or the producer said no.
    Refused(String),
    /// The connection is of no more use: the next operation makes another.
    Lost(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        let text = error.to_string();
        match error {
            // A server that became a replica answers too, and never changes its mind.
            Error::Refused { source, .. } if source.kind() == redis::ServerErrorKind::ReadOnly.into() => {
                Failed::Lost(text)
            }
            Error::Unknown { .. } => Failed::Lost(text),
            _ => Failed::Refused(text),
        }
    }
}

impl From<String> for Failed {
    fn from(text: String) -> Failed {
        Failed::Refused(text)
    }
}

/// The queue that is open.
struct Session {
    opened: Map<String, Value>,
    json: bool,
    offers: Option<DelayedOffers<MultiplexedConnection>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut lines = BufReader::new(stdin()).split(b'\n');
    let mut session = None;
    while let Some(line) = lines.next_segment().await? {
        let operation: Value = serde_json::from_slice(&line)?;
        let mut answer = match run(&mut session, &operation).await {
            Ok(answer) => answer,
            Err(Failed::Unsupported(what)) => json!({"ok": false, "error": what, "unsupported": true}),
            Err(Failed::Refused(error)) => json!({"ok": false, "error": error}),
            Err(Failed::Lost(error)) => {
                session.iter_mut().for_each(|session: &mut Session| session.offers = None);
                json!({"ok": false, "error": error})
            }
        };
        answer["n"] = operation["n"].clone();
        if answer.get("ok").is_none() {
            answer["ok"] = true.into();
        }
        let mut out = stdout();
        out.write_all(format!("{answer}\n").as_bytes()).await?;
        out.flush().await?;
    }
    Ok(())
}

async fn run(session: &mut Option<Session>, operation: &Value) -> Result<Value, Failed> {
    match operation["op"].as_str() {
        Some("open") => return open(session, operation).await,
        Some("close") => {
            *session = None;
            return Ok(json!({}));
        }
        _ => {}
    }
    let session = session.as_mut().ok_or_else(|| "no queue is open".to_owned())?;
    if session.offers.is_none() {
        session.offers = Some(connect(&session.opened).await?);
    }
    let json = session.json;
    let offers = session.offers.as_mut();
    let offers = offers.ok_or_else(|| "no connection".to_owned())?;
    match operation["op"].as_str() {
        Some("offer") => {
            let offer = offers.make(&request(json, operation)?).await?;
            Ok(json!({"offer": offer.to_string()}))
        }
        Some("offer_batch") => {
            let all = operation["offers"].as_array().into_iter().flatten();
            let requests = all.map(|one| request(json, one)).collect::<Result<Vec<_>, _>>()?;
            let made: Vec<String> = offers.make_all(&requests).await?.iter().map(Offer::to_string).collect();
            Ok(json!({"offers": made}))
        }
        Some("cancel") if operation.get("offer").is_some() => {
            let removed = offers.cancel(handle(operation)?).await?;
            Ok(json!({"removed": u64::from(removed)}))
        }
        Some("cancel") => {
            let removed = offers.cancel_all(payload(json, &operation["value"])?).await?;
            Ok(json!({"removed": removed}))
        }
        Some("reschedule") => {
            let offer = handle(operation)?;
            let due_ms = operation["due_ms"].as_i64().ok_or_else(|| "reschedule without due_ms".to_owned())?;
            let moved = offers.reschedule(offer, due_ms).await?;
            Ok(json!({"moved": moved.is_some(), "offer": moved.unwrap_or(offer).to_string()}))
        }
        _ => Err(Failed::Unsupported("no such operation")),
    }
}

async fn open(session: &mut Option<Session>, operation: &Value) -> Result<Value, Failed> {
    if operation.get("cluster").is_some() {
        return Err(Failed::Unsupported("this adapter is for one server, or a Sentinel"));
    }
    let opened = operation.as_object().cloned().unwrap_or_default();
    let offers = connect(&opened).await?;
    *session = Some(Session { opened, json: operation["codec"] == "json", offers: Some(offers) });
    Ok(json!({
        "name": concat!("rust ", env!("CARGO_PKG_VERSION")),
        "features": ["batch", "cancel", "cancel_value", "reschedule", "ids", "clock_redis", "clock_offset"],
        "layout": if layout() == Layout::Old { "old" } else { "current" },
    }))
}

/// The layout: the current one, unless the environment says otherwise.
fn layout() -> Layout {
    if std::env::var("LAYOUT").is_ok_and(|word| word == "old") { Layout::Old } else { Layout::New }
}

async fn connect(opened: &Map<String, Value>) -> Result<DelayedOffers<MultiplexedConnection>, Failed> {
    let text = |field: &str| opened.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let url = match opened.get("sentinel") {
        Some(sentinel) if !sentinel.is_null() => master(sentinel).await?,
        _ => text("redis"),
    };
    let conn = connection(&url).await?;
    let offset = opened.get("clock_offset_ms").and_then(Value::as_i64).unwrap_or(0);
    let clock = if text("clock") == "redis" { Clock::Redis } else { Clock::Corrected(offset) };
    Ok(DelayedOffers::new(conn, &text("queue")).with_clock(clock).with_layout(layout()))
}

async fn connection(url: &str) -> Result<MultiplexedConnection, Failed> {
    let failed = |error: redis::RedisError| Failed::Lost(format!("connect to Redis: {error}"));
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(2)))
        .set_response_timeout(Some(Duration::from_secs(10)));
    let client = redis::Client::open(url).map_err(failed)?;
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)
}

/// The master that the first Sentinel that answers names.
async fn master(sentinel: &Value) -> Result<String, Failed> {
    let name = sentinel["master"].as_str().unwrap_or_default();
    for node in sentinel["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let Ok(mut conn) = connection(&format!("redis://{node}")).await else { continue };
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        if let Ok((host, port)) = ask.query_async::<(String, String)>(&mut conn).await {
            return Ok(format!("redis://{host}:{port}"));
        }
    }
    Err(Failed::Lost(format!("no Sentinel knows the master {name}")))
}

fn request(json: bool, offer: &Value) -> Result<Request, String> {
    let due = match (offer["delay_ms"].as_i64(), offer["due_ms"].as_i64()) {
        (Some(delay), _) => Due::After(Duration::from_millis(u64::try_from(delay).map_err(|_| "a negative delay")?)),
        (None, Some(at)) => Due::At(at),
        (None, None) => return Err("an offer without delay_ms and due_ms".to_owned()),
    };
    let request = Request::new(payload(json, &offer["value"])?, due);
    match offer.get("id").and_then(Value::as_str) {
        Some(id) => Ok(request.with_id(id.parse::<Id>().map_err(|error| error.to_string())?)),
        None => Ok(request),
    }
}

fn payload(json: bool, value: &Value) -> Result<Payload, String> {
    if json {
        return Payload::json(value).map_err(|error| error.to_string());
    }
    value.as_str().map(Payload::from).ok_or_else(|| "a value that is no string, with codec `string`".to_owned())
}

fn handle(operation: &Value) -> Result<Offer, String> {
    operation["offer"].as_str().unwrap_or_default().parse().map_err(|error| format!("read the handle: {error}"))
}
