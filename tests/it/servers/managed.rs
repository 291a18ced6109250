//! Managed services disable commands by renaming them: the daemon must not need one.

use super::matrix::main_job;
use crate::http::receiver::Receiver;
use harness::servers::ALL;
use harness::{RedisServer, ServerOptions};

/// The commands that ElastiCache, MemoryDB, Memorystore, Azure, Aiven or OCI disable, and others that may follow.
const OFF: [&str; 21] = [
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "DEBUG",
    "FAILOVER",
    "LASTSAVE",
    "LATENCY",
    "MIGRATE",
    "MODULE",
    "MONITOR",
    "PSYNC",
    "REPLICAOF",
    "ROLE",
    "SAVE",
    "SHUTDOWN",
    "SLAVEOF",
    "SWAPDB",
    "SYNC",
];

fn switched_off(options: ServerOptions, commands: &[&str]) -> ServerOptions {
    commands
        .iter()
        .fold(options, |options, command| options.line("rename-command", &format!("{command} off-{command}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_needs_what_managed_services_switch_off() {
    for version in [ALL[1], ALL[4]] {
        // Users in its configuration, because there is no ACL command to create one.
        let options = switched_off(version.options(), &OFF).acl_user("operator on nopass ~* &* +@all");
        let server = RedisServer::start_with(options).await;
        let receiver = Receiver::start(&["h2"]).await;
        main_job(&server, &receiver, version.name).await;
    }
}
