//! Another connection than the configuration's, and secrets that a command does not need.

use redis::AsyncCommands;

use super::ask;
use harness::daemon::ConfigFile;
use harness::{RedisServer, RedissonQueue, ports};

#[tokio::test]
async fn a_command_needs_no_secret_but_that_of_redis() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    RedissonQueue::new("orders").offer(&mut redis, 4_000_000_000_000, "hello").await;
    let config = ConfigFile::new(&format!(
        "http: none\nredis: {{ url: {} }}\nsinks:\n  events: {{ kafka: {{ brokers: [k:9092], sasl: {{ mechanism: PLAIN, username: u, \
         password_file: /nowhere/kafka }}, tls: {{ ca_file: /nowhere/ca.pem }} }} }}\n  shop: {{ amqp: {{ url: \
         'amqp://u:${{NO_SUCH_PASSWORD}}@r/v' }} }}\n  js: {{ nats: {{ servers: [n], credentials_file: /nowhere/nats }} }}\n  hook: {{ http: {{ url: 'https://h', signature: \
         {{ secret_file: /nowhere/hook }} }} }}\nqueues:\n  orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: \
         events, topic: t }}, {{ sink: shop, exchange: e, routing_key: k }}, {{ sink: js, subject: s }}, {{ sink: hook }}] }}\n",
        server.url()
    ));
    for line in [
        "queues",
        "peek orders",
        "dead ls orders",
        "dead count orders",
        "find orders --field a=b",
        "acl --for operator",
    ] {
        ask(&config, line).well();
    }
    let row = ask(&config, "queues").well();
    assert!(row.contains("deliver  events, shop, js, hook") && row.contains("DAEMONS"), "{row}");
    let check = ask(&config, "check");
    assert!(
        check.code == 2 && check.out.contains("/nowhere/kafka") && check.out.contains("NO_SUCH_PASSWORD"),
        "{}",
        check.out
    );
    // CI has none of them, nor those of Redis and of inputs; what is wrong with the rest is still found.
    let secrets = ask(&config, "check --without-secrets").well();
    assert!(
        secrets.contains("can be run") && secrets.contains("Secrets and certificates were not looked at"),
        "{secrets}"
    );
    let file = |lease: &str| {
        format!(
            "http: {{ admin: {{ listen: '127.0.0.1:1', tokens_file: /nowhere/tokens }} }}\n\
             redis: {{ url: 'redis://${{NO_SUCH_HOST}}:6379', password_file: /nowhere/redis }}\njobs: {{}}\n\
             inputs: {{ in: {{ amqp: {{ url: 'amqp://u:${{NO_SUCH_PASSWORD}}@r', queue: a }}, topic: t }} }}\n\
             sinks: {{ out: {{ stdout: {{}} }} }}\n\
             queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, lease: {lease}, to: [{{ sink: out }}] }} }}\n"
        )
    };
    let path = config.write("elsewhere.yaml", &file("30s"));
    ask(&config, &format!("check --without-secrets --config {}", path.display())).well();
    let path = config.write("wrong.yaml", &file("soon"));
    let wrong = ask(&config, &format!("check --without-secrets --config {}", path.display()));
    assert!(wrong.code == 2 && wrong.out.contains("lease") && !wrong.out.contains("/nowhere"), "{}", wrong.out);
    // Settings that name a queue are needed by every command.
    let broken = config.write(
        "broken.yaml",
        "redis: { url: 'redis://h' }\nsinks: { out: { stdout: {} } }\nqueues: { q: { source: \
         { redisson: { name: '${NO_SUCH_NAME}' } }, to: [{ sink: out }] } }\n",
    );
    ask(&config, &format!("queues --config {}", broken.display())).failed(2, &["NO_SUCH_NAME is not set"]);
}

#[tokio::test]
async fn an_operator_has_another_address_and_another_login() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    RedissonQueue::new("orders").offer(&mut redis, 4_000_000_000_000, "hello").await;
    let yaml = |url: &str| {
        format!(
            "http: none\nredis: {{ url: {url}, password_file: /nowhere/redis }}\nsinks: {{ out: {{ stdout: {{}} }} }}\nqueues: {{ \
             orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }} }}\n"
        )
    };
    let dead = format!("redis://127.0.0.1:{}", ports::free_port());
    let config = ConfigFile::new(&yaml(&dead));
    let password = config.write("password", "geheim\n");
    let rules = ask(&config, "acl --for operator --user ann --redis-url redis://h --output json").json();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("ann").arg(">geheim");
    rules["users"][0]["rules"].as_array().unwrap().iter().for_each(|rule| {
        user.arg(rule.as_str().unwrap());
    });
    user.exec_async(&mut redis).await.unwrap();

    ask(&config, "queues").failed(2, &["/nowhere/redis"]);
    let login = format!("--username ann --password-file {}", password.display());
    let line = format!("queues --redis-url {} {login}", server.url());
    assert!(ask(&config, &line).well().contains("orders  "));
    let config = ConfigFile::new(&yaml(&server.url()));
    assert!(ask(&config, &format!("peek orders {login}")).well().contains("hello"));
    let empty = config.write("empty", "\n");
    ask(&config, &format!("peek orders --password-file {}", empty.display())).failed(2, &["its first line is empty"]);
    let scheduled: i64 = redis.zcard(RedissonQueue::new("orders").timeouts).await.unwrap();
    assert_eq!(scheduled, 1);
}
