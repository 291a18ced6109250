//! The content of the files of secrets: a token, and the keys of signatures. Pure; no message has a part of either.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delaybridge_settings::secrets;

/// The prefix of every key.
const PREFIX: &str = "whsec_";
/// Lengths of a key that the Standard Webhooks scheme allows, in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// Reads the keys in a file: one a line, the current one first; empty lines do not count. An error names the line that
/// is no key.
pub(super) fn keys(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let read = lines.map(|(at, line)| key(line).map_err(|why| format!("line {}: {why}", at + 1)));
    let keys = read.collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() { Err("it holds no secret".to_owned()) } else { Ok(keys) }
}

fn key(line: &str) -> Result<Vec<u8>, &'static str> {
    let encoded = line.strip_prefix(PREFIX).ok_or("a secret begins with `whsec_`")?;
    let key = STANDARD.decode(encoded).map_err(|_| "what follows `whsec_` is not base64")?;
    if LENGTHS.contains(&key.len()) { Ok(key) } else { Err("a secret has 24 to 64 bytes before base64") }
}

/// Reads the token in the first line of a file.
pub(super) fn token(text: &str) -> Result<&str, &'static str> {
    match secrets::first_line(text.as_bytes())?.trim() {
        token if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token),
        _ => Err("its first line has characters that no token has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_key_a_line() {
        let line = |fill: u8, length: usize| format!("whsec_{}", STANDARD.encode(vec![fill; length]));
        let text = format!("\n{} \r\n\n{}", line(1, 24), line(2, 64));
        assert_eq!(keys(&text), Ok(vec![vec![1; 24], vec![2; 64]]));
        let short = line(3, 23);
        let long = line(3, 65);
        let rows = [
            ("", "it holds no secret"),
            ("\n \n", "it holds no secret"),
            ("geheim", "line 1: a secret begins with `whsec_`"),
            ("\nwhsec_gehe!m", "line 2: what follows `whsec_` is not base64"),
            (&short, "line 1: a secret has 24 to 64 bytes before base64"),
            (&long, "line 1: a secret has 24 to 64 bytes before base64"),
        ];
        for (text, words) in rows {
            assert_eq!(keys(text).unwrap_err(), words);
        }
    }

    #[test]
    fn a_token_is_the_first_line() {
        assert_eq!(token("geheim \nrest"), Ok("geheim"));
        assert!(token("\ngeheim").unwrap_err().contains("is empty"));
        assert!(token("ge heim").unwrap_err().contains("no token has"));
    }
}
