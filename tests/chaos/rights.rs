//! Removal of the rights of all users of a Redis except the first, and their restoration.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use crate::produce::connect;

/// Removes all commands for some time; returns the number of users.
pub async fn take_away(url: &str, lasts: Duration) -> u64 {
    let mut redis = connect(url).await.unwrap_or_else(|e| panic!("connect to take rights away: {e}"));
    let users: Vec<String> = acl(&mut redis, &["LIST".to_owned()]).await;
    let users: Vec<(String, Vec<String>)> = users.iter().filter_map(|line| user(line)).collect();
    for (name, _) in &users {
        let words = ["SETUSER", name.as_str(), "nocommands", "clearselectors"].map(str::to_owned);
        let _: String = acl(&mut redis, &words).await;
    }
    sleep(lasts).await;
    for (name, rules) in &users {
        let mut words = ["SETUSER", name.as_str(), "reset"].map(str::to_owned).to_vec();
        words.extend(rules.iter().cloned());
        let _: String = acl(&mut redis, &words).await;
    }
    // Meanwhile a command of the test may have saved the users without rights to the file, which a killed server reads.
    let saved: redis::RedisResult<()> = redis::cmd("ACL").arg("SAVE").exec_async(&mut redis).await;
    if let Err(error) = saved {
        assert!(error.to_string().contains("ACL file"), "save the rights that were given back: {error}");
    }
    users.len() as u64
}

async fn acl<T: redis::FromRedisValue>(redis: &mut MultiplexedConnection, words: &[String]) -> T {
    let mut command = redis::cmd("ACL");
    command.arg(words);
    command.query_async(redis).await.unwrap_or_else(|e| panic!("ACL {}: {e}", words.join(" ")))
}

/// The name and rules in a line of `ACL LIST`; `None` for the default user, which the test itself is.
fn user(line: &str) -> Option<(String, Vec<String>)> {
    let mut words = rules(line).into_iter().skip(1);
    let name = words.next().filter(|name| name != "default")?;
    Some((name, words.collect()))
}

/// Splits at spaces outside of parentheses.
fn rules(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0_usize;
    for letter in line.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(letter);
        }
    }
    words
}

#[test]
fn rules_of_a_user_are_taken_apart() {
    let line = "user u7 on #ab resetchannels -@all +get (~a* -@all +set) (~b -@all +del)";
    let (name, words) = user(line).expect("a user");
    let expected = ["on", "#ab", "resetchannels", "-@all", "+get", "(~a* -@all +set)", "(~b -@all +del)"];
    assert_eq!((name.as_str(), words), ("u7", expected.map(str::to_owned).to_vec()));
    assert_eq!(user("user default on nopass ~* &* +@all"), None);
}
