//! CloudEvents 1.0. In binary mode the attributes are headers and the body is the data; in structured mode the body is one
//! JSON object with both.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use redisson_codecs::View;
use serde::Serialize;

use super::{RouteMessage, envelope};
use crate::Payload;
use delaybridge_core::template::{ElementInfo, FillError, Filler, Template};

/// Names of the headers, made once and shared by all elements.
static NAMES: LazyLock<[Arc<str>; 7]> = LazyLock::new(|| {
    ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_subject", "ce_time", "content-type"].map(Arc::from)
});

/// The default type: what has happened is that an element fell due.
pub const TYPE: &str = "delaybridge.element.due";
/// The default source.
pub const SOURCE: &str = "/delaybridge/${queue}";

const STRUCTURED: &str = "application/cloudevents+json; charset=utf-8";
const VERSION: &str = "1.0";

/// The shape of an element's event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventSpec {
    /// The place of the attributes.
    pub mode: EventMode,
    /// The kind of data.
    pub data: EventData,
    /// The attribute `type`.
    #[serde(rename = "type")]
    pub kind: Template,
    /// The attribute `source`.
    pub source: Template,
    /// The attribute `subject`; an empty text leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Template>,
}

/// The place of an event's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventMode {
    /// In headers.
    Binary,
    /// In the body.
    Structured,
}

/// The kind of data of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventData {
    /// The payload's bytes exactly as they came. Only in binary mode.
    Raw,
    /// The decoded value: JSON, or a plain string as its text.
    Decoded,
}

/// The attributes of one event.
struct EventAttributes<'a> {
    id: String,
    source: String,
    kind: String,
    subject: Option<String>,
    time: Option<String>,
    /// The media type of the data.
    content_type: &'a str,
}

impl EventSpec {
    /// Returns the media type of the body.
    pub(super) fn content_type(&self, payload: &Payload) -> &'static str {
        match self.mode {
            EventMode::Binary => self.data_type(payload),
            EventMode::Structured => STRUCTURED,
        }
    }

    /// Builds the body, and the headers in front of the user's.
    ///
    /// # Errors
    /// When a template has nothing to put in, or makes an empty type or source.
    pub(super) fn event(
        &self,
        filler: &Filler<'_>,
        element: &ElementInfo<'_>,
        payload: &Payload,
    ) -> Result<RouteMessage, FillError> {
        let attributes = self.attributes(filler, element, payload)?;
        Ok(match (self.mode, self.data) {
            (EventMode::Binary, EventData::Raw) => {
                RouteMessage { headers: headers(attributes), body: payload.bytes().clone() }
            }
            (EventMode::Binary, EventData::Decoded) => {
                RouteMessage { headers: headers(attributes), body: payload.decoded() }
            }
            (EventMode::Structured, _) => {
                let [.., name] = &*NAMES;
                let headers = vec![(name.clone(), STRUCTURED.to_owned())];
                RouteMessage { headers, body: object(&attributes, payload) }
            }
        })
    }

    fn attributes(
        &self,
        filler: &Filler<'_>,
        element: &ElementInfo<'_>,
        payload: &Payload,
    ) -> Result<EventAttributes<'static>, FillError> {
        let text = |template: &Template, place: &str| filler.text(template, &place);
        let some = |template: &Template, place: &str| match text(template, place)? {
            text if text.is_empty() => Err(FillError::empty(place)),
            text => Ok(text),
        };
        let subject = self.subject.as_ref().map(|subject| text(subject, "cloudevents.subject")).transpose()?;
        Ok(EventAttributes {
            id: element.id.to_string(),
            source: some(&self.source, "cloudevents.source")?,
            kind: some(&self.kind, "cloudevents.type")?,
            subject: subject.filter(|subject| !subject.is_empty()),
            time: element.due_ms.and_then(rfc3339),
            content_type: self.data_type(payload),
        })
    }

    /// Returns the media type of the data.
    fn data_type(&self, payload: &Payload) -> &'static str {
        match (self.mode, self.data, payload.view()) {
            (EventMode::Binary, EventData::Raw, _) => payload.media_type(),
            (_, _, View::Json(_)) => "application/json",
            (_, _, View::Text(_)) => "text/plain; charset=utf-8",
            (_, _, View::Opaque) => "application/octet-stream",
        }
    }
}

fn headers(attributes: EventAttributes<'_>) -> Vec<(Arc<str>, String)> {
    let EventAttributes { id, source, kind, subject, time, content_type } = attributes;
    let values =
        [Some(VERSION.to_owned()), Some(id), Some(source), Some(kind), subject, time, Some(content_type.to_owned())];
    NAMES.iter().cloned().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns the event format of JSON, on one line.
fn object(attributes: &EventAttributes<'_>, payload: &Payload) -> Bytes {
    let EventAttributes { id, source, kind, subject, time, content_type } = attributes;
    let fields = [
        ("id", Some(id)),
        ("source", Some(source)),
        ("type", Some(kind)),
        ("subject", subject.as_ref()),
        ("time", time.as_ref()),
    ];
    let mut body = format!("{{\"specversion\":\"{VERSION}\"").into_bytes();
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        envelope::field(&mut body, name, value);
    }
    envelope::field(&mut body, "datacontenttype", content_type);
    envelope::value(&mut body, "data", payload);
    body.push(b'}');
    body.into()
}

/// Formats a time, as `2023-11-14T22:13:20.123Z`; `None` outside of the years 0 to 9999, which the format cannot name.
///
/// The calendar is computed from days since 0000-03-01, so that the leap day is the last of its year.
fn rfc3339(unix_ms: i64) -> Option<String> {
    const DAY_MS: i64 = 86_400_000;
    let days = unix_ms.div_euclid(DAY_MS);
    let of_day = unix_ms.rem_euclid(DAY_MS);
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months of 153 days in five, from March on.
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let seconds = of_day / 1_000;
    let ms = of_day % 1_000;
    let hour = seconds / 3_600;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    (0..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_rfc_3339() {
        fn check(unix_ms: i64, expected: Option<&str>) {
            assert_eq!(rfc3339(unix_ms).as_deref(), expected, "{unix_ms}");
        }
        check(0, Some("1970-01-01T00:00:00.000Z"));
        check(1_700_000_000_123, Some("2023-11-14T22:13:20.123Z"));
        check(951_782_400_000, Some("2000-02-29T00:00:00.000Z"));
        check(951_868_799_999, Some("2000-02-29T23:59:59.999Z"));
        check(951_868_800_000, Some("2000-03-01T00:00:00.000Z"));
        check(4_107_542_400_000, Some("2100-03-01T00:00:00.000Z"));
        check(1_735_689_599_999, Some("2024-12-31T23:59:59.999Z"));
        check(-1, Some("1969-12-31T23:59:59.999Z"));
        check(253_402_300_799_999, Some("9999-12-31T23:59:59.999Z"));
        check(253_402_300_800_000, None);
        check(-62_167_219_200_000, Some("0000-01-01T00:00:00.000Z"));
        check(-62_167_219_200_001, None);
        check(i64::MAX, None);
        check(i64::MIN, None);
    }

    #[test]
    fn times_agree_with_another_implementation() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..10_000 {
            let unix_ms = random.i64(0..253_402_300_800_000);
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(unix_ms.unsigned_abs());
            assert_eq!(rfc3339(unix_ms), Some(humantime::format_rfc3339_millis(time).to_string()));
        }
    }
}
