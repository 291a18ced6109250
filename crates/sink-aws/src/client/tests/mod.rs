//! The sink against ElasticMQ and moto, and against a server that answers as it is told.

mod queues;
mod scripted;
mod tls;
mod topics;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::{AwsDestination, AwsService, AwsSink, AwsSpec};
use delaybridge_aws::AwsLoginSpec;
use delaybridge_dial::ProxyChoice;
use delaybridge_http_client::HttpOrigin;
use delaybridge_sink::Destination;

/// Writes a file that another test may be reading: it never sees half of it.
fn write_whole(file: &Path, text: &str) {
    let whole = file.with_extension(format!("{:x}", fastrand::u64(..)));
    std::fs::write(&whole, text).unwrap();
    std::fs::rename(whole, file).unwrap();
}

/// The headers of a message: its attributes, with those that are in the JSON of one.
fn with_more(mut attributes: Vec<(String, String)>) -> Vec<(String, String)> {
    let more = attributes.iter().position(|(name, _)| name == "delaybridge-headers");
    let more = more.map(|place| attributes.swap_remove(place).1);
    let more: BTreeMap<String, String> = more.map_or_else(BTreeMap::new, |text| serde_json::from_str(&text).unwrap());
    attributes.extend(more);
    attributes
}

/// A sink of the server at this port of 127.0.0.1. Its credentials are in a file of `folder`.
fn spec(service: AwsService, port: u16, folder: &Path) -> AwsSpec {
    let file = folder.join("aws-credentials");
    write_whole(&file, "[default]\naws_access_key_id = AKIATEST\naws_secret_access_key = geheim\n");
    AwsSpec {
        service,
        origin: HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port },
        login: AwsLoginSpec { region: "eu-west-1".to_owned(), credentials_file: Some(file), ..AwsLoginSpec::default() },
        tls: None,
        proxy: ProxyChoice::Direct,
        connect_timeout: Duration::from_secs(5),
        max_concurrency: 16,
    }
}

/// A sink that no slow machine makes time out.
fn patient_sink(spec: AwsSpec) -> Arc<AwsSink> {
    Arc::new(AwsSink::new(spec, Duration::from_secs(60)))
}

fn destination(service: AwsService, place: &str, group: Option<&str>) -> Destination {
    AwsDestination { service, place: place.into(), group: group.map(Into::into), deduplication: None }.into()
}

#[test]
fn drawbacks_of_a_queue_are_named() {
    let check = |settings: &[(&str, &str)], expected: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = super::drawbacks("queue q", &settings);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
    };
    check(&[("MaximumMessageSize", "1048576"), ("MessageRetentionPeriod", "345600"), ("FifoQueue", "true")], &[]);
    check(&[("MaximumMessageSize", "1024")], &["queue q takes messages of 1024 bytes at most"]);
    check(&[("MessageRetentionPeriod", "60"), ("x", "")], &["queue q drops messages after 60 s"]);
}
