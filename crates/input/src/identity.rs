//! From a message's own id to the id of its job. Pure.

use delaybridge_jobs::LocalId;
use xxhash_rust::xxh3::xxh3_128;

/// Returns the id of the job of a message with this id. `delivered_ms` is the due time at which a queue of ours
/// delivered it before: a consumer that sends it again means another delay, and not the message that has been.
///
/// An id with letters that a job's id cannot have, or one that is too long, becomes its hash: `h~` and 32 digits.
pub fn job_id(id: &str, delivered_ms: Option<&str>) -> Option<LocalId> {
    let text = match delivered_ms {
        Some(due) => format!("{id}~{due}"),
        None => id.to_owned(),
    };
    text.parse().or_else(|_| format!("h~{:032x}", xxh3_128(text.as_bytes())).parse()).ok()
}

/// Returns the id of a job whose body differs from that of another job with this id: the id and a hash of the body.
pub fn contents_id(id: &LocalId, body: &[u8]) -> Option<LocalId> {
    job_id(&format!("{id}~{:032x}", xxh3_128(body)), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_readable_where_it_can() {
        fn check(id: &str, delivered_ms: Option<&str>, expected: &str) {
            assert_eq!(job_id(id, delivered_ms).map(|id| id.to_string()).as_deref(), Some(expected), "{id}");
        }
        check("order-4711", None, "order-4711");
        check("order-4711", Some("1800000000000"), "order-4711~1800000000000");
        check("a b", None, "h~e932d71afddc92588044f8a624582c4c");
        let long = "x".repeat(129);
        assert_eq!(job_id(&long, None).map(|id| id.as_str().len()), Some(34));
        assert_ne!(job_id(&long, None), job_id(&"y".repeat(129), None));
        assert_eq!(job_id(&long, None), job_id(&long, None));
    }
}
