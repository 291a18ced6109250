//! Reads the bodies of a claim, for a source that keeps them beside its elements.
//!
//! A claim moves elements as they are. Only then is known whose bodies are needed, because no script reads an id out of an
//! element. So they are read after the claim, under its lease: sizes first, then as many as there is room for. An element
//! without room for its body is released by the pipeline, and the next claim takes fewer.
//!
//! Elements of such a source are confirmed one by one, because the settle script removes each body with its element. A body
//! is removed only if it still has the hash of what was delivered, no sorted set of the source contains the element again,
//! and no other life of it is in flight: the claim script counts lives, and their ends are counted down. The element goes
//! first, so a crash leaves a reference with its body, and a missing right leaves a body too many. A dead letter contains
//! the body, and a redrive restores it unless another one exists.

use redis::Value;

use super::{ClaimScripts, Element};
use crate::batch::BATCH_BYTES;
use crate::body::{Body, BodyAt};
use crate::error::StoreError;
use crate::page::redis_now_ms;
use delaybridge_link::{BadReply, Conn, LinkError};

impl ClaimScripts<'_> {
    /// Reads the bodies of these elements, as far as there is room for them, and for one in any case. Three round trips, and one
    /// more for each MiB. Answers the mean size of those that are there.
    ///
    /// # Errors
    ///
    /// Those of the connection. Reads may be repeated.
    pub async fn fetch(&self, conn: &Conn, elements: &mut [Element], room: usize) -> Result<Option<usize>, StoreError> {
        let mut found: Vec<(usize, BodyAt)> = Vec::new();
        for (place, element) in elements.iter().enumerate() {
            if element.is_damaged() {
                continue;
            }
            if let Some(at) = self.source.body_at(&element.bytes()) {
                found.push((place, at));
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        let read_ms = redis_now_ms(conn).await?;
        let sizes = ask(conn, &found, ("STRLEN", "HSTRLEN")).await?;
        let mut left = room;
        let mut read = Vec::new();
        let mut total = 0usize;
        let mut there = 0usize;
        let mut full = false;
        for ((place, at), size) in found.into_iter().zip(sizes) {
            let size = match size {
                Some(Value::Int(size)) => usize::try_from(size).unwrap_or(0),
                Some(_) => return Err(BadReply { script: "bodies", expected: "a size" }.into()),
                None => {
                    elements[place].body = Some(Body::WrongType.into());
                    continue;
                }
            };
            (total, there) = (total.saturating_add(size), there + usize::from(size > 0));
            // In the order of the claim: what is behind one that does not fit comes later as well.
            full |= size > left && !read.is_empty();
            if full {
                elements[place].body = Some(Body::NoRoom(size).into());
            } else {
                left = left.saturating_sub(size);
                read.push((place, at, size));
            }
        }
        let mut rest = read.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(page(rest));
            let places: Vec<_> = now.iter().map(|(place, at, _)| (*place, at.clone())).collect();
            for ((place, _), answer) in places.iter().zip(ask(conn, &places, ("GET", "HGET")).await?) {
                elements[*place].body = Some(Box::new(match answer {
                    Some(Value::BulkString(bytes)) => Body::Here { bytes: bytes.into(), read_ms },
                    Some(Value::Nil) => Body::Missing,
                    Some(_) => return Err(BadReply { script: "bodies", expected: "bytes" }.into()),
                    None => Body::WrongType,
                }));
            }
            rest = later;
        }
        Ok(total.checked_div(there))
    }
}

/// Returns the number of these that are read in one round trip: a MiB of them, or a single larger one.
fn page(bodies: &[(usize, BodyAt, usize)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, _, size): &&(usize, BodyAt, usize)| {
        bytes += size;
        bytes <= BATCH_BYTES
    };
    bodies.iter().take_while(fits).count().max(1)
}

/// Sends a command for each body and returns one answer for each; `None` where the key of this one element holds a
/// value of another type. A hash that bodies share must be one: if it is not, nothing is wrong with the element.
async fn ask(
    conn: &Conn,
    bodies: &[(usize, BodyAt)],
    commands: (&str, &str),
) -> Result<Vec<Option<Value>>, StoreError> {
    let mut pipe = redis::pipe();
    for (_, at) in bodies {
        at.command(&mut pipe, commands);
    }
    let answers = conn.pipeline(&pipe).await?;
    let answer = |((_, at), answer): (&(usize, BodyAt), Result<Value, LinkError>)| match answer {
        Ok(value) => Ok(Some(value)),
        Err(LinkError::Server { code: "WRONGTYPE", .. }) if !matches!(at, BodyAt::Shared { .. }) => Ok(None),
        Err(problem) => Err(problem.into()),
    };
    bodies.iter().zip(answers).map(answer).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_page_of_bodies_is_a_mebibyte_or_one_larger_body() {
        let bodies = |sizes: &[usize]| -> Vec<_> {
            sizes.iter().map(|size| (0, BodyAt::Value { key: Bytes::new() }, *size)).collect()
        };
        assert_eq!(page(&bodies(&[BATCH_BYTES + 1, 1])), 1);
        assert_eq!(page(&bodies(&[BATCH_BYTES - 1, 1, 1])), 2);
        assert_eq!(page(&bodies(&[0; 500])), 500);
    }
}
