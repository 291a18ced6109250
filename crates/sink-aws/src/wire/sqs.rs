//! SQS: JSON both ways.

use bytes::Bytes;
use serde_json::json;

use super::answer::{BatchAnswer, EntryAnswer, PlaceAnswer, ServiceError, each, is_accepted};
use super::message::{WireMessage, WireRequest};
use delaybridge_aws::XmlElement;
use delaybridge_core::json::Json;
use delaybridge_http_client::HttpAnswer;

/// Members of an answer that are looked at, at most.
const MEMBERS: usize = 64;
const JSON: (&str, &str) = ("content-type", "application/x-amz-json-1.0");

pub(super) fn send(queue_url: &str, messages: &[WireMessage<'_>]) -> WireRequest {
    let room = messages.iter().map(|message| message.size() + message.size() / 8 + 512).sum();
    let mut out = Vec::with_capacity(room);
    out.extend_from_slice(b"{\"QueueUrl\":");
    text(&mut out, queue_url);
    out.extend_from_slice(b",\"Entries\":[");
    for (place, message) in messages.iter().enumerate() {
        out.extend_from_slice(if place == 0 { b"{\"Id\":\"" } else { b",{\"Id\":\"" });
        out.extend_from_slice(place.to_string().as_bytes());
        out.extend_from_slice(b"\",\"MessageBody\":");
        text(&mut out, &message.body);
        let ids = [("MessageGroupId", &message.group), ("MessageDeduplicationId", &message.deduplication)];
        for (name, value) in ids.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            text(&mut out, value);
        }
        out.extend_from_slice(b",\"MessageAttributes\":{");
        for (number, (name, value)) in message.attributes.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            text(&mut out, name);
            out.extend_from_slice(b":{\"DataType\":\"String\",\"StringValue\":");
            text(&mut out, value);
            out.push(b'}');
        }
        out.extend_from_slice(b"}}");
    }
    out.extend_from_slice(b"]}");
    WireRequest { headers: vec![JSON, ("x-amz-target", "AmazonSQS.SendMessageBatch")], body: out.into() }
}

pub(super) fn look(queue_url: &str) -> WireRequest {
    let body = json!({ "QueueUrl": queue_url, "AttributeNames": ["All"] }).to_string();
    WireRequest { headers: vec![JSON, ("x-amz-target", "AmazonSQS.GetQueueAttributes")], body: body.into() }
}

fn text(out: &mut Vec<u8>, value: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, value);
}

pub(super) fn sent(answer: &HttpAnswer, count: usize) -> BatchAnswer {
    let members = members(&answer.body);
    if !is_accepted(answer) {
        return BatchAnswer::Refused(answer.status, error(answer, &members));
    }
    let entries = |name: &str| member(&members, name).and_then(|list| list.items(2 * count).ok()).unwrap_or_default();
    let taken = entries("Successful").into_iter().map(|entry| (entry, true));
    let refused = entries("Failed").into_iter().map(|entry| (entry, false));
    each(count, taken.chain(refused).filter_map(|(entry, is_taken)| entry_answer(&entry, is_taken)))
}

fn entry_answer(entry: &Json, is_taken: bool) -> Option<(String, EntryAnswer)> {
    let members = entry.members(MEMBERS).ok()?;
    let id = text_in(&members, "Id")?;
    if is_taken {
        // A message that SQS has, has an id there.
        return text_in(&members, "MessageId").filter(|id| !id.is_empty()).map(|_| (id, Ok(())));
    }
    let is_senders = member(&members, "SenderFault").and_then(Json::flag).unwrap_or(false);
    let code = text_in(&members, "Code");
    let text = text_in(&members, "Message");
    let error = ServiceError { code: code.unwrap_or_default(), text: text.unwrap_or_default(), is_senders };
    Some((id, Err(error)))
}

pub(super) fn looked(answer: &HttpAnswer) -> PlaceAnswer {
    let members = members(&answer.body);
    if !is_accepted(answer) {
        return PlaceAnswer::Refused(answer.status, error(answer, &members));
    }
    let settings = member(&members, "Attributes").and_then(|found| found.members(MEMBERS).ok()).unwrap_or_default();
    let texts = settings.into_iter().filter_map(|(name, value)| Some((name, owned(&value.text()?))));
    PlaceAnswer::Settings(texts.collect())
}

/// Reads the error in an answer. Its word is behind `#` in `__type`; a header has an older one.
fn error(answer: &HttpAnswer, members: &[(String, Json)]) -> ServiceError {
    if members.is_empty()
        && let Some(document) = std::str::from_utf8(&answer.body).ok().and_then(XmlElement::read)
    {
        // What is in front of the service may speak its older protocol.
        return ServiceError::of_xml(&document).unwrap_or_default();
    }
    let kind = text_in(members, "__type");
    let code = kind.as_deref().and_then(|kind| kind.rsplit('#').next()).unwrap_or_default().to_owned();
    let text = text_in(members, "message").or_else(|| text_in(members, "Message")).unwrap_or_default();
    let header = answer.headers.get("x-amzn-query-error").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_senders = header.ends_with(";Sender");
    ServiceError { code, text, is_senders }
}

fn members(body: &Bytes) -> Vec<(String, Json)> {
    Json::read(body.clone()).ok().and_then(|json| json.members(MEMBERS).ok()).unwrap_or_default()
}

fn member<'a>(members: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

fn text_in(members: &[(String, Json)], name: &str) -> Option<String> {
    member(members, name)?.text().map(|text| owned(&text))
}

fn owned(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> HttpAnswer {
        HttpAnswer { status, headers: hyper::HeaderMap::new(), body: body.into() }
    }

    #[test]
    fn a_request_is_json_with_an_entry_for_each_message() {
        let message = |body: &'static str| WireMessage {
            body: body.into(),
            attributes: vec![("a".into(), "x\"y".into()), ("b".into(), "2".into())],
            group: Some("g".into()),
            deduplication: None,
        };
        let request = send("https://q/1/o", &[message("one\n"), message("two")]);
        let read: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let attributes = json!({
            "a": { "DataType": "String", "StringValue": "x\"y" },
            "b": { "DataType": "String", "StringValue": "2" },
        });
        let entry =
            |id, body| json!({ "Id": id, "MessageBody": body, "MessageGroupId": "g", "MessageAttributes": attributes });
        let entries = [entry("0", "one\n"), entry("1", "two")];
        assert_eq!(read, json!({ "QueueUrl": "https://q/1/o", "Entries": entries }));
    }

    #[test]
    fn only_an_id_confirms_and_each_message_has_its_answer() {
        let text = r#"{"Successful":[{"Id":"0","MessageId":"m"},{"Id":"2","MessageId":""},{"Id":"9","MessageId":"m"}],
            "Failed":[{"Id":"1","Code":"InvalidMessageContents","Message":"why","SenderFault":true},{"Id":"x","Code":"c"}]}"#;
        let error = ServiceError { code: "InvalidMessageContents".into(), text: "why".into(), is_senders: true };
        assert_eq!(sent(&answer(200, text), 3), BatchAnswer::Each(vec![Some(Ok(())), Some(Err(error)), None]));
        for text in ["", "{}", "[]", r#"{"Successful":{}}"#, r#"{"Successful":[1,"0",{}]}"#, "<html>"] {
            assert_eq!(sent(&answer(200, text), 1), BatchAnswer::Each(vec![None]), "{text}");
        }
        let text = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"gone"}"#;
        let error = ServiceError { code: "QueueDoesNotExist".into(), text: "gone".into(), is_senders: false };
        assert_eq!(sent(&answer(400, text), 1), BatchAnswer::Refused(400, error));
        let text = "<ErrorResponse><Errors><Error><Code>InvalidClientTokenId</Code></Error></Errors></ErrorResponse>";
        assert!(
            matches!(sent(&answer(403, text), 1), BatchAnswer::Refused(403, error) if error.code == "InvalidClientTokenId")
        );
        assert_eq!(sent(&answer(502, "<html>"), 1), BatchAnswer::Refused(502, ServiceError::default()));
    }

    #[test]
    fn settings_are_read() {
        let text = r#"{"Attributes":{"FifoQueue":"true","MaximumMessageSize":"1024"}}"#;
        let expected = [("FifoQueue", "true"), ("MaximumMessageSize", "1024")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        assert_eq!(looked(&answer(200, text)), PlaceAnswer::Settings(expected));
        assert!(matches!(looked(&answer(403, "")), PlaceAnswer::Refused(403, _)));
    }
}
