//! SNS: a form as the question, XML as the answer.

use form_urlencoded::Serializer;

use super::answer::{BatchAnswer, EntryAnswer, PlaceAnswer, ServiceError, each, is_accepted};
use super::message::{WireMessage, WireRequest};
use delaybridge_aws::XmlElement;
use delaybridge_http_client::HttpAnswer;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");

pub(super) fn send(topic_arn: &str, messages: &[WireMessage<'_>]) -> WireRequest {
    let mut form = begin("PublishBatch", topic_arn);
    for (place, message) in messages.iter().enumerate() {
        let entry = format!("PublishBatchRequestEntries.member.{}", place + 1);
        form.append_pair(&format!("{entry}.Id"), &place.to_string());
        form.append_pair(&format!("{entry}.Message"), &message.body);
        let ids = [("MessageGroupId", &message.group), ("MessageDeduplicationId", &message.deduplication)];
        for (name, value) in ids.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            form.append_pair(&format!("{entry}.{name}"), value);
        }
        for (number, (name, value)) in message.attributes.iter().enumerate() {
            let attribute = format!("{entry}.MessageAttributes.entry.{}", number + 1);
            form.append_pair(&format!("{attribute}.Name"), name);
            form.append_pair(&format!("{attribute}.Value.DataType"), "String");
            form.append_pair(&format!("{attribute}.Value.StringValue"), value);
        }
    }
    WireRequest { headers: vec![FORM], body: form.finish().into() }
}

pub(super) fn look(topic_arn: &str) -> WireRequest {
    WireRequest { headers: vec![FORM], body: begin("GetTopicAttributes", topic_arn).finish().into() }
}

fn begin(action: &str, topic_arn: &str) -> Serializer<'static, String> {
    let mut form = Serializer::new(String::new());
    form.append_pair("Action", action).append_pair("Version", "2010-03-31").append_pair("TopicArn", topic_arn);
    form
}

pub(super) fn sent(answer: &HttpAnswer, count: usize) -> BatchAnswer {
    let document = document(answer);
    if !is_accepted(answer) {
        return BatchAnswer::Refused(answer.status, error(document.as_ref()));
    }
    let result = document.as_ref().and_then(|document| document.child("PublishBatchResult"));
    let members = |name| result.and_then(|result| result.child(name)).map_or(&[][..], |list| &list.children);
    let taken = members("Successful").iter().filter_map(|member| {
        // A message that SNS has, has an id there.
        let has_id = member.text_of("MessageId").is_some_and(|id| !id.is_empty());
        Some((member.text_of("Id")?.to_owned(), Ok(()))).filter(|_| has_id)
    });
    let refused =
        members("Failed").iter().filter_map(|member| Some((member.text_of("Id")?.to_owned(), refusal(member))));
    each(count, taken.chain(refused))
}

fn refusal(member: &XmlElement) -> EntryAnswer {
    Err(ServiceError { is_senders: member.text_of("SenderFault") == Some("true"), ..ServiceError::of_words(member) })
}

pub(super) fn looked(answer: &HttpAnswer) -> PlaceAnswer {
    let document = document(answer);
    if !is_accepted(answer) {
        return PlaceAnswer::Refused(answer.status, error(document.as_ref()));
    }
    let found = document.as_ref().and_then(|document| document.at(&["GetTopicAttributesResult", "Attributes"]));
    let entries = found.map_or(&[][..], |found| &found.children);
    let texts =
        entries.iter().filter_map(|entry| Some((entry.text_of("key")?.to_owned(), entry.text_of("value")?.to_owned())));
    PlaceAnswer::Settings(texts.collect())
}

fn document(answer: &HttpAnswer) -> Option<XmlElement> {
    std::str::from_utf8(&answer.body).ok().and_then(XmlElement::read)
}

fn error(document: Option<&XmlElement>) -> ServiceError {
    document.and_then(ServiceError::of_xml).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> HttpAnswer {
        HttpAnswer { status, headers: hyper::HeaderMap::new(), body: body.into() }
    }

    #[test]
    fn a_request_is_a_form_with_an_entry_for_each_message() {
        let message = WireMessage {
            body: "a b&c".into(),
            attributes: vec![("h".into(), "v".into())],
            group: Some("g".into()),
            deduplication: Some("d".into()),
        };
        let request = send("arn:aws:sns:eu-west-1:1:t", &[message]);
        let entry = "PublishBatchRequestEntries.member.1";
        let expected = format!(
            "Action=PublishBatch&Version=2010-03-31&TopicArn=arn%3Aaws%3Asns%3Aeu-west-1%3A1%3At&{entry}.Id=0&{entry}.Message=a+b%26c\
             &{entry}.MessageGroupId=g&{entry}.MessageDeduplicationId=d&{entry}.MessageAttributes.entry.1.Name=h\
             &{entry}.MessageAttributes.entry.1.Value.DataType=String&{entry}.MessageAttributes.entry.1.Value.StringValue=v"
        );
        assert_eq!(request.body, expected);
    }

    #[test]
    fn only_an_id_confirms_and_each_message_has_its_answer() {
        let text = "<PublishBatchResponse xmlns=\"http://sns\"><PublishBatchResult><Failed><member><Id>1</Id><Code>InternalError</Code>\
                    <Message>why</Message><SenderFault>false</SenderFault></member></Failed><Successful><member><Id>0</Id>\
                    <MessageId>m</MessageId></member><member><Id>2</Id></member></Successful></PublishBatchResult></PublishBatchResponse>";
        let error = ServiceError { code: "InternalError".into(), text: "why".into(), is_senders: false };
        assert_eq!(sent(&answer(200, text), 3), BatchAnswer::Each(vec![Some(Ok(())), Some(Err(error)), None]));
        for text in ["", "<a/>", "{}", "<PublishBatchResponse/>"] {
            assert_eq!(sent(&answer(200, text), 1), BatchAnswer::Each(vec![None]), "{text}");
        }
        let text = "<ErrorResponse><Error><Type>Sender</Type><Code>NotFound</Code><Message>gone</Message></Error></ErrorResponse>";
        let error = ServiceError { code: "NotFound".into(), text: "gone".into(), is_senders: true };
        assert_eq!(sent(&answer(404, text), 1), BatchAnswer::Refused(404, error));
        assert_eq!(sent(&answer(503, "busy"), 1), BatchAnswer::Refused(503, ServiceError::default()));
    }

    #[test]
    fn settings_are_read() {
        let text = "<GetTopicAttributesResponse><GetTopicAttributesResult><Attributes><entry><key>FifoTopic</key><value>true</value>\
                    </entry></Attributes></GetTopicAttributesResult></GetTopicAttributesResponse>";
        assert_eq!(
            looked(&answer(200, text)),
            PlaceAnswer::Settings(vec![("FifoTopic".to_owned(), "true".to_owned())])
        );
    }
}
