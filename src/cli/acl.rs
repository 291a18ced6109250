//! `acl`: the least that a Redis has to allow, as the rules of a user.
//!
//! Connects nowhere and knows no password: whoever may change users runs the line.

use std::io::Write;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::session::Queue;
use super::{Failed, Global, Output, load};
use crate::config::{Config, Mode, QueueSpec, RedisEndpoint, SinkKind};
use crate::link::rights::{self, Dialect, Grant, Rules};
use crate::sink::redis::to_deliver;

/// Print the least rights in Redis that this configuration needs, as `ACL SETUSER`.
///
/// Exactly the keys, channels and commands that are used, for each server that the configuration names. The line sets no
/// password and takes none away: a new user has none, and cannot log in until it has one
/// (`ACL SETUSER delaybridge >PASSWORD`). Sent again after a change of the configuration it leaves nothing of the old
/// rights. Nothing is connected to.
///
/// configuration -> commands, keys, channels -> ACL SETUSER
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct AclArgs {
    /// What the user is for: `run` and `check --live`, or a person's commands at the queues (queues, peek, offer, cancel,
    /// dead, migrate, restore)
    #[arg(long = "for", value_enum, value_name = "WHAT", default_value_t = Purpose::Run)]
    pub purpose: Purpose,
    /// The major version of the server. 6 knows no selectors, so that there every command may be run on every key of the
    /// configuration
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = Server::Seven)]
    pub redis: Server,
    /// The user's name; else that of the configuration (without one: delaybridge), and delaybridge-operator for an operator
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

const AFTER: &str = "\
Examples:
  delaybridge acl
  delaybridge acl | grep ^ACL | redis-cli                 as a user who may change users
  delaybridge acl --for operator
  delaybridge acl --output json

Key patterns with a * stand for keys that the elements choose (a template in `list` or `stream`); a comment names them.";

/// What a user is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    /// The daemon, and `check --live` with its configuration.
    Run,
    /// A person's commands at the queues.
    Operator,
}

/// Major versions that differ in what they understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// Redis 6.2.
    #[value(name = "6")]
    Six,
    /// Redis 7.0 and newer.
    #[value(name = "7")]
    Seven,
}

impl Server {
    fn dialect(self) -> Dialect {
        match self {
            Server::Six => Dialect::Flat,
            Server::Seven => Dialect::Selectors,
        }
    }
}

/// A user on a server, and what it needs there.
#[derive(Debug, Clone)]
pub struct User {
    /// How the server is reached.
    pub endpoint: Arc<RedisEndpoint>,
    /// What it is there for.
    pub uses: Vec<String>,
    /// What it needs.
    pub grants: Vec<Grant>,
}

impl User {
    /// Its rules from nothing, as `ACL SETUSER` takes them behind the name.
    pub fn rules(&self, server: Server) -> Vec<String> {
        let nothing = match server {
            Server::Six => &["on", "resetkeys", "resetchannels", "-@all"][..],
            Server::Seven => &["on", "resetkeys", "resetchannels", "clearselectors", "-@all"],
        };
        let rules = Rules::of(&self.grants, server.dialect());
        nothing.iter().copied().chain(rules.iter()).map(str::to_owned).collect()
    }

    /// Key patterns that more than one key may match.
    fn patterns(&self) -> Vec<String> {
        let mut all: Vec<_> =
            self.grants.iter().flat_map(Grant::patterns).map(|pattern| pattern.glob().to_owned()).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Every user that the configuration needs, that of the queues first.
pub fn users(config: &Config, purpose: Purpose) -> Vec<User> {
    let mut source = User { endpoint: config.redis.clone(), uses: vec!["the queues".to_owned()], grants: Vec::new() };
    source.grants = vec![rights::to_connect(config.redis.database), rights::to_load_scripts()];
    if purpose == Purpose::Operator {
        let queues = config.queues.iter().flat_map(|spec| Queue::of(spec.clone()).redisson.to_operate());
        source.grants.extend(queues);
        return vec![source];
    }
    source.grants.push(rights::to_ask_for_rights());
    for spec in &config.queues {
        source.grants.extend(of_queue(spec));
    }
    let mut users = vec![source];
    for sink in &config.sinks {
        let SinkKind::Redis { endpoint } = &sink.kind else { continue };
        let endpoint = endpoint.as_ref().unwrap_or(&config.redis);
        // Rights do not know databases, so that one user on one server has those of all.
        let same = |user: &User| {
            user.endpoint.host == endpoint.host
                && user.endpoint.port == endpoint.port
                && user.endpoint.username == endpoint.username
        };
        let user = match users.iter().position(same) {
            Some(at) => &mut users[at],
            None => {
                users.push(User { endpoint: endpoint.clone(), uses: Vec::new(), grants: Vec::new() });
                users.last_mut().expect("it was just put there")
            }
        };
        user.uses.push(format!("sink {}", sink.name));
        user.grants.extend([rights::to_connect(endpoint.database), rights::to_ask_for_rights()]);
        user.grants.extend(of_sink(config, &sink.name));
    }
    users
}

/// What the daemon needs for a queue on the server of the queues.
pub(super) fn of_queue(spec: &Arc<QueueSpec>) -> Vec<Grant> {
    let mut grants = Queue::of(spec.clone()).redisson.to_run(spec);
    if spec.consume_ready && !matches!(spec.mode, Mode::Rescue { .. }) {
        grants.push(rights::to_see_clients());
    }
    grants
}

/// What deliveries to a Redis sink need. Shadows and rescues deliver nothing.
pub(super) fn of_sink(config: &Config, name: &str) -> Vec<Grant> {
    let delivering = config.queues.iter().filter(|queue| queue.mode == Mode::Deliver);
    let routes = delivering.flat_map(|queue| queue.to.iter().chain(&queue.dead_letter_to).map(move |to| (queue, to)));
    routes.filter(|(_, to)| *to.sink == *name).filter_map(|(queue, to)| to_deliver(&to.target, &queue.id)).collect()
}

pub(super) fn run(global: &Global, args: &AclArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let config = load(global)?.config;
    let users = users(&config, args.purpose);
    match global.output {
        Output::Json => writeln!(out, "{:#}", Value::from_iter(users.iter().map(|user| json(user, args))))?,
        Output::Text => users.iter().try_for_each(|user| text(user, args, out))?,
    }
    Ok(0)
}

fn name<'a>(user: &'a User, args: &'a AclArgs) -> &'a str {
    let default = match args.purpose {
        Purpose::Run => user.endpoint.username.as_deref().unwrap_or("delaybridge"),
        // Never the daemon's: the line would take from it what it needs.
        Purpose::Operator => "delaybridge-operator",
    };
    args.user.as_deref().unwrap_or(default)
}

fn text(user: &User, args: &AclArgs, out: &mut dyn Write) -> Result<(), Failed> {
    let name = name(user, args);
    writeln!(out, "# {}: {}", user.endpoint.address(), user.uses.join(", "))?;
    if user.endpoint.username.as_deref() != Some(name) {
        writeln!(out, "# Whoever logs in so has `username: {name}` and a password in the configuration.")?;
    }
    for pattern in user.patterns() {
        writeln!(out, "# Elements choose the key: the rule allows every key like {pattern}")?;
    }
    writeln!(out, "ACL SETUSER {name} {}", user.rules(args.redis).join(" "))?;
    Ok(())
}

fn json(user: &User, args: &AclArgs) -> Value {
    json!({
        "server": user.endpoint.address(),
        "uses": user.uses,
        "user": name(user, args),
        "rules": user.rules(args.redis),
        "patterns": user.patterns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_str;

    fn config(text: &str) -> Config {
        load_str(text, "c.yaml", &|_| Some("geheim".to_owned())).unwrap_or_else(|errors| panic!("{errors}")).config
    }

    const TWO_SERVERS: &str = "
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
        let all = users(&config, Purpose::Run);
        let rules = |n: usize| all[n].rules(Server::Seven);
        let uses: Vec<_> = all.iter().map(|user| user.uses.join(", ")).collect();
        assert_eq!(uses, ["the queues, sink same", "sink other"]);
        for rule in [
            "+select",
            "&redisson_delay_queue_channel:{q?a}",
            "(%R~b %R~q?a %R~redisson_delay_queue:{b} +llen +type)",
            "(%W~out +rpush)",
            "(%W~delaybridge:dead:{q?a} +type +xadd +xlen)",
            "(%R~delaybridge:dead:{b} +type +xlen)",
            "(%R~redisson_delay_queue_timeout:{b} +type +zcard +zcount +zrange)",
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
    fn the_text_has_a_line_for_each_server_and_no_secret() {
        let (config, mut out) = (config(TWO_SERVERS), Vec::new());
        let args = AclArgs { purpose: Purpose::Run, redis: Server::Six, user: None };
        users(&config, args.purpose).iter().try_for_each(|user| text(user, &args, &mut out)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "# h:6379/3: the queues, sink same");
        assert!(lines[1].starts_with("ACL SETUSER bridge on resetkeys resetchannels -@all ~"), "{text}");
        assert_eq!(lines[2], "# o:1/0: sink other");
        assert!(lines[3].contains("`username: delaybridge`"), "{text}");
        assert!(lines[4].ends_with("every key like s:*:a"), "{text}");
        assert!(lines[5].starts_with("ACL SETUSER delaybridge on "), "{text}");
        assert!(!text.contains("geheim") && !text.contains('('), "{text}");
    }

    #[test]
    fn an_operator_is_never_the_user_of_the_daemon_unless_somebody_says_so() {
        let config = config(TWO_SERVERS);
        let check = |purpose, user: Option<&str>, expected: &str| {
            let args = AclArgs { purpose, redis: Server::Seven, user: user.map(str::to_owned) };
            assert_eq!(name(&users(&config, purpose)[0], &args), expected);
        };
        check(Purpose::Run, None, "bridge");
        check(Purpose::Run, Some("other"), "other");
        check(Purpose::Operator, None, "delaybridge-operator");
        check(Purpose::Operator, Some("bridge"), "bridge");
    }
}
