//! The error replies of real servers, as callers of the link see them: each server is brought into each state, and
//! asked by a command, by a script, and by a script that returns a caught error.

use std::sync::Arc;

use delaybridge_link::RedisEndpoint;
use delaybridge_link::{Conn, ConnectErrorKind, Link, LinkError, LinkOptions, LinkState, server_code};
use delaybridge_settings::Secret;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value, cmd};

use super::{PATIENCE, on_each};
use harness::servers::Version;
use harness::{RedisServer, eventually};

/// A script's treatment of an error.
#[derive(Clone, Copy)]
enum Way {
    /// `redis.call`: the script ends with it.
    Call,
    /// `redis.pcall`: the script returns it.
    Caught,
    /// `error`: the script ends with the caught error as text.
    Thrown,
}

const WAYS: [Way; 3] = [Way::Call, Way::Caught, Way::Thrown];

/// A script that runs a command on a key, which it declares or hides.
fn script(way: Way, declared: bool, key: &str, words: &[&str]) -> Cmd {
    let name = if declared { "KEYS[1]".to_owned() } else { format!("'{key}'") };
    let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let (command, rest) = words.split_first().expect("a command");
    let arguments: Vec<_> = [command.clone(), name].into_iter().chain(rest.iter().cloned()).collect();
    let text = match way {
        Way::Call => format!("return redis.call({})", arguments.join(", ")),
        Way::Caught => format!("return redis.pcall({})", arguments.join(", ")),
        Way::Thrown => format!("local r = redis.pcall({}) if r.err then error(r.err) end", arguments.join(", ")),
    };
    let mut eval = cmd("EVAL");
    eval.arg(text);
    if declared {
        eval.arg(1).arg(key)
    } else {
        eval.arg(0)
    };
    eval
}

fn command(key: &str, words: &[&str]) -> Cmd {
    let mut command = cmd(words[0]);
    command.arg(key).arg(&words[1..]);
    command
}

/// A server, the link's connection to it, and one that changes its state.
struct Asked {
    version: Version,
    server: RedisServer,
    admin: MultiplexedConnection,
    /// The link, which keeps `conn` open.
    _link: Link,
    conn: Conn,
}

async fn connect(endpoint: RedisEndpoint) -> (Link, Conn) {
    // The link's own commands are refused too, and would make it disconnect.
    let options = LinkOptions { heartbeat: PATIENCE, ..LinkOptions::default() };
    let link = Link::start(Arc::new(endpoint), options);
    let conn = link.ready().await;
    (link, conn)
}

impl Asked {
    async fn start(version: Version) -> Asked {
        let options = version.options();
        // Redis 6.2 allows this without an option.
        let options = match options.major() {
            ..7 => options,
            _ => options.line("enable-debug-command", "yes").line("enable-protected-configs", "yes"),
        };
        let server = RedisServer::start_with(options.line("rdbcompression", "no")).await;
        let admin = server.client().await;
        let (link, conn) = connect(server.endpoint()).await;
        Asked { version, server, admin, _link: link, conn }
    }

    async fn set(&mut self, parameter: &str, value: &str) {
        self.run(cmd("CONFIG").arg("SET").arg(parameter).arg(value)).await;
    }

    async fn run(&mut self, command: &Cmd) {
        command.exec_async(&mut self.admin).await.unwrap_or_else(|e| panic!("{}: {command:?}: {e}", self.version.name));
    }

    /// Checks that the answer to this command is an error with this code.
    async fn refused(&self, conn: &Conn, what: &str, command: &Cmd, code: &str) {
        let name = self.version.name;
        match conn.query::<Value>(command).await {
            Err(LinkError::Server { code: got, message }) => {
                assert!(!message.contains("secret"), "{name}: {what}: the payload: {message}");
                assert_eq!(got, code, "{name}: {what}: {message}");
            }
            other => panic!("{name}: {what}: {other:?}"),
        }
    }

    /// Checks that the command, and every script that runs it, are refused with this code.
    async fn refused_in_every_way(&self, conn: &Conn, what: &str, key: &str, words: &[&str], code: &str) {
        self.refused(conn, what, &command(key, words), code).await;
        for way in WAYS {
            self.refused(conn, what, &script(way, true, key, words), code).await;
        }
    }

    async fn as_user(&mut self, rules: &[&str]) -> (Link, Conn) {
        self.run(cmd("ACL").arg("SETUSER").arg("least").arg(&["reset", "on", ">secret"]).arg(rules)).await;
        let password = Some(Secret::Literal("secret".into()));
        connect(RedisEndpoint { username: Some("least".to_owned()), password, ..self.server.endpoint() }).await
    }

    async fn types(&mut self) {
        self.run(cmd("SET").arg("text").arg("x")).await;
        self.refused_in_every_way(&self.conn, "another type", "text", &["ZADD", "1", "a"], "WRONGTYPE").await;
        self.refused(&self.conn, "ours", cmd("EVAL").arg("return redis.error_reply('WRONGKEY x')").arg(0), "WRONGKEY")
            .await;
        self.refused(&self.conn, "a defect", cmd("EVAL").arg("local x return x.y").arg(0), "ERR").await;
        self.refused(&self.conn, "no such script", cmd("EVALSHA").arg("0".repeat(40)).arg(0), "NOSCRIPT").await;
        self.refused(&self.conn, "no such command", &command("a", &["NOSUCH", "secret"]), "ERR").await;
        for way in WAYS {
            self.refused(&self.conn, "no such command", &script(way, true, "a", &["NOSUCH", "secret"]), "ERR").await;
        }
    }

    async fn rights(&mut self) {
        let (_link, conn) = self.as_user(&["~a*", "resetchannels", "&a*", "+@all", "-zadd"]).await;
        self.refused_in_every_way(&conn, "a command", "a", &["ZADD", "1", "x"], "NOPERM").await;
        self.refused_in_every_way(&conn, "a key", "b", &["SET", "1"], "NOPERM").await;
        for way in WAYS {
            self.refused(&conn, "a hidden key", &script(way, false, "b", &["SET", "1"]), "NOPERM").await;
            self.refused(&conn, "a channel", &script(way, false, "b", &["PUBLISH", "1"]), "NOPERM").await;
        }
        self.refused(&conn, "a channel", &command("b", &["PUBLISH", "1"]), "NOPERM").await;
        let (_link, conn) = self.as_user(&["~*", "+@all", "-@scripting"]).await;
        self.refused(&conn, "scripts", &script(Way::Call, true, "a", &["GET"]), "NOPERM").await;
    }

    async fn states(&mut self) {
        let write = ["SET", "1"];
        self.set("maxmemory", "1").await;
        self.refused_in_every_way(&self.conn, "full", "a", &write, "OOM").await;
        self.set("maxmemory", "0").await;

        self.set("min-replicas-to-write", "1").await;
        self.refused(&self.conn, "no replica", &command("a", &write), "NOREPLICAS").await;
        // 6.2.5 does not refuse a script without its replicas.
        if self.server.major() >= 7 {
            self.refused_in_every_way(&self.conn, "no replica", "a", &write, "NOREPLICAS").await;
        }
        self.set("min-replicas-to-write", "0").await;

        // A file with this name cannot be written.
        self.set("dbfilename", ".").await;
        self.set("save", "3600 1").await;
        self.run(&cmd("BGSAVE")).await;
        let redis = self.admin.clone();
        eventually("the snapshot to fail", PATIENCE, async || {
            let info: String =
                cmd("INFO").arg("persistence").query_async(&mut redis.clone()).await.map_err(|e| e.to_string())?;
            if info.contains("rdb_last_bgsave_status:err") { Ok(()) } else { Err(info) }
        })
        .await;
        self.refused_in_every_way(&self.conn, "a full disk", "a", &write, "MISCONF").await;
        self.set("save", "").await;
        self.set("dbfilename", "dump.rdb").await;
    }

    /// Sends `busy` on a connection of its own, and asks until the answer is this error.
    async fn meanwhile(&mut self, busy: Cmd, code: &str) {
        let mut other = self.server.client().await;
        let work = tokio::spawn(async move { busy.query_async::<Value>(&mut other).await });
        let ask = script(Way::Call, true, "a", &["GET"]);
        eventually(code, PATIENCE, async || match self.conn.query::<Value>(&ask).await {
            Err(error) if error.code() == Some(code) => Ok(()),
            other if work.is_finished() => panic!("{}: never {code}: {other:?}", self.version.name),
            other => Err(format!("{other:?}")),
        })
        .await;
        if code == "BUSY" {
            self.run(cmd("SCRIPT").arg("KILL")).await;
        }
        let end = work.await.expect("a task that ends");
        assert_eq!(end.is_err(), code == "BUSY", "{end:?}");
    }

    async fn busy(&mut self) {
        self.set("lua-time-limit", "5").await;
        self.meanwhile(cmd("EVAL").arg("while true do end").arg(0).to_owned(), "BUSY").await;
        self.refused(&self.conn, "no script", cmd("SCRIPT").arg("KILL"), "NOTBUSY").await;
        // Enough data for a check of its clients during the load, which it makes every 2 MB.
        self.run(cmd("DEBUG").arg("POPULATE").arg(10).arg("large").arg(1_000_000)).await;
        self.set("key-load-delay", "100000").await;
        self.meanwhile(cmd("DEBUG").arg("RELOAD").to_owned(), "LOADING").await;
        self.set("key-load-delay", "0").await;
        self.run(&cmd("FLUSHALL")).await;
    }

    /// Checks an error by a connection of the test, because the link disconnects from a server with such an answer.
    async fn leaves(&self, what: &str, command: &Cmd, code: &str) {
        let answer = command.query_async::<Value>(&mut self.admin.clone()).await;
        let error = answer.expect_err(what);
        let (got, message) = server_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default());
        assert_eq!(got, code, "{}: {what}: {message}", self.version.name);
    }

    async fn demoted(&mut self) {
        self.set("replica-serve-stale-data", "yes").await;
        self.run(cmd("REPLICAOF").arg("127.0.0.1").arg(1)).await;
        self.leaves("a replica", &command("a", &["SET", "1"]), "READONLY").await;
        for way in WAYS {
            self.leaves("a replica", &script(way, true, "a", &["SET", "1"]), "READONLY").await;
        }
        self.set("replica-serve-stale-data", "no").await;
        self.leaves("without its master", &command("a", &["GET"]), "MASTERDOWN").await;
        self.leaves("without its master", &script(Way::Call, true, "a", &["GET"]), "MASTERDOWN").await;
        let link = Link::start(Arc::new(self.server.endpoint()), LinkOptions::default());
        let mut state = link.state();
        let state = state.wait_for(|state| matches!(state, LinkState::Connecting { last_error: Some(_), .. }));
        let state =
            tokio::time::timeout(PATIENCE, state).await.expect("an attempt that fails").expect("a link").clone();
        let LinkState::Connecting { last_error: Some(error), .. } = state else { unreachable!("waited for it") };
        assert_eq!(error.kind, ConnectErrorKind::Replica, "{}: {error}", self.version.name);
    }
}

#[tokio::test]
async fn every_error_has_its_code_in_the_words_of_every_version() {
    on_each(async |version| {
        let mut asked = Asked::start(version).await;
        asked.types().await;
        asked.rights().await;
        asked.states().await;
        asked.busy().await;
        asked.demoted().await;
    })
    .await;
}
