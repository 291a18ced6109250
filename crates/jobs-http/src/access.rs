//! Who may do what: callers, their rights on topics, and the file that says so.
//!
//! The file is YAML with the SHA-256 of each token, or has one line for each right of a token ([`lines`]). A token is found by its hash;
//! hashes are compared in constant time.

mod lines;
mod token;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;

use delaybridge_http_server::file::Content;
use delaybridge_http_server::room::MaybeNamed;
use delaybridge_http_server::tokens_file::TokenList;
use delaybridge_jobs::TokenLimits;
use delaybridge_settings::keys::Key;
use delaybridge_settings::problem::{ConfigErrors, Report, Spot};
use delaybridge_settings::reader::{Context, Needs, Section};
use delaybridge_settings::{Settings, node};

pub use token::Right;
use token::{TopicGrant, TopicToken};

/// The whole file.
#[derive(Settings)]
#[settings(top, at = "tokens file", hidden)]
struct FileKeys {
    /// Tokens by name. The name is shown in the log.
    #[key(Kind::Named(&one::TABLE), required)]
    tokens: Vec<(String, TokenKeys)>,
}

/// One token.
#[derive(Settings)]
#[settings(one, at = "tokens.NAME", hidden)]
struct TokenKeys {
    /// SHA-256 of the token in hex: `printf %s "$TOKEN" | sha256sum`.
    #[key(Kind::Text, required, read = sha256)]
    sha256: Option<[u8; digest::SHA256_OUTPUT_LEN]>,
    /// What the token may do.
    #[key(Kind::List(&token::grant::TABLE), required)]
    grants: Vec<TopicGrant>,
}

/// The tokens of a file.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<TopicToken>);

/// Whoever sent a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token's name; `None` for a local caller where there are no tokens.
    pub name: Option<Arc<str>>,
    /// `None`: everything.
    grants: Option<Arc<[TopicGrant]>>,
    /// The token, if it was made at run time.
    pub made: Option<Made>,
}

/// A token that was made at run time.
#[derive(Debug, Clone)]
pub struct Made {
    /// The token's hash, in hexadecimal digits.
    pub hash: Arc<str>,
    /// The limits of its use.
    pub limits: Option<TokenLimits>,
}

impl Caller {
    fn of(token: &TopicToken) -> Caller {
        Caller { name: Some(token.name.clone()), grants: Some(token.grants.clone()), made: None }
    }

    /// Returns a caller on the same machine, where there are no tokens.
    pub fn local() -> Caller {
        Caller { name: None, grants: None, made: None }
    }

    /// Returns the owner of a token that was made at run time, with all rights on topics of this pattern.
    pub fn of_made(name: &str, pattern: &str, made: Made) -> Caller {
        let grant =
            TopicGrant { patterns: vec![pattern.to_owned()], rights: vec![Right::Add, Right::Pop, Right::Admin] };
        Caller { name: Some(name.into()), grants: Some([grant].into()), made: Some(made) }
    }

    /// Returns the beginnings of topics that the caller may add jobs to; `None`: any.
    pub fn prefixes(&self) -> Option<Vec<&str>> {
        let adds = |grant: &&TopicGrant| grant.rights.iter().any(|right| matches!(right, Right::Add | Right::Admin));
        let patterns = self.grants.as_ref()?.iter().filter(adds).flat_map(|grant| &grant.patterns);
        let mut prefixes: Vec<_> = patterns.filter_map(|pattern| pattern.split('*').next()).collect();
        // What begins with another one is counted there.
        prefixes.sort_unstable();
        prefixes.dedup_by(|later, first| later.starts_with(&**first));
        Some(prefixes)
    }

    /// Returns whether the caller may do this with the topic.
    pub fn may(&self, right: Right, topic: &str) -> bool {
        let Some(grants) = &self.grants else { return true };
        grants.iter().any(|grant| grant.allows(right, topic))
    }
}

impl MaybeNamed for Caller {
    fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }
}

impl TokenList for Tokens {
    type Error = ConfigErrors;

    /// Reads the tokens. Errors have everything that is wrong, with file, line and path.
    fn of(path: &Path, content: &Content) -> Result<Tokens, ConfigErrors> {
        let report = Report::new(&path.display().to_string());
        match content.as_ref().map(|content| std::str::from_utf8(content)) {
            Ok(Ok(text)) => Tokens::parse(text, report, path),
            Ok(Err(_)) => refuse(report, "read the tokens: the file is not UTF-8 text"),
            Err(error) => refuse(report, &format!("read the tokens: {error}")),
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

impl Tokens {
    /// Returns the owner of a token.
    pub fn owner(&self, token: &str) -> Option<Caller> {
        let hash = digest::digest(&digest::SHA256, token.as_bytes());
        // All of them are compared, so that the time does not tell which one it is.
        let mut owner = None;
        for token in &self.0 {
            if verify_slices_are_equal(&token.sha256, hash.as_ref()).is_ok() {
                owner = Some(token);
            }
        }
        owner.map(Caller::of)
    }

    /// Returns the owner of the token of this name.
    pub fn named(&self, name: &str) -> Option<Caller> {
        self.0.iter().find(|token| *token.name == *name).map(Caller::of)
    }

    fn parse(text: &str, report: Report, path: &Path) -> Result<Tokens, ConfigErrors> {
        if lines::is_meant(text) {
            let tokens = Tokens(lines::parse(text, &report));
            return report.finish(Some(tokens)).map(|(tokens, _)| tokens);
        }
        let base = path.parent().map(PathBuf::from).unwrap_or_default();
        // No variable belongs into a list of hashes.
        let cx = Context { report, env: &|_| None, base, needs: Needs::Everything, files: Default::default() };
        let tokens = node::parse(text, &cx.report).map(|tree| {
            let top = Section::open(&cx, Spot { at: tree.at, path: String::new() }, &top::TABLE, Some(&tree));
            let token = |(name, keys): (String, TokenKeys)| {
                Some(TopicToken { name: name.into(), sha256: keys.sha256?, grants: keys.grants.into() })
            };
            Tokens(FileKeys::of(&top).tokens.into_iter().filter_map(token).collect())
        });
        cx.report.finish(tokens).map(|(tokens, _)| tokens)
    }
}

fn refuse(report: Report, message: &str) -> Result<Tokens, ConfigErrors> {
    report.of_file(None, message.to_owned(), None);
    report.finish(None).map(|(tokens, _)| tokens)
}

fn sha256(section: &Section<'_>, key: &Key) -> Option<[u8; digest::SHA256_OUTPUT_LEN]> {
    let text = section.text(key)?;
    let mut sha256 = [0; digest::SHA256_OUTPUT_LEN];
    if hex::decode_to_slice(text.value.trim(), &mut sha256).is_err() {
        // What is there instead may be the token itself.
        section.cx.report.problem(&text.spot, "this is not a SHA-256: 64 hex digits", key.help);
        return None;
    }
    Some(sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(text, Report::new("tokens.yaml"), Path::new("tokens.yaml")).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_token_has_the_rights_of_its_grants() {
        // printf %s geheim | sha256sum
        let text = "tokens:\n  shop:\n    sha256: addb0f5e7826c857d7376d1bd9bc33c0c544790a2eac96144a8af22b1298c940\n    grants:\n\
                    \x20     - { topics: [orders, \"billing.*\"], rights: [add] }\n      - { topics: [audit], rights: [admin] }\n";
        let tokens = parse(text).unwrap();
        assert!(tokens.owner("other").is_none());
        let caller = tokens.owner("geheim").unwrap();
        assert_eq!(
            (caller.name.as_deref(), caller.prefixes()),
            (Some("shop"), Some(vec!["audit", "billing.", "orders"]))
        );
        assert!(caller.may(Right::Add, "orders") && caller.may(Right::Add, "billing.eu"));
        assert!(!caller.may(Right::Pop, "orders") && !caller.may(Right::Add, "other"));
        assert!(caller.may(Right::Pop, "audit"));
        assert!(!format!("{tokens:?}").contains("addb0f"), "{tokens:?}");
    }

    /// Several lines of a token are its rights together.
    #[test]
    fn a_line_is_a_right_of_a_token() {
        let text = "# rotated in May\nshop 0123456789abcdef add orders,billing.*\nshop 0123456789abcdef admin audit\n\n\
                    ops sha256:addb0f5e7826c857d7376d1bd9bc33c0c544790a2eac96144a8af22b1298c940 add,pop *\n";
        let tokens = parse(text).unwrap();
        assert_eq!(tokens.count(), 2);
        let shop = tokens.owner("0123456789abcdef").unwrap();
        assert_eq!(shop.name.as_deref(), Some("shop"));
        assert!(shop.may(Right::Add, "orders") && shop.may(Right::Add, "billing.eu") && shop.may(Right::Pop, "audit"));
        assert!(!shop.may(Right::Pop, "orders") && !shop.may(Right::Add, "other"));
        let ops = tokens.owner("geheim").unwrap();
        assert!(ops.may(Right::Pop, "x") && ops.may(Right::Add, "x") && !ops.may(Right::Admin, "x"));
        let check = |text: &str, expected: &str| {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains("secretsecret"), "{problem}");
        };
        check("shop secretsecretsecret add", "tokens.yaml:1:1\n  expected `NAME TOKEN RIGHTS TOPICS`, found 3 words");
        check("\nshop secret add *", "tokens.yaml:2:1\n  a token has at least 16 characters");
        check("shop secretsecretsecret add,pup *", "tokens.yaml:1:1\n  `pup` is no right: add, pop or admin");
        check("shop secretsecretsecret add a/b", "no topic has such a name");
        check(
            "shop secretsecretsecret add a\nshop othersecretsecret add b",
            "tokens.yaml:2:1\n  `shop` has another token",
        );
        check(
            "shop secretsecretsecret add a\nmall secretsecretsecret add b",
            "tokens.yaml:2:1\n  this token is `shop`",
        );
        check("shop sha256:secretsecret add a", "64 hex digits belong behind `sha256:`");
    }

    #[test]
    fn a_wrong_file_is_explained() {
        let check = |text: &str, expected: &str| {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        };
        check(
            "tokens:\n  a: { sha256: geheim, grants: [{ topics: [a], rights: [add] }] }",
            "tokens.yaml:2:16: tokens.a.sha256",
        );
        check("tokens:\n  a: { sha256: geheim, grants: [{ topics: [a], rights: [ad] }] }", "did you mean `add`?");
        check("tokens:\n  a: { sha: x, grants: [{ topics: [a], rights: [add] }] }", "`sha256` is missing");
        check("tokens:\n  a: { sha256: x, grants: [{ topics: ['a b'], rights: [add] }] }", "no topic has such a name");
        check("token: {}", "did you mean `tokens`?");
        let secret = parse("tokens:\n  a: { sha256: geheim, grants: [{ topics: [a], rights: [add] }] }").unwrap_err();
        assert!(!secret.contains("geheim"), "{secret}");
    }
}
