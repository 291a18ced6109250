//! The rights that a user lacks, in a finding.

use super::finding::{Health, LiveFinding, finding};
use delaybridge_link::rights::{Dialect, Grant, Missing, Rules};
use delaybridge_link::{Conn, LinkError, missing_rights, whoami};

/// Returns whether everything is allowed, and what to run where it is not.
pub(super) async fn rights(conn: &Conn, what: String, grants: &[Grant]) -> LiveFinding {
    let missing = missing_rights(conn, grants).await;
    // A server that answers about rights also answers about the name.
    let user = whoami(conn).await.unwrap_or_default();
    judged(what, &user, missing)
}

fn judged(what: String, user: &str, missing: Result<Option<Vec<Missing>>, LinkError>) -> LiveFinding {
    match missing {
        Ok(Some(missing)) if missing.is_empty() => finding(what, Health::Well, "complete"),
        Ok(Some(missing)) => finding(what, Health::Failed, remedy(user, missing)),
        Ok(None) => finding(
            what,
            Health::Warning,
            "unknown: that takes Redis 7.0 or newer and the right to ACL WHOAMI and ACL DRYRUN",
        ),
        Err(error) => finding(what, Health::Failed, error.to_string()),
    }
}

/// Returns the missing rights in the server's words, and the line that grants them.
pub(super) fn remedy(user: &str, missing: Vec<Missing>) -> String {
    let (mut words, grants): (Vec<_>, Vec<_>) = missing.into_iter().map(|right| (right.words, right.grant)).unzip();
    words.sort();
    words.dedup();
    // A server that can be asked knows selectors.
    let rules: Vec<_> = Rules::of(&grants, Dialect::Selectors).iter().map(str::to_owned).collect();
    format!("{}; fix it with: ACL SETUSER {user} {}", words.join("; "), rules.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_link::rights::Pattern;
    use delaybridge_link::rights::command::XADD;

    #[test]
    fn missing_rights_are_reported_once_each() {
        let lack = |words: &str, key: &'static str| Missing {
            words: words.to_owned(),
            grant: Grant::on([Pattern::exact(key)], [XADD]),
        };
        let missing = vec![lack("no xadd", "a"), lack("no key", "b"), lack("no xadd", "a")];
        let found = judged("q".to_owned(), "me", Ok(Some(missing)));
        let words = "no key; no xadd; fix it with: ACL SETUSER me (%W~a %W~b +xadd)";
        assert_eq!((found.state, found.detail.as_str()), (Health::Failed, words));
        assert_eq!(judged("q".to_owned(), "", Ok(None)).state, Health::Warning);
    }
}
