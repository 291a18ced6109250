//! The way back: lines that an export has written become dead letters again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::export::BASE64;
use crate::error::{Attempted, Error, may_have_run};
use crate::session::Queue;
use delaybridge_core::json::{Json, NoParts, NotJson};
use delaybridge_ledger::{DeadLetter, Import};

/// Fields of a letter, at most.
const FIELDS: usize = 100;

/// The advice for a line or a record that is no letter.
pub(crate) const PAST_IT: &str = "with --broken FILE it is written to a file, and the import goes on";

/// Sends a line until it is known that it has arrived: sent again, it is not stored again.
pub(crate) async fn put(queue: &Queue, import: Import, fields: &[(String, Bytes)]) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match queue.ledger.import(&queue.conn, import, fields).await {
            Err(error) if may_have_run(&error) && tries < 3 => {}
            other => return other.attempt("store the letter"),
        }
    }
}

pub(crate) async fn is_there(queue: &Queue, id: &str) -> Result<bool, Error> {
    let found = queue.ledger.dead_letter(&queue.conn, id).await;
    Ok(found.attempt(&format!("look for letter {id} of `{}`", queue.id()))?.is_some())
}

#[derive(Debug)]
pub(crate) struct LetterLine {
    /// The fields, with the queue that it is in from now on.
    pub fields: Vec<(String, Bytes)>,
    /// The place in the stream, if it was a letter of this queue.
    pub was: Option<String>,
}

/// Returns the letter, which must be one that can be redriven. The words of an error quote none of it.
pub(crate) fn letter(queue: &str, line: &Bytes) -> Result<LetterLine, String> {
    let value = Json::read(line.clone()).map_err(|problem| match problem {
        NotJson::Invalid { column, .. } => {
            format!("not JSON at column {column}; each line is an object, as `dead export` writes it")
        }
        NotJson::Deep => format!("{problem}; each line is an object, as `dead export` writes it"),
    })?;
    let object = value.members(FIELDS).map_err(|problem| match problem {
        NoParts::Kind => "not an object, as `dead export` writes it".to_owned(),
        NoParts::Many(_) => format!("more than {FIELDS} fields"),
    })?;
    let text = |name: &str| object.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.text());
    let place = |id: Bytes| String::from_utf8(id.to_vec()).ok().filter(|id| super::is_place(id));
    let was = text("stream_id").and_then(place).filter(|_| text("queue").is_some_and(|of| of == queue.as_bytes()));
    let mut fields = Vec::with_capacity(object.len());
    for (name, value) in object {
        if name == "stream_id" {
            continue;
        }
        let (name, bytes) = match (name.strip_suffix(BASE64), value.text()) {
            (Some(bare), Some(text)) => {
                let bytes = STANDARD.decode(text).map_err(|_| format!("`{name}` is not base64"))?;
                (bare.to_owned(), Bytes::from(bytes))
            }
            (None, Some(text)) => (name, text),
            (None, None) if value.is_number() => (name, value.bytes().clone()),
            (None, None) if value.is_null() => (name, Bytes::new()),
            _ => return Err(format!("`{name}` is neither a text nor a number; is the line of `dead export`?")),
        };
        fields.push((name, bytes));
    }
    // The queue that it is in from now on.
    fields.retain(|(name, _)| name != "queue");
    fields.insert(0, ("queue".to_owned(), Bytes::copy_from_slice(queue.as_bytes())));
    let letter = DeadLetter { stream_id: "of this line".to_owned(), fields };
    letter.reborn().map_err(|error| {
        format!("its field `{}` is missing or cannot be read; is the line of `dead export`?", error.field)
    })?;
    Ok(LetterLine { fields: letter.fields, was })
}

#[cfg(test)]
mod tests {
    use super::super::export::object;
    use super::*;

    #[test]
    fn a_line_of_an_export_is_the_same_letter() {
        let fields_of = [
            ("id", &b"52414e444f4d3842"[..]),
            ("origin", b"delayed"),
            ("due_ms", b"1795251632252"),
            ("message", b"a \xff b"),
            ("confirmed", b"audit,lines"),
            ("element", b"\x00\xff"),
            ("queue", b"q"),
        ];
        let all = fields_of.map(|(name, value)| (name.to_owned(), Bytes::copy_from_slice(value)));
        let exported = DeadLetter { stream_id: "1-0".to_owned(), fields: all.to_vec() };
        let line = serde_json::to_vec(&object(&exported)).unwrap();
        assert!(String::from_utf8_lossy(&line).contains("\"element_base64\":\"AP8=\""));
        assert_eq!(letter("q", &line.clone().into()).unwrap().was.as_deref(), Some("1-0"));
        assert_eq!(letter("other", &line.clone().into()).unwrap().was, None, "a letter of another queue is new here");
        let mut read = letter("q", &line.clone().into()).unwrap().fields;
        let mut expected = exported.fields;
        read.sort();
        expected.sort();
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_no_letter_is_refused_without_a_word_of_it() {
        for (line, words) in [
            ("geheim", "not JSON at column 1"),
            ("[\"geheim\"]", "not an object"),
            ("{\"id\":\"52414e444f4d3842\",\"origin\":\"ready\",\"died_ms\":1}", "`element` is missing"),
            ("{\"element_base64\":\"geheim!\"}", "not base64"),
            ("{\"element_base64\":\"AP8=\",\"id\":[\"geheim\"]}", "neither a text nor a number"),
        ] {
            let why = letter("q", &Bytes::from_static(line.as_bytes())).unwrap_err();
            assert!(why.contains(words) && !why.contains("geheim"), "{line}: {why}");
        }
    }
}
