//! The elements of a JSON array as the bytes that the client wrote: a job's body is these bytes, and not what another
//! writer of JSON would make of them.

/// The elements of `text`, which must be a valid JSON array.
pub fn items(text: &[u8]) -> Vec<&[u8]> {
    let (mut depth, mut quoted, mut escaped, mut start) = (0_u32, false, false, 0);
    let mut items = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            b',' if depth == 1 => {
                items.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            b']' | b'}' => {
                if depth == 1 {
                    items.push(text[start..at].trim_ascii());
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    // `[]` has no element, and `[1]` has one.
    items.retain(|item| !item.is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::items;

    #[test]
    fn elements_are_the_bytes_that_were_sent() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<_> = items(text.as_bytes()).iter().map(|item| std::str::from_utf8(item).unwrap()).collect();
            assert_eq!(found, expected, "{text}");
            let parsed: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
            assert_eq!(parsed.len(), expected.len());
        };
        check("[]", &[]);
        check(" [ 1 , \"a,]\" ] ", &["1", "\"a,]\""]);
        check(
            r#"["\u003c\"[", {"a":[1,{"b":"}"}]}, [[],[2]], true]"#,
            &[r#""\u003c\"[""#, r#"{"a":[1,{"b":"}"}]}"#, "[[],[2]]", "true"],
        );
        check(r#"["\\",1.50]"#, &[r#""\\""#, "1.50"]);
    }
}
