//! What a client takes, by the lists of its `Accept` headers.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue};

struct Entry<'a> {
    /// The name: a media type or a coding.
    name: &'a str,
    version: Option<&'a str>,
    /// The weight (`q`), from 0 to 1; 0 refuses it.
    weight: f32,
}

impl<'a> Entry<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut entry = Entry { name: parts.next().unwrap_or_default(), version: None, weight: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim_end() {
                key if key.eq_ignore_ascii_case("q") => entry.weight = value.trim().parse().unwrap_or(0.0),
                key if key.eq_ignore_ascii_case("version") => entry.version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        entry
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Returns the highest weight of the entries that `fits` accepts; `None` if there is none.
fn weight(headers: &HeaderMap, header: HeaderName, fits: impl Fn(&Entry) -> bool) -> Option<f32> {
    let texts = headers.get_all(header).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let entries = texts.flat_map(|text| text.split(',')).map(Entry::of).filter(fits);
    entries.map(|entry| entry.weight).reduce(f32::max)
}

/// Returns whether OpenMetrics 1.0 is asked for by its name, and no less than the text format of Prometheus.
pub fn wants_openmetrics(headers: &HeaderMap) -> bool {
    let openmetrics = weight(headers, ACCEPT, |entry| {
        entry.is("application/openmetrics-text") && entry.version.is_none_or(|version| version == "1.0.0")
    });
    let text = weight(headers, ACCEPT, |entry| ["text/plain", "text/*", "*/*"].iter().any(|name| entry.is(name)));
    openmetrics.is_some_and(|weight| weight > 0.0 && weight >= text.unwrap_or(0.0))
}

/// Returns whether the client reads gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let of = |names: &[&str]| weight(headers, ACCEPT_ENCODING, |entry| names.iter().any(|name| entry.is(name)));
    of(&["gzip", "x-gzip"]).or_else(|| of(&["*"])).is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(header: HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (header.clone(), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn openmetrics_is_for_those_who_name_it() {
        // What Prometheus 2.42, 2.49 and 3.1 send.
        let prometheus = [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ];
        for accept in prometheus {
            assert!(wants_openmetrics(&headers(ACCEPT, &[accept])), "{accept}");
        }
        for (accept, wanted) in [
            (&["application/openmetrics-text"][..], true),
            (&["text/plain;q=0.5", "Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.9"], true),
            (&["application/openmetrics-text; q=0.5, text/plain"], false),
            (&["application/openmetrics-text; q=0"], false),
            (&["application/openmetrics-text; q=often"], false),
            (&["application/openmetrics-text; version=0.0.1"], false),
            (&["application/openmetrics-text; version=2.0.0"], false),
            (&["*/*"], false),
            (&["text/html, */*;q=0.1"], false),
            (&[""], false),
            (&[], false),
        ] {
            assert_eq!(wants_openmetrics(&headers(ACCEPT, accept)), wanted, "{accept:?}");
        }
    }

    #[test]
    fn gzip_is_for_those_who_read_it() {
        for (accept, wanted) in [
            (&["gzip"][..], true),
            (&["deflate, GZIP;q=0.5"], true),
            (&["br", "x-gzip"], true),
            (&["*"], true),
            (&["gzip;q=0, *"], false),
            (&["*;q=0"], false),
            (&["identity"], false),
            (&[], false),
        ] {
            assert_eq!(takes_gzip(&headers(ACCEPT_ENCODING, accept)), wanted, "{accept:?}");
        }
    }
}
