//! The least rights that a Redis has to grant, as the rules of a user.
//!
//! Connects nowhere and knows no password.

use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::session::ledger;
use delaybridge_ledger::{Activity, FleetRecords, Use, to_share_looks};
use delaybridge_link::rights::{self, Dialect, Grant, Rules};
use delaybridge_link::{RedisEndpoint, RedisTarget};
use delaybridge_model::{Config, Mode, QueueSpec, RouteSpec};
use delaybridge_sink::SinkRedis;
use delaybridge_source::job_pool::to_see_rivals;
use delaybridge_source::redisson::{Keys, to_wake_in_cluster};

/// The purpose of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AclPurpose {
    /// `run` and `check --live`
    Run,
    /// Queues, peek, find, offer, run-now, reschedule, cancel, kill, pause, dead, migrate, recover, restore
    Operator,
}

/// Major versions that differ in what they understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AclVersion {
    /// Redis 6.2
    #[value(name = "6")]
    Six,
    /// Redis 7.0 and newer
    #[value(name = "7")]
    Seven,
}

impl AclVersion {
    fn dialect(self) -> Dialect {
        match self {
            AclVersion::Six => Dialect::Flat,
            AclVersion::Seven => Dialect::Selectors,
        }
    }
}

/// A user on a server, and what it needs there.
#[derive(Debug, Clone)]
pub struct User {
    /// The address and the login of the server.
    pub target: RedisTarget,
    /// The uses of the server.
    pub uses: Vec<String>,
    /// The rights that are needed.
    pub grants: Vec<Grant>,
    /// Whether the server is a sentinel: its user is that of the configuration, whatever it is for.
    pub of_sentinel: bool,
}

impl User {
    /// The rules from nothing, as `ACL SETUSER` takes them behind the name.
    pub fn rules(&self, server: AclVersion) -> Vec<String> {
        let nothing = match server {
            AclVersion::Six => &["on", "resetkeys", "resetchannels", "-@all"][..],
            AclVersion::Seven => &["on", "resetkeys", "resetchannels", "clearselectors", "-@all"],
        };
        let rules = Rules::of(&self.grants, server.dialect());
        nothing.iter().copied().chain(rules.iter()).map(str::to_owned).collect()
    }

    /// Patterns of keys that elements choose.
    fn patterns(&self) -> Vec<String> {
        let mut all: Vec<_> =
            self.grants.iter().flat_map(Grant::patterns).map(|pattern| pattern.glob().to_owned()).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Returns every user that the configuration needs, those of the queues first.
pub fn users(config: &Config, purpose: AclPurpose) -> Vec<User> {
    let mut users: Vec<_> = config.redis.iter().map(|(name, target)| of_redis(config, name, target, purpose)).collect();
    if purpose == AclPurpose::Run {
        of_sinks(config, &mut users);
    }
    let sentinels: Vec<_> = users.iter().flat_map(|user| of_sentinels(&user.target)).collect();
    for sentinel in sentinels {
        let same = |user: &User| user.of_sentinel && user.target.same_servers(&sentinel.target);
        if !users.iter().any(same) {
            users.push(sentinel);
        }
    }
    users
}

/// Returns the users at the sentinels, where these ask for one. Users are not replicated: each sentinel has its own.
fn of_sentinels(target: &RedisTarget) -> Vec<User> {
    let RedisTarget::Sentinel(group) = target else { return Vec::new() };
    let user = |node: &Arc<RedisEndpoint>| User {
        target: RedisTarget::Fixed(node.clone()),
        uses: vec![format!("sentinel of {}", group.master)],
        grants: rights::to_ask_sentinels(),
        of_sentinel: true,
    };
    group.nodes.iter().filter(|node| node.username.is_some()).map(user).collect()
}

/// Adds what the sinks need.
fn of_sinks(config: &Config, users: &mut Vec<User>) {
    for sink in &config.sinks {
        let target = match sink.connector.redis() {
            Some(SinkRedis::OfTheQueues) => config.redis.named(config.redis_of_sink(&sink.name)),
            Some(SinkRedis::Own(target)) => target,
            None => continue,
        };
        // Rights do not know databases, so that one user on one server has those of all.
        let same = |user: &User| {
            user.target.same_servers(target) && user.target.servers().username == target.servers().username
        };
        let user = match users.iter().position(same) {
            Some(at) => &mut users[at],
            None => {
                let target = target.clone();
                let of_sentinel = false;
                users.push(User { target, uses: Vec::new(), grants: Vec::new(), of_sentinel });
                users.last_mut().expect("it was just put there")
            }
        };
        user.uses.push(format!("sink {}", sink.name));
        user.grants.extend(to_connect(target));
        user.grants.push(rights::to_ask_for_rights());
        user.grants.extend(of_sink(config, &sink.name));
    }
}

/// Returns the user for the queues and the jobs in one Redis.
fn of_redis(config: &Config, name: &str, target: &RedisTarget, purpose: AclPurpose) -> User {
    let queues = config.queues_on(name);
    let uses = Vec::new();
    let grants = to_connect(target);
    let mut user = User { target: target.clone(), uses, grants, of_sentinel: false };
    let prefix = &target.servers().key_prefix;
    if !queues.is_empty() {
        user.uses.push("the queues".to_owned());
    }
    user.grants.push(rights::to_load_scripts());
    if config.jobs.is_some() && &*config.jobs_redis == name {
        // The command line does with jobs what the daemon does.
        user.uses.push("jobs".to_owned());
        user.grants.extend(delaybridge_jobs::rights(prefix));
    }
    let operate = |spec: &Arc<QueueSpec>| ledger(spec).rights(Activity::Operate, &Use::default());
    match purpose {
        AclPurpose::Operator => {
            user.grants.extend(queues.iter().flat_map(operate));
            user.grants.extend(has_fleet(config, name).then(|| FleetRecords::rights_to_read(prefix)));
        }
        AclPurpose::Run => {
            user.grants.push(rights::to_ask_for_rights());
            user.grants.extend(queues.iter().flat_map(|spec| of_queue(spec, target.is_cluster())));
            let delivers = queues.iter().any(|spec| spec.mode == Mode::Deliver);
            user.grants.extend(delivers.then(|| to_share_looks(prefix)));
            // What operators ask the daemon for, it does by its own user.
            if config.admin.is_some() {
                user.grants.extend(queues.iter().flat_map(operate));
                user.grants.extend(has_fleet(config, name).then(|| FleetRecords::rights(prefix)));
            }
        }
    }
    user
}

/// Returns whether the records of all daemons are in this Redis: they are in the first.
fn has_fleet(config: &Config, name: &str) -> bool {
    config.redis.iter().next().is_some_and(|(first, _)| &**first == name)
}

/// Returns the rights of every connection.
fn to_connect(target: &RedisTarget) -> Vec<Grant> {
    let slots = target.is_cluster().then(rights::to_follow_slots);
    std::iter::once(rights::to_connect(target.servers().database)).chain(slots).collect()
}

/// Returns the rights that the daemon needs for a queue on the server, or in the cluster, of the queues.
pub(super) fn of_queue(spec: &Arc<QueueSpec>, in_cluster: bool) -> Vec<Grant> {
    let ledger = ledger(spec);
    let mut grants = spec.rights(&ledger);
    let source = ledger.source();
    if source.unannounced().is_some() && !matches!(spec.mode, Mode::Rescue { .. }) {
        grants.push(rights::to_see_clients());
    }
    if let Some(redisson) = spec.source.redisson()
        && (in_cluster && redisson.consume.ready && spec.mode == Mode::Deliver)
    {
        grants.push(to_wake_in_cluster(&Keys::of(&redisson.space, &redisson.name)));
    }
    if spec.source.job_pool().is_some() {
        grants.push(to_see_rivals());
    }
    grants
}

/// Returns the rights of deliveries to a Redis sink. Shadows and rescues deliver nothing.
pub(super) fn of_sink(config: &Config, name: &str) -> Vec<Grant> {
    let prefix = &written_to(config, name).servers().key_prefix;
    let delivering = config.queues.iter().filter(|queue| queue.mode == Mode::Deliver);
    let routes = delivering.flat_map(|queue| queue.routes().map(move |to| (queue, to)));
    let grants = |(queue, to): (&Arc<QueueSpec>, &RouteSpec)| {
        let write = to.target.redis_write();
        write
            .map_or_else(Vec::new, |write| write.grants(&queue.id, queue.order.is_some(), to.looks().then_some(prefix)))
    };
    routes.filter(|(_, to)| *to.sink == *name).flat_map(grants).collect()
}

/// Returns the Redis that this sink writes to, if it is one.
fn written_to<'a>(config: &'a Config, name: &str) -> &'a RedisTarget {
    let sink = config.sinks.iter().find(|sink| *sink.name == *name);
    match sink.and_then(|sink| sink.connector.redis()) {
        Some(SinkRedis::Own(target)) => target,
        Some(SinkRedis::OfTheQueues) | None => config.redis.named(config.redis_of_sink(name)),
    }
}

/// The users of a configuration, as a server takes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Users {
    /// That of the queues first.
    pub users: Vec<UserRules>,
}

/// A user as a server takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserRules {
    /// `host:port/database`.
    pub server: String,
    /// The uses of the server.
    pub uses: Vec<String>,
    /// The user's name.
    pub user: String,
    /// Whether the configuration logs in as this user already.
    pub configured: bool,
    /// The rules from nothing, as `ACL SETUSER` takes them behind the name.
    pub rules: Vec<String>,
    /// Key patterns that more than one key may match, because the elements choose the key.
    pub patterns: Vec<String>,
}

/// Returns the least rights that a configuration needs; `user` replaces the name of the configuration.
pub fn least(config: &Config, purpose: AclPurpose, server: AclVersion, user: Option<&str>) -> Users {
    let row = |found: &User| {
        let configured = found.target.servers().username.as_deref();
        let default = match purpose {
            AclPurpose::Run => configured.unwrap_or("delaybridge"),
            AclPurpose::Operator if found.of_sentinel => configured.unwrap_or("delaybridge"),
            // Never the daemon's: the line would take from it what it needs.
            AclPurpose::Operator => "delaybridge-operator",
        };
        let user = user.unwrap_or(default);
        UserRules {
            server: found.target.address(),
            uses: found.uses.clone(),
            user: user.to_owned(),
            configured: configured == Some(user),
            rules: found.rules(server),
            patterns: found.patterns(),
        }
    };
    Users { users: users(config, purpose).iter().map(row).collect() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use delaybridge_config::load_str;

    fn config(text: &str) -> Config {
        load_str(text, "c.yaml", &|name| (name == "P").then(|| "geheim".into()))
            .unwrap_or_else(|errors| panic!("{errors}"))
            .config
    }

    pub(crate) const TWO_SERVERS: &str = "
redis: { url: 'redis://bridge:${P}@h/3' }
sinks:
  same: { redis: { list: out } }
  other: { redis: { url: 'redis://o:1', stream: 's:${payload.tenant:-x}:${queue}' } }
queues:
  a: { source: { redisson: { name: 'q a', consume: [delayed] } }, codec: json, to: [{ sink: same }, { sink: other }] }
  b: { source: { redisson: { name: b } }, mode: shadow, to: [{ sink: same, list: never }] }
";

    #[test]
    fn every_server_has_a_user_with_what_is_used_there() {
        let config = config(TWO_SERVERS);
        let all = users(&config, AclPurpose::Run);
        let rules = |n: usize| all[n].rules(AclVersion::Seven);
        let uses: Vec<_> = all.iter().map(|user| user.uses.join(", ")).collect();
        assert_eq!(uses, ["the queues, sink same", "sink other"]);
        for rule in [
            "+select",
            "&redisson_delay_queue_channel:{q?a}",
            "(%R~b %R~redisson_delay_queue:{b} +llen +type)",
            "(%W~out +rpush)",
            "(%W~delaybridge:dead:{q?a} +type +xadd +xlen)",
            "(%R~delaybridge:dead:{b} +type +xlen)",
            "(%R~redisson_delay_queue_timeout:{b} +memory|usage +type +zcard +zcount +zrange)",
        ] {
            assert!(rules(0).iter().any(|found| found == rule), "{rule} in {:#?}", rules(0));
        }
        let other = [
            "on",
            "resetkeys",
            "resetchannels",
            "clearselectors",
            "-@all",
            "+acl|dryrun",
            "+acl|whoami",
            "+client|setname",
            "+info",
            "+ping",
            "(%W~s:*:a +xadd)",
        ];
        assert_eq!(rules(1), other);
        assert_eq!(all[1].patterns(), ["s:*:a"]);
        assert!(!rules(0).join(" ").contains("never"), "a shadow delivers nothing");
    }

    #[test]
    fn the_keys_of_a_prefix_are_granted_and_the_marker() {
        let text = TWO_SERVERS
            .replace("h/3' }", "h/3', key_prefix: 'team-a:' }\njobs: {}")
            .replace("{ sink: same }", "{ sink: same, duplicates: look }");
        let config = config(&text);
        let all = users(&config, AclPurpose::Run);
        let rules = all[0].rules(AclVersion::Seven);
        for rule in ["(%W~team-a:dead:{q?a} +type +xadd +xlen)", "(~delaybridge:prefix:{q?a} ~team-a:sent:* +get +set)"]
        {
            assert!(rules.iter().any(|found| found == rule), "{rule} in {rules:#?}");
        }
        for part in ["team-a:sent:*", "team-a:jobs:due:{*}", "&team-a:jobs:wake", "&team-a:presence.3:{q?a}"] {
            assert!(rules.iter().any(|rule| rule.contains(part)), "{part} in {rules:#?}");
        }
        // What is left under the default names is looked for, and nothing is written there but the marker.
        let text = rules.join(" ").replace("%R~delaybridge:", "");
        let written: Vec<_> = text.match_indices("delaybridge:").map(|(at, _)| &text[at..]).collect();
        assert!(matches!(written[..], [only] if only.starts_with("delaybridge:prefix:{q?a} ")), "{written:#?}");
    }

    #[test]
    fn sentinels_with_users_have_one_each() {
        let text = TWO_SERVERS.replace(
            "redis: { url: 'redis://bridge:${P}@h/3' }",
            "redis: { username: bridge, password: '${P}', sentinel: { master: m, nodes: [s1, s2], username: watcher, password: '${P}' } }",
        );
        for purpose in [AclPurpose::Run, AclPurpose::Operator] {
            let least = least(&config(&text), purpose, AclVersion::Seven, None).users;
            let of_sentinels = &least[least.len() - 2..];
            let shown: Vec<_> = of_sentinels.iter().map(|user| (&*user.server, &*user.user, user.configured)).collect();
            assert_eq!(shown, [("s1:26379/0", "watcher", true), ("s2:26379/0", "watcher", true)]);
            let rules = "on resetkeys resetchannels clearselectors -@all &+failover-state-send-slaveof-noone \
                         &+switch-master +ping +sentinel|get-master-addr-by-name +subscribe";
            assert_eq!(of_sentinels[0].rules.join(" "), rules);
            assert_eq!(of_sentinels[0].uses, ["sentinel of m"]);
        }
        // Without a login of their own there is nothing to give.
        let open = config(&text.replace(", username: watcher, password: '${P}'", ""));
        assert!(users(&open, AclPurpose::Run).iter().all(|user| !user.of_sentinel));
    }

    #[test]
    fn an_operator_is_never_the_user_of_the_daemon_unless_it_is_named() {
        let config = config(TWO_SERVERS);
        let check = |purpose, user: Option<&str>, expected: &str| {
            assert_eq!(least(&config, purpose, AclVersion::Seven, user).users[0].user, expected);
        };
        check(AclPurpose::Run, None, "bridge");
        check(AclPurpose::Run, Some("other"), "other");
        check(AclPurpose::Operator, None, "delaybridge-operator");
        check(AclPurpose::Operator, Some("bridge"), "bridge");
    }
}
