//! `acl`: the least that a Redis has to allow, as the rules of a user.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::choice::{Choice, Choices};
use super::failed::Failed;
use super::global::Global;
use super::load::load_queues;
use delaybridge_ops::acl::{AclPurpose, AclVersion, Users, least};

/// Print the minimum rights in Redis for this configuration, as `ACL SETUSER`.
///
/// The keys, channels and commands in use, for each server of the configuration, to which it does not connect. It
/// leaves passwords alone: a new user cannot log in before `ACL SETUSER delaybridge >PASSWORD`. Send it again after a
/// change of the configuration: it replaces the old rights.
///
/// configuration -> commands, keys, channels -> ACL SETUSER
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct AclArgs {
    /// The purpose of the user
    #[arg(long = "for", value_enum, value_name = "WHAT", default_value_t = Choice(AclPurpose::Run))]
    pub purpose: Choice<AclPurpose>,
    /// The major version of the server. Without selectors, 6 allows every command on every key of the configuration
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = Choice(AclVersion::Seven))]
    pub redis: Choice<AclVersion>,
    /// The user's name; default: the configuration's (else delaybridge), or delaybridge-operator
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

const AFTER: &str = "\
Examples:
  delaybridge acl
  delaybridge acl | grep ^ACL | redis-cli                 as a user with the right to ACL SETUSER
  delaybridge acl --for operator
  delaybridge acl --output json

Patterns with a * match the keys of claims (`delaybridge:claim:*`), and keys that elements choose (a
template in `list` or `stream`), with a comment.";

/// The warning in front of a rule that has no bound.
const ALL_KEYS: &str = "\
# WARNING: elements choose the key, and its pattern has no text of its own: the rule allows ALL keys of the server, in every
# database. For a job pool with bare ids that is the layout of the program: give the pool a Redis of its own.
";

impl Choices for AclPurpose {
    fn all() -> &'static [Choice<Self>] {
        &[Choice(AclPurpose::Run), Choice(AclPurpose::Operator)]
    }

    fn name(&self) -> (&'static str, &'static str) {
        match self {
            AclPurpose::Run => ("run", "`run` and `check --live`"),
            AclPurpose::Operator => (
                "operator",
                "Queues, peek, find, offer, run-now, reschedule, cancel, kill, pause, dead, migrate, recover, restore",
            ),
        }
    }
}

impl Choices for AclVersion {
    fn all() -> &'static [Choice<Self>] {
        &[Choice(AclVersion::Six), Choice(AclVersion::Seven)]
    }

    fn name(&self) -> (&'static str, &'static str) {
        match self {
            AclVersion::Six => ("6", "Redis 6.2"),
            AclVersion::Seven => ("7", "Redis 7.0 and newer"),
        }
    }
}

pub(super) fn run(global: &Global, args: &AclArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let users = least(&load_queues(global)?, args.purpose.0, args.redis.0, args.user.as_deref());
    answer(global, out, &users, text)?;
    Ok(0)
}

fn text(users: &Users) -> String {
    let mut text = String::new();
    for found in &users.users {
        let name = &found.user;
        text.push_str(&format!("# {}: {}\n", found.server, found.uses.join(", ")));
        if !found.configured {
            text.push_str(&format!("# To log in so, set `username: {name}` and a password in the configuration.\n"));
        }
        for pattern in &found.patterns {
            if pattern == "*" {
                text.push_str(ALL_KEYS);
                continue;
            }
            text.push_str(&format!("# Elements choose the key: the rule allows every key like {pattern}\n"));
        }
        text.push_str(&format!("ACL SETUSER {name} {}\n", found.rules.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_config::load_str;

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
    fn the_text_has_a_line_for_each_server_and_no_secret() {
        let config = load_str(TWO_SERVERS, "c.yaml", &|_| Some("geheim".into())).unwrap().config;
        let text = text(&least(&config, AclPurpose::Run, AclVersion::Six, None));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "# h:6379/3: the queues, sink same");
        assert!(lines[1].starts_with("ACL SETUSER bridge on resetkeys resetchannels -@all ~"), "{text}");
        assert_eq!(lines[2], "# o:1/0: sink other");
        assert!(lines[3].contains("`username: delaybridge`"), "{text}");
        assert!(lines[4].ends_with("every key like s:*:a"), "{text}");
        assert!(lines[5].starts_with("ACL SETUSER delaybridge on "), "{text}");
        assert!(!text.contains("geheim") && !text.contains('('), "{text}");
    }
}
