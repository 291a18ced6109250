//! `acl`: the least rights that a Redis has to grant.

use clap::Args;

use crate::acl::{AclPurpose, AclVersion, Users, least};
use crate::error::Error;
use crate::operation::{Explain, Operation, Scene};

/// Print the minimum rights in Redis for this configuration, as `ACL SETUSER`.
///
/// The keys, channels and commands in use, for each server of the configuration, to which it does not connect. It
/// leaves passwords alone: a new user cannot log in before `ACL SETUSER delaybridge >PASSWORD`. Send it again after a
/// change of the configuration: it replaces the old rights.
///
/// configuration -> commands, keys, channels -> ACL SETUSER
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER)]
pub struct Acl {
    /// The purpose of the user
    #[arg(long = "for", value_enum, value_name = "WHAT", default_value_t = AclPurpose::Run)]
    pub purpose: AclPurpose,
    /// The major version of the server. Without selectors, 6 allows every command on every key of the configuration
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = AclVersion::Seven)]
    pub redis: AclVersion,
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

impl Operation for Acl {
    type Answer = Users;

    const NAME: &'static str = "acl";

    async fn run(&self, scene: &Scene) -> Result<Users, Error> {
        Ok(least(scene.config(), self.purpose, self.redis, self.user.as_deref()))
    }

    fn text(&self, users: &Users, _: Explain) -> String {
        text(users)
    }
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
    use crate::acl::tests::TWO_SERVERS;
    use delaybridge_config::load_str;

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
