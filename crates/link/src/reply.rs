//! Reads the reply of a script field by field. A reply of another shape is an error, never a guess.

use bytes::Bytes;
use redis::Value;

use super::score::Score;

/// The error for a script's reply in an unknown shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read reply of script {script}: expected {expected}; is another version's script cached under this name?")]
pub struct BadReply {
    /// The name of the script.
    pub script: &'static str,
    /// The expected type.
    pub expected: &'static str,
}

/// The fields of one reply, read from the front. Each method fails for a field of another type.
pub struct Fields {
    script: &'static str,
    rest: std::vec::IntoIter<Value>,
}

impl Fields {
    /// Reads the fields of a script's reply.
    ///
    /// # Errors
    ///
    /// Returns an error for anything but an array.
    pub fn of(script: &'static str, reply: Value) -> Result<Self, BadReply> {
        match reply {
            Value::Array(fields) => Ok(Fields { script, rest: fields.into_iter() }),
            _ => Err(BadReply { script, expected: "an array" }),
        }
    }

    /// Returns whether all fields have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.len() == 0
    }

    fn bad(&self, expected: &'static str) -> BadReply {
        BadReply { script: self.script, expected }
    }

    /// Reads an integer, also one written as text.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn int(&mut self) -> Result<i64, BadReply> {
        match self.rest.next() {
            Some(Value::Int(n)) => Ok(n),
            Some(Value::BulkString(text)) => {
                std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok()).ok_or(self.bad("a number"))
            }
            _ => Err(self.bad("a number")),
        }
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn bytes(&mut self) -> Result<Bytes, BadReply> {
        match self.rest.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes.into()),
            Some(Value::SimpleString(text)) => Ok(text.into()),
            _ => Err(self.bad("bytes")),
        }
    }

    /// Reads UTF-8 text.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn text(&mut self) -> Result<String, BadReply> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| self.bad("text"))
    }

    /// Reads a score as Redis writes it; `None` for the empty text.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn score(&mut self) -> Result<Option<Score>, BadReply> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        Score::parse(&text).map(Some).ok_or(self.bad("a score"))
    }

    /// Reads a score in milliseconds, rounded up; `None` for the empty text.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn time_ms(&mut self) -> Result<Option<i64>, BadReply> {
        Ok(self.score()?.map(Score::ceil_ms))
    }

    /// Reads an array of bytes.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn all_bytes(&mut self) -> Result<Vec<Bytes>, BadReply> {
        let mut fields = self.array()?;
        let mut all = Vec::with_capacity(fields.rest.len());
        while fields.rest.len() > 0 {
            all.push(fields.bytes()?);
        }
        Ok(all)
    }

    /// Reads an array.
    ///
    /// # Errors
    ///
    /// Returns an error for a field of another type.
    pub fn array(&mut self) -> Result<Fields, BadReply> {
        match self.rest.next() {
            Some(Value::Array(fields)) => Ok(Fields { script: self.script, rest: fields.into_iter() }),
            _ => Err(self.bad("an array")),
        }
    }
}
