//! The meaning of an answer, the same for both services.

use delaybridge_aws::XmlElement;
use delaybridge_http_client::HttpAnswer;

/// Returns whether the service has accepted the request as a whole.
pub(crate) fn is_accepted(answer: &HttpAnswer) -> bool {
    (200..=299).contains(&answer.status)
}

/// An error as the service says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServiceError {
    /// The code of the error; empty if there is none.
    pub(crate) code: String,
    pub(crate) text: String,
    /// The service says that it is the sender's fault.
    pub(crate) is_senders: bool,
}

impl ServiceError {
    /// Finds the error in a document, wherever it is.
    pub(super) fn of_xml(document: &XmlElement) -> Option<ServiceError> {
        let error = document.find("Error")?;
        Some(ServiceError { is_senders: error.text_of("Type") == Some("Sender"), ..ServiceError::of_words(error) })
    }

    /// Reads the error with the code and the text in an element.
    pub(super) fn of_words(element: &XmlElement) -> ServiceError {
        let text = |name| element.text_of(name).unwrap_or_default().to_owned();
        ServiceError { code: text("Code"), text: text("Message"), is_senders: false }
    }
}

/// The answer to one message of a request.
pub(crate) type EntryAnswer = Result<(), ServiceError>;

/// The answer to a request with messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchAnswer {
    /// The answer to each message that has one.
    Each(Vec<Option<EntryAnswer>>),
    /// The request was refused as a whole, with this status.
    Refused(u16, ServiceError),
}

/// The answer to the question for settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlaceAnswer {
    /// Names and values.
    Settings(Vec<(String, String)>),
    /// The request was refused, with this status.
    Refused(u16, ServiceError),
}

/// Puts answers in the places of their messages. An answer to a message that was not sent counts for nothing.
pub(super) fn each(count: usize, answers: impl Iterator<Item = (String, EntryAnswer)>) -> BatchAnswer {
    let mut each = vec![None; count];
    for (id, answer) in answers {
        if let Some(place) = id.parse::<usize>().ok().and_then(|place| each.get_mut(place)) {
            *place = Some(answer);
        }
    }
    BatchAnswer::Each(each)
}
