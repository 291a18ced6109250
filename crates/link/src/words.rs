//! The meaning of error replies in the wording of every server version.
//!
//! Redis changed its reports of errors inside scripts three times. Callers branch on the code, so it is determined here
//! and nowhere else. `tests/it/servers/errors.rs` has the replies of real servers.

/// The codes that callers may branch on or count by; all others become `OTHER`.
const CODES: [&str; 28] = [
    "ERR",
    "OOM",
    "LOADING",
    "BUSY",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "NOREPLICAS",
    "READONLY",
    "MOVED",
    "ASK",
    "NOSCRIPT",
    "WRONGTYPE",
    "WRONGKEY",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "CROSSSLOT",
    "EXECABORT",
    "NOPROTO",
    "NOTBUSY",
    "MISCONF",
    "UNKILLABLE",
    "UNBLOCKED",
    "DENIED",
    "BUSYKEY",
    "BUSYGROUP",
    "NOGROUP",
];

/// The wording of a missing right inside a script: Redis up to 7.0, then Redis since 7.2 and Valkey.
const REFUSALS: [&str; 3] =
    ["The user executing the script can't ", "ACL failure in script: ", "No permissions to access a "];

/// Returns the code and the text of a server's error reply, normalized over all versions.
///
/// | server | an error inside a script | a missing right inside a script |
/// |---|---|---|
/// | 6.2 | `ERR Error running script (call to f_SHA): @user_script:3: WRONGTYPE ...`, or after that `@user_script: 3: -OOM ...` | the same with `The user executing the script can't ...` |
/// | 7.0 | `WRONGTYPE ... script: SHA, on @user_script:3.` | `ERR The user executing the script can't ...` |
/// | 7.2, 8, Valkey | as 7.0; Valkey 9 without the SHA | `ERR ACL failure in script: ...` |
///
/// On 6.2 an error that a script received from `pcall` and returned also starts with its line: `@user_script: 3: -OOM
/// ...`.
pub fn server_code(code: &str, message: &str) -> (&'static str, String) {
    let code = code.trim_start_matches('-');
    let (code, message) = inside_of_script(code, message).unwrap_or((code, message));
    let code = if code == "ERR" && REFUSALS.iter().any(|words| message.contains(words)) { "NOPERM" } else { code };
    // "unknown command 'X', with args beginning with: ..." repeats the payload.
    let message = message.split(", with args beginning with").next().unwrap_or_default();
    match CODES.iter().find(|known| **known == code) {
        Some(known) => (known, message.to_owned()),
        None => ("OTHER", format!("{code} {message}")),
    }
}

/// Returns the code and text of an error that is wrapped in the words of a failed script; `None` if it is not wrapped,
/// or has no code of its own.
fn inside_of_script<'a>(code: &'a str, message: &'a str) -> Option<(&'a str, &'a str)> {
    let (wrapped, mut text) = match code {
        "ERR" => match message.strip_prefix("Error running script (call to ") {
            Some(rest) => (false, rest.split_once("): ")?.1),
            None => (false, message),
        },
        // The first word, in the position of a code.
        "@user_script:" => (true, after_line(message)?),
        _ => return None,
    };
    while let Some(rest) = after_place(text) {
        text = rest;
    }
    match text.strip_prefix('-').and_then(|reply| reply.split_once(' ')) {
        Some((inner, rest)) if inner.bytes().all(|byte| byte.is_ascii_uppercase()) => return Some((inner, rest)),
        _ => {}
    }
    match text.split_once(' ') {
        Some((inner, rest)) if CODES.contains(&inner) => Some((inner, rest)),
        // Without a code of its own it is an ordinary error.
        _ => wrapped.then_some(("ERR", text)),
    }
}

/// Strips a line of the script: `@user_script:3: `, `user_script:3: ` or `@user_script: 3: `.
fn after_place(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('@').unwrap_or(text).strip_prefix("user_script:")?;
    after_line(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Strips the number of a line, such as `3: `.
fn after_line(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once(": ")?;
    (!line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_get_the_code_that_they_mean() {
        fn check(code: &str, message: &str, expected: (&str, &str)) {
            let got = server_code(code, message);
            assert_eq!((got.0, got.1.as_str()), expected, "{code} {message}");
        }
        check("OOM", "command not allowed", ("OOM", "command not allowed"));
        check("-OOM", "command not allowed", ("OOM", "command not allowed"));
        check("ERR", "value is not an integer", ("ERR", "value is not an integer"));
        check("ERR", "", ("ERR", ""));
        check("NEWCODE", "of a later version", ("OTHER", "NEWCODE of a later version"));
        // 6.2.
        let running = "Error running script (call to f_e0e1): @user_script:1:";
        let wrong = "Operation against a key";
        check("ERR", &format!("{running} WRONGTYPE {wrong}"), ("WRONGTYPE", wrong));
        check("ERR", &format!("{running} @user_script: 1: -WRONGTYPE {wrong}"), ("WRONGTYPE", wrong));
        check("ERR", &format!("{running} @user_script: 1: -LATER {wrong}"), ("OTHER", &format!("LATER {wrong}")));
        let lua = format!("{running} user_script:1: attempt to index local 'x' (a nil value)");
        check("ERR", &lua, ("ERR", &lua));
        let words = format!("{running} user_script:1: some -other thing");
        check("ERR", &words, ("ERR", &words));
        let refused = format!("{running} @user_script: 1: The user executing the script can't run this command");
        check("ERR", &refused, ("NOPERM", &refused));
        check("@user_script:", "1: -OOM command not allowed", ("OOM", "command not allowed"));
        let refused = "The user executing the script can't run this command or subcommand";
        check("@user_script:", &format!("12: {refused}"), ("NOPERM", refused));
        check("@user_script:", "12: Unknown Redis command", ("ERR", "Unknown Redis command"));
        check("@user_script:", "no line", ("OTHER", "@user_script: no line"));
        // 7.0.
        let refused = "The user executing the script can't run this command script: e0e1, on @user_script:1.";
        check("ERR", refused, ("NOPERM", refused));
        check("ERR", "user_script:61: WRONGTYPE Operation", ("WRONGTYPE", "Operation"));
        // 7.2, 8, Valkey.
        let refused = "ACL failure in script: No permissions to access a key script: on @user_script:1.";
        check("ERR", refused, ("NOPERM", refused));
        // The payload is not repeated.
        check("ERR", "unknown command 'XAD', with args beginning with: 'secret' ", ("ERR", "unknown command 'XAD'"));
    }

    #[test]
    fn what_a_script_says_of_itself_is_no_code() {
        for text in
            ["", ":", "@user_script", "@user_script:1", "user_script:x: OOM y", "ERRor running script (call to "]
        {
            assert_eq!(server_code("ERR", text), ("ERR", text.to_owned()));
        }
        assert_eq!(server_code("ERR", "Error running script (call to f_1").0, "ERR");
    }
}
