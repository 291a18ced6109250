//! The two services, and what differs between them.

/// A service of AWS that takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwsService {
    /// Queues.
    Sqs,
    /// Topics.
    Sns,
}

/// Maximum number of messages in a request.
pub(crate) const MOST: usize = 10;

impl AwsService {
    /// Returns the kind in the configuration, which is also the name in host names and in signatures.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            AwsService::Sqs => "sqs",
            AwsService::Sns => "sns",
        }
    }

    /// Returns the name for a person.
    pub(crate) fn title(self) -> &'static str {
        match self {
            AwsService::Sqs => "SQS",
            AwsService::Sns => "SNS",
        }
    }

    /// Returns the bytes that one request may have: of bodies, and of names and values of attributes.
    pub(crate) fn limit(self) -> usize {
        match self {
            AwsService::Sqs => 1 << 20,
            AwsService::Sns => 256 << 10,
        }
    }
}
