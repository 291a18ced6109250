//! The operators' listener of the real binary: the page in a real browser, and the command line through a daemon.

mod browser;
mod clients;
mod command_line;
mod files;
mod fleet;
mod forecast;
mod keyboard;
mod login_proxy;
mod numbers;
mod page;
mod socket;
mod why;
mod with_script;

use redis::AsyncCommands;

use harness::RedisServer;
use harness::daemon::Daemon;

/// Starts a daemon with the operators' listener: `orders` delivers, `evil` is paused and has a payload that is HTML.
pub async fn start(redis: &RedisServer) -> (Daemon, u16) {
    let mut client = redis.client().await;
    let payload = r#"{"id":"e1","note":"</pre><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"}"#;
    let _: () = client.zadd("evil", payload, 9_999_999_999_000_u64).await.expect("schedule an element");
    for n in 0..30 {
        let at = 9_000_000_000_000_u64 + n;
        let _: () = client.zadd("orders", format!(r#"{{"id":"o{n}"}}"#), at).await.expect("schedule an element");
    }
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         orders: {{ source: {{ zset: {{ key: orders, score: ms, id: \"${{payload.id}}\" }} }}, codec: json, to: [{{ sink: out }}] }}\n  \
         evil: {{ source: {{ zset: {{ key: evil, score: ms, id: \"${{payload.id}}\" }} }}, codec: json, to: [{{ sink: out, list: evil_done }}] }}\n",
        redis.url()
    );
    Daemon::start_for_operators(&yaml).await
}
