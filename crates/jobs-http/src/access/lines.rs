//! Tokens by lines: `NAME TOKEN RIGHTS TOPICS`, the last two with commas between. Several lines of a name are its rights together.

use super::token::{PATTERN, Right, TopicGrant, TopicToken, is_pattern};
use delaybridge_http_server::named::{Hash, SHORTEST, hash};
use delaybridge_settings::problem::{Position, Report};
use delaybridge_settings::words::Words as _;

/// Returns whether the file has lines: YAML begins with its key.
pub(super) fn is_meant(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        line.split_whitespace().next().is_some_and(|word| !word.contains([':', '{']) && word != "---")
    })
}

/// Returns the tokens; what is wrong is reported, and never quoted where it may be a token.
pub(super) fn parse(text: &str, report: &Report) -> Vec<TopicToken> {
    let mut tokens: Vec<(TopicToken, Vec<TopicGrant>)> = Vec::new();
    let lines = (1..).zip(text.lines().map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        match read(line) {
            Ok((name, sha256, grant)) => {
                let known = tokens.iter_mut().find(|(token, _)| *token.name == *name || token.sha256 == sha256);
                match known {
                    Some((token, grants)) if *token.name == *name && token.sha256 == sha256 => grants.push(grant),
                    Some((token, _)) if *token.name == *name => {
                        refuse(report, number, &format!("`{name}` has another token above"))
                    }
                    Some((token, _)) => refuse(report, number, &format!("this token is `{}` above", token.name)),
                    None => tokens.push((TopicToken { name: name.into(), sha256, grants: [].into() }, vec![grant])),
                }
            }
            Err(problem) => refuse(report, number, &problem),
        }
    }
    tokens.into_iter().map(|(token, grants)| TopicToken { grants: grants.into(), ..token }).collect()
}

fn refuse(report: &Report, line: u64, problem: &str) {
    report.of_file(Some(Position { line, column: 1 }), problem, None);
}

fn read(line: &str) -> Result<(&str, Hash, TopicGrant), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, token, rights, topics] = words.as_slice() else {
        return Err(format!("expected `NAME TOKEN RIGHTS TOPICS`, found {} words", words.len()));
    };
    if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter)) {
        return Err("a name has letters, digits, `_`, `.` and `-`".to_owned());
    }
    let sha256 = match token.strip_prefix("sha256:") {
        Some(digits) => {
            let mut hash = Hash::default();
            hex::decode_to_slice(digits, &mut hash).map_err(|_| "64 hex digits belong behind `sha256:`".to_owned())?;
            hash
        }
        None if token.len() < SHORTEST => return Err(format!("a token has at least {SHORTEST} characters")),
        None => hash(token),
    };
    let right = |word: &str| match Right::VALUES.iter().find(|(known, _)| *known == word) {
        Some((_, right)) => Ok(*right),
        None => Err(format!("`{}` is no right: add, pop or admin", delaybridge_http_server::text::clip(word))),
    };
    let rights = rights.split(',').map(right).collect::<Result<_, _>>()?;
    if topics.split(',').any(|topic| topic.is_empty() || !is_pattern(topic)) {
        return Err(format!("no topic has such a name; {PATTERN}"));
    }
    Ok((*name, sha256, TopicGrant { patterns: topics.split(',').map(str::to_owned).collect(), rights }))
}
