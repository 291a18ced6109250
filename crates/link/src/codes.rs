//! The error codes of connecting to Redis and of its replies, with causes and cures.

use delaybridge_core::codes::{AGAIN, Code, Codes, DEFECT, code};

/// The error codes of this module, for the reference of errors.
pub const CODES: [Codes; 2] = [
    Codes::of(
        "Connecting to Redis",
        "Reported at `/readyz`, by `check --live`, and once in the log. The connection is tried again until it \
         works. For a Redis sink they are codes of its failures as well.",
        CONNECTING,
    ),
    Codes::of(
        "Answers of Redis",
        "Error replies to commands and scripts, of the queues' server and of Redis sinks.",
        ANSWERS,
    ),
];

const CONNECTING: &[Code] = &[
    code("name", "The host name has no address.", "Check `url` and the DNS."),
    code(
        "unreachable",
        "The connection is refused, or there is no route.",
        "Check host, port and firewalls, and that the server runs.",
    ),
    code(
        "connect_timeout",
        "No answer within `connect_timeout`.",
        "Check the network, and whether the port expects TLS.",
    ),
    code(
        "tls",
        "A certificate, a protocol version or a file is wrong.",
        "The message names it. See `tls` in the configuration.",
    ),
    code(
        "password_file",
        "The password file cannot be read, or is empty.",
        "Check path and rights. The first line is the password.",
    ),
    code(
        "auth",
        "The user or the password is wrong or missing.",
        "Check `username` and `password_file`. A corrected file is read at the next attempt.",
    ),
    code(
        "refused",
        "The server lets nobody in: it has as many clients as `maxclients` allows, or is in protected mode.",
        "The message names which. Raise `maxclients` or end other clients; give the users of the server passwords.",
    ),
    code(
        "NOPERM",
        "The user lacks the right to a command, or to this key.",
        "`check --live` prints the missing `ACL SETUSER` rules, `delaybridge acl` all of them.",
    ),
    code("database", "The database number does not exist.", "Check the number in `url` and `databases` on the server."),
    code("too_old", "The server is older than 6.2.", "Upgrade the server."),
    code(
        "unsupported_server",
        "The server is Dragonfly, or KeyDB with active replicas.",
        "Use Redis or Valkey. The message has the reason.",
    ),
    code(
        "replica",
        "The server is a replica, which refuses writes.",
        "Use the master's address, or an address that follows it.",
    ),
    code("LOADING", "The server is loading its data.", "Wait until it is done."),
    code(
        "no_master",
        "The sentinels know no master of this name.",
        "Check `sentinel.master`, and `sentinel monitor` in the configuration of the sentinels.",
    ),
    code("server", "The server answered the login with another error.", "The message quotes the server."),
];

const ANSWERS: &[Code] = &[
    code("ERR", "An error without a code of its own.", "The message quotes the server."),
    code(
        "OOM",
        "The server is at `maxmemory` and refuses writes.",
        "Give it more memory, or remove data. delaybridge only removes elements meanwhile.",
    ),
    code(
        "BUSY",
        "A script of a client has run for too long.",
        "Find it. `SCRIPT KILL` ends a script that has written nothing.",
    ),
    code(
        "TRYAGAIN",
        "The cluster is moving this slot.",
        "Nothing: the queue waits until the slot has moved, and no attempt is counted.",
    ),
    code("CLUSTERDOWN", "The cluster does not serve this slot.", "Fix the cluster."),
    code("MASTERDOWN", "The link to the master is down.", "Fix the replication."),
    code("NOREPLICAS", "There are fewer replicas than `min-replicas-to-write`.", "Bring the replicas back."),
    code("READONLY", "The server became a replica.", "After a fail-over, use an address that follows the master."),
    code(
        "MOVED",
        "The key belongs to another node of a cluster.",
        "In a cluster, nothing: the command is sent to that node; check that it can be reached if this lasts. With `url`, write `cluster` instead.",
    ),
    code(
        "ASK",
        "The key is moving to another node of a cluster.",
        "In a cluster, nothing: the command is sent to that node. With `url`, write `cluster` instead.",
    ),
    code("NOSCRIPT", "The server forgot the scripts (a restart, `SCRIPT FLUSH`).", "Nothing: they are loaded again."),
    code(
        "WRONGTYPE",
        "The key has another type than the destination needs.",
        "Another program uses the name: rename the key or the destination.",
    ),
    code(
        "WRONGKEY",
        "A key of the queue has another type.",
        "Check `source.redisson.name`. The key of another program was not changed.",
    ),
    code("NOAUTH", "The server requires a password, and none is configured.", "Set `password_file`."),
    code("WRONGPASS", "The password is wrong.", "Correct the password."),
    code(
        "CROSSSLOT",
        "Keys of one command are in different slots of a cluster.",
        "Give destination and queue the same hash tag.",
    ),
    code("EXECABORT", "A transaction was aborted.", DEFECT),
    code("NOPROTO", "The server does not speak this version of the protocol.", "Upgrade the server."),
    code("NOTBUSY", "There is no script to kill.", DEFECT),
    code("MISCONF", "The server cannot save to its disk and refuses writes.", "Fix its disk. See its log."),
    code("UNKILLABLE", "A script that has written cannot be killed.", "Wait for it, or `SHUTDOWN NOSAVE`."),
    code("UNBLOCKED", "A blocking command was ended.", AGAIN),
    code("DENIED", "Protected mode refuses the connection.", "Set a password or `bind` on the server."),
    code("BUSYKEY", "The key exists already.", DEFECT),
    code("BUSYGROUP", "The consumer group exists already.", DEFECT),
    code("NOGROUP", "There is no such consumer group.", DEFECT),
    code("OTHER", "A code that this version does not know, of Redis or AMQP.", "The message quotes the server."),
];
