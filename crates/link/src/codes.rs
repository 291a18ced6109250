//! The error codes of connecting to Redis and of its replies, with causes and cures.

use delaybridge_core::codes::{AGAIN, Code, Codes, DEFECT, code};

/// The error codes of this module, for the reference of errors.
pub const CODES: [Codes; 2] = [
    Codes::of(
        "Connecting to Redis",
        "Reported at `/readyz`, by `check --live`, and once in the log, and tried again until it works. Failures of Redis sinks have these codes too.",
        CONNECTING,
    ),
    Codes::of("Answers of Redis", "Error replies of the queues' server and of Redis sinks.", ANSWERS),
];

const CONNECTING: &[Code] = &[
    code("name", "The host name has no address.", "Check `url` and DNS."),
    code("unreachable", "The connection is refused, or there is no route.", "Check server, host, port and firewalls."),
    code(
        "connect_timeout",
        "No answer within `connect_timeout`.",
        "Check the network and whether the port expects TLS.",
    ),
    code("tls", "A certificate, a protocol version or a file is wrong.", "Correct `tls`; the message names the fault."),
    code("password_file", "The password file cannot be read, or is empty.", "Check path, rights and the first line."),
    code(
        "auth",
        "User or password is wrong or missing.",
        "Correct `username` or `password_file`, which is read at each attempt.",
    ),
    code(
        "refused",
        "The server is at `maxclients`, or in protected mode.",
        "Raise `maxclients`, or give the server's users passwords.",
    ),
    code(
        "NOPERM",
        "The user lacks the right to a command or key.",
        "Grant what `check --live` prints; `delaybridge acl` prints all rights.",
    ),
    code(
        "database",
        "The database number does not exist.",
        "Correct the number in `url`, or `databases` on the server.",
    ),
    code("too_old", "The server is older than 6.2.", "Upgrade the server."),
    code("unsupported_server", "The server is Dragonfly, or KeyDB with active replicas.", "Use Redis or Valkey."),
    code("replica", "The server is a replica, which refuses writes.", "Use an address that follows the master."),
    code("LOADING", "The server is loading its data.", "Wait."),
    code(
        "no_master",
        "The sentinels know no master of this name.",
        "Compare `sentinel.master` with `sentinel monitor` of the sentinels.",
    ),
    code("server", "Another answer to the login.", "The message quotes the server."),
];

const ANSWERS: &[Code] = &[
    code("ERR", "An error without a code of its own.", "The message quotes the server."),
    code(
        "OOM",
        "The server is at `maxmemory` and refuses writes.",
        "Give it memory, or remove data. Meanwhile elements are only removed.",
    ),
    code("BUSY", "A client's script runs for too long.", "Find it; `SCRIPT KILL` ends one that has written nothing."),
    code("TRYAGAIN", "The cluster is moving this slot.", "Nothing: the queue waits, and no attempt is counted."),
    code("CLUSTERDOWN", "The cluster does not serve this slot.", "Fix the cluster."),
    code("MASTERDOWN", "The link to the master is down.", "Fix the replication."),
    code("NOREPLICAS", "There are fewer replicas than `min-replicas-to-write`.", "Bring the replicas back."),
    code("READONLY", "The server became a replica.", "Use an address that follows the master."),
    code(
        "MOVED",
        "The key belongs to another node of a cluster.",
        "In a cluster, nothing; if it lasts, check that the node can be reached. With `url`, write `cluster` instead.",
    ),
    code(
        "ASK",
        "The key is moving to another node of a cluster.",
        "In a cluster, nothing. With `url`, write `cluster` instead.",
    ),
    code("NOSCRIPT", "The server forgot the scripts (a restart, `SCRIPT FLUSH`).", "Nothing: they are loaded again."),
    code(
        "WRONGTYPE",
        "The destination's key has another type.",
        "Rename the key of the other program, or the destination.",
    ),
    code("WRONGKEY", "A key of the queue has another type.", "Check `source.redisson.name`. Nothing was changed."),
    code("NOAUTH", "The server requires a password, and none is configured.", "Set `password_file`."),
    code("WRONGPASS", "The password is wrong.", "Correct the password."),
    code("CROSSSLOT", "Keys of a command are in different slots.", "Give destination and queue the same hash tag."),
    code("EXECABORT", "A transaction was aborted.", DEFECT),
    code("NOPROTO", "The server does not speak this version of the protocol.", "Upgrade the server."),
    code("NOTBUSY", "There is no script to kill.", DEFECT),
    code("MISCONF", "The server cannot save to its disk and refuses writes.", "Fix its disk; see its log."),
    code("UNKILLABLE", "A script that has written cannot be killed.", "Wait, or `SHUTDOWN NOSAVE`."),
    code("UNBLOCKED", "A blocking command was ended.", AGAIN),
    code("DENIED", "Protected mode refuses the connection.", "Set a password or `bind` on the server."),
    code("BUSYKEY", "The key exists already.", DEFECT),
    code("BUSYGROUP", "The consumer group exists already.", DEFECT),
    code("NOGROUP", "There is no such consumer group.", DEFECT),
    code("OTHER", "A code of Redis or AMQP that this version does not know.", "The message quotes the server."),
];
