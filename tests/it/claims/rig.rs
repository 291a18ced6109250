//! A server, a connection of the library to it, and a plain connection for inspection; the test sets the clock of the
//! scripts.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_config::load_str;
use delaybridge_core::template::Template;
use delaybridge_link::{Conn, Link, LinkOptions, Side};
use delaybridge_link::{RedisEndpoint, TEST_CLOCK};
use delaybridge_settings::Secret;
use delaybridge_sink_redis::KeyTarget;
use delaybridge_source::redisson::ListCleanup;
use delaybridge_source::redisson::Redisson;
use redis::aio::MultiplexedConnection;

use harness::{RedisServer, ServerOptions, least};

/// The environment of one test, or of one thread of the random test.
pub struct Rig {
    /// The server, which ends with the rig.
    pub server: RedisServer,
    /// The link for stores.
    pub link: Link,
    /// The connection for the library's wrappers.
    pub conn: Conn,
    /// The connection that reads the keys and plays all other clients.
    pub redis: MultiplexedConnection,
    /// A replica of the server.
    replica: Option<RedisServer>,
}

impl Rig {
    /// Starts a rig on a server without limits.
    pub async fn start() -> Rig {
        Rig::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> Rig {
        let server = RedisServer::start_with(options).await;
        let endpoint = least_rights(&server);
        Rig::over(server, endpoint).await
    }

    /// Starts a rig whose scripts may do anything, more than the library's scripts need.
    pub async fn with_all_rights() -> Rig {
        let server = RedisServer::start().await;
        let endpoint = server.endpoint();
        Rig::over(server, endpoint).await
    }

    /// Starts a rig with all rights, and a replica of its server.
    pub async fn with_replica() -> Rig {
        // Redis 6.2 allows DEBUG without an option.
        let debug = || match ServerOptions::default() {
            options if options.major() < 7 => options,
            options => options.line("enable-debug-command", "yes"),
        };
        let server = RedisServer::start_with(debug()).await;
        let replica = debug().line("replicaof", &format!("127.0.0.1 {}", server.port()));
        let replica = RedisServer::start_with(replica).await;
        let endpoint = server.endpoint();
        let mut rig = Rig::over(server, endpoint).await;
        rig.replica = Some(replica);
        rig
    }

    /// Checks that the replica equals the server.
    pub async fn check_replica(&mut self) {
        let mut replica = self.replica.as_ref().expect("a rig with a replica").client().await;
        let acknowledged: i64 =
            redis::cmd("WAIT").arg(1).arg(30_000).query_async(&mut self.redis).await.expect("wait for the replica");
        assert_eq!(acknowledged, 1, "the replica follows");
        let digest = redis::cmd("DEBUG").arg("DIGEST").to_owned();
        let ours: String = digest.query_async(&mut self.redis).await.expect("a digest");
        let theirs: String = digest.query_async(&mut replica).await.expect("the digest of the replica");
        assert_eq!(ours, theirs, "the replica differs");
    }

    /// Starts a rig as a user with rights that the test sets; first it has all of them.
    pub async fn as_user(name: &str) -> Rig {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let rules = ["on", &format!(">{}", least::PASSWORD.1), "~*", "&*", "+@all"].map(str::to_owned);
        let mut user = redis::cmd("ACL");
        user.arg("SETUSER").arg(name).arg(&rules).exec_async(&mut redis).await.expect("make a user");
        let password = Some(Secret::Literal(least::PASSWORD.1.into()));
        let endpoint = RedisEndpoint { username: Some(name.to_owned()), password, ..server.endpoint() };
        Rig::over(server, endpoint).await
    }

    async fn over(server: RedisServer, endpoint: RedisEndpoint) -> Rig {
        // A longer heartbeat, because the silence of a server that is busy with other work is not tested here.
        let options = LinkOptions { heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
        let link = Link::start(Arc::new(endpoint), options);
        let conn = link.ready().await;
        let redis = server.client().await;
        Rig { server, link, conn, redis, replica: None }
    }

    pub async fn set_clock(&mut self, now_us: i64) {
        redis::pipe()
            .atomic()
            .del(TEST_CLOCK)
            .rpush(TEST_CLOCK, &[now_us / 1_000_000, now_us % 1_000_000])
            .exec_async(&mut self.redis)
            .await
            .unwrap();
    }

    /// The keys of the server with their dumped contents.
    pub async fn dump(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut self.redis).await.unwrap();
        keys.sort();
        let mut all = Vec::new();
        for key in keys {
            let bytes = redis::cmd("DUMP").arg(&key).query_async(&mut self.redis).await.unwrap();
            all.push((key, bytes));
        }
        all
    }

    /// Runs one command, and ignores its result.
    pub async fn run(&mut self, command: &mut redis::Cmd) {
        command.exec_async(&mut self.redis).await.unwrap();
    }
}

/// A login with the rights that the scripts of the queue need, and with access to the clock of the test.
fn least_rights(server: &RedisServer) -> RedisEndpoint {
    let config = load_str(&CONFIG.replace("URL", &server.url()), "model.yaml", &|_| None);
    let mut config = config.unwrap_or_else(|errors| panic!("{errors}")).config;
    // Lists with pushes at both ends, which one queue cannot have.
    let spec = config.queues[0].clone();
    for (list, push) in [("pushed", Side::Left), ("pushed", Side::Right), ("no list", Side::Right)] {
        let mut spec = (*spec).clone();
        let list = Template::compile(list).expect("a text");
        spec.to[0].target = Arc::new(KeyTarget::list(list, push, true));
        // Dead letters are forwarded as well.
        spec.dead_letter_to = Some(Box::new(spec.to[0].clone()));
        config.queues.push(Arc::new(spec));
    }
    let clock = match server.major() {
        ..7 => [format!("~{TEST_CLOCK}"), "+lrange".to_owned()].to_vec(),
        _ => vec![format!("(%R~{TEST_CLOCK} +lrange)")],
    };
    least::endpoint(server.endpoint(), &config, &clock.iter().map(String::as_str).collect::<Vec<_>>())
}

const CONFIG: &str = "
redis: { url: URL }
sinks: { out: { redis: {} } }
queues:
  orders:
    source: { redisson: { name: orders } }
    to: [{ sink: out, list: pushed }]
    dead_letter: { stream: { max_len: 5, allow_loss: true } }
";

/// A daemon's source for the queue, with the test's clock.
pub fn source(name: &str, owner: u8, cleanup: ListCleanup) -> Redisson {
    Redisson::new(name, [owner; 8], true, true, cleanup).on_test_clock()
}
