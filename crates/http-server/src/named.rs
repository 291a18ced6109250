//! A file of named tokens: one line a token, `NAME TOKEN ROLE PATTERN`. Without a pattern the role is for every queue. A token
//! without a role is refused: whoever forgets it does not mean that it may do everything.
//!
//! In place of a token its hash may be there (`sha256:` and 64 hex digits). A token is found by its hash; hashes are compared in
//! constant time.

use std::fmt;
use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;

use super::file::Content;
use super::tokens_file::TokenList;
use delaybridge_model::role::{AccessGrant, AccessRole, Grantee, NamePattern};

/// Shorter tokens can be guessed.
pub const SHORTEST: usize = 16;
/// Longest name of a token.
const LONGEST_NAME: usize = 64;
/// Most tokens of a file.
const MOST: usize = 1_000;

/// The SHA-256 of a token.
pub type Hash = [u8; digest::SHA256_OUTPUT_LEN];

/// The tokens of a file.
#[derive(Clone)]
pub struct NamedTokens(Vec<(Grantee, Hash)>);

/// Not even the hashes: a weak token could be guessed from one.
impl fmt::Debug for NamedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(grant, _)| &grant.name)).finish()
    }
}

/// Returns the hash of a token.
pub fn hash(token: &str) -> Hash {
    let mut hash = [0; digest::SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

impl TokenList for NamedTokens {
    type Error = String;

    /// Reads the tokens. An error names the line, and never what is in it.
    fn of(path: &Path, content: &Content) -> Result<NamedTokens, String> {
        let failed = |problem: &dyn fmt::Display| format!("read the tokens from {}: {problem}", path.display());
        let content = content.as_ref().map_err(|error| failed(error))?;
        let text = std::str::from_utf8(content).map_err(|_| failed(&"the file is not UTF-8 text"))?;
        NamedTokens::parse(text).map_err(|problem| failed(&problem))
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

impl NamedTokens {
    fn parse(text: &str) -> Result<NamedTokens, String> {
        let mut tokens: Vec<(Grantee, Hash)> = Vec::new();
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, token, role, pattern) = match words.as_slice() {
                [_] | [_, _] => {
                    let roles = AccessRole::ALL.map(AccessRole::as_str).join(", ");
                    return Err(format!(
                        "line {number}: the role is missing: write `NAME TOKEN ROLE`, where the role is one of {roles}"
                    ));
                }
                [name, token, role] => (*name, *token, *role, "*"),
                [name, token, role, pattern] => (*name, *token, *role, *pattern),
                _ => {
                    return Err(format!(
                        "line {number}: expected `NAME TOKEN ROLE PATTERN`, found {} words",
                        words.len()
                    ));
                }
            };
            // Not quoted: a token may be in its place.
            let role = AccessRole::of(role).ok_or_else(|| {
                let roles = AccessRole::ALL.map(AccessRole::as_str).join(", ");
                format!("line {number}: the third word is the role, one of {roles}")
            })?;
            let queues = NamePattern::read(pattern).map_err(|problem| format!("line {number}: {problem}"))?;
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
            if name.len() > LONGEST_NAME || !name.chars().all(plain) {
                return Err(format!(
                    "line {number}: a name has letters, digits, `_`, `.` and `-`, at most {LONGEST_NAME}"
                ));
            }
            let hash = match token.strip_prefix("sha256:") {
                Some(digits) => {
                    let mut hash = Hash::default();
                    hex::decode_to_slice(digits, &mut hash)
                        .map_err(|_| format!("line {number}: 64 hex digits belong behind `sha256:`"))?;
                    hash
                }
                None if token.len() < SHORTEST => {
                    return Err(format!("line {number}: a token has at least {SHORTEST} characters"));
                }
                None => hash(token),
            };
            if tokens.iter().any(|(known, other)| *known.name == *name || *other == hash) {
                return Err(format!("line {number}: this name or token is there already"));
            }
            tokens.push((Grantee::new(name, [AccessGrant { role, queues }]), hash));
            if tokens.len() > MOST {
                return Err(format!("line {number}: there are more than {MOST} tokens"));
            }
        }
        if tokens.is_empty() { Err("there is no token in it".to_owned()) } else { Ok(NamedTokens(tokens)) }
    }

    /// Returns the name and the rights of the token with this hash.
    pub fn owner(&self, wanted: &Hash) -> Option<Grantee> {
        // All of them are compared, so that the time does not tell which one it is.
        let mut owner = None;
        for (grant, hash) in &self.0 {
            if verify_slices_are_equal(hash, wanted).is_ok() {
                owner = Some(grant.clone());
            }
        }
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_token_or_its_hash() {
        let text = "# rotated in May\nann 0123456789abcdef admin\n\nbob sha256:3465f6e6975baa864ca957f0914ecda9bf7eb601ac31ac20a5dc3d329279a843 viewer\n";
        let tokens = NamedTokens::parse(text).unwrap();
        assert_eq!(tokens.owner(&hash("0123456789abcdef")), Some(Grantee::admin("ann")));
        assert_eq!(tokens.owner(&hash("0123456789abcdeg")), None);
        assert_eq!((tokens.count(), format!("{tokens:?}").as_str()), (2, "[\"ann\", \"bob\"]"));
    }

    #[test]
    fn a_line_may_have_a_role_and_a_pattern_of_queues() {
        let tokens =
            NamedTokens::parse("ann 0123456789abcdef viewer\nbob fedcba9876543210 operator orders*,mails\n").unwrap();
        let of = |token| tokens.owner(&hash(token)).map(|grant| grant.roles());
        assert_eq!(of("0123456789abcdef"), Some("the role `viewer` for `*`".to_owned()));
        assert_eq!(of("fedcba9876543210"), Some("the role `operator` for `orders*,mails`".to_owned()));
    }

    #[test]
    fn a_wrong_line_is_named_and_not_quoted() {
        let check = |text: &str, expected: &str| {
            let problem = NamedTokens::parse(text).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains("secret"), "{problem}");
        };
        check("", "there is no token");
        check("ann secret viewer", "line 1: a token has at least 16");
        check("secretsecretsecret", "line 1: the role is missing: write `NAME TOKEN ROLE`");
        check("# all\nann secretsecretsecret", "line 2: the role is missing");
        check("a b c d secretsecretsecret", "line 1: expected `NAME TOKEN ROLE PATTERN`");
        check(
            "a secretsecretsecret secretsecret",
            "line 1: the third word is the role, one of viewer, reader, operator, admin",
        );
        check("a secretsecretsecret viewer x,,y", "line 1: a pattern is a name");
        check("ann/x secretsecretsecret viewer", "line 1: a name has");
        check("\nann sha256:secret viewer", "line 2: 64 hex digits");
        check("ann secretsecretsecret viewer\nann othersecretsecret viewer", "line 2: this name");
    }
}
