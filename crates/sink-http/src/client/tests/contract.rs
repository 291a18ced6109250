//! The contract of every sink: over HTTP/1.1, over TLS, over HTTP/2, and where the server takes few streams.

use std::sync::Arc;

use hyper::header::HeaderValue;

use super::server::{Options, Server};
use super::*;
use delaybridge_sink::{HeaderRules, header_rules};
use delaybridge_testing::sink::{ReceivedMessage, Rig};
use delaybridge_testing::sink_contract_tests;

struct HttpRig {
    server: Server,
}

impl HttpRig {
    async fn new(options: Options) -> HttpRig {
        let server = Server::with(options).await;
        server.answer("/refused", 404, &[]);
        HttpRig { server }
    }
}

impl Rig for HttpRig {
    async fn sink(&self, timeout: Duration) -> Arc<dyn Sink> {
        Arc::new(HttpSink::new(self.server.spec(), timeout))
    }

    fn destination(&self) -> Destination {
        to("/orders?from=queue")
    }

    fn refusing(&self) -> Destination {
        to("/refused")
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn batch(&self) -> u64 {
        100
    }

    async fn received(&mut self) -> Vec<Vec<u8>> {
        self.server.seen().into_iter().map(|seen| seen.body).collect()
    }

    fn header_rules(&self) -> &'static HeaderRules {
        &header_rules::HTTP
    }

    async fn received_with_headers(&mut self) -> Vec<ReceivedMessage> {
        let text = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec()).unwrap();
        let seen = self.server.seen().into_iter();
        seen.map(|seen| {
            let headers = seen.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
            (seen.body.clone(), headers.collect())
        })
        .collect()
    }

    async fn outage(&mut self) {
        self.server.stop();
    }

    async fn recover(&mut self) {
        self.server.listen().await;
    }

    async fn stall(&mut self) {
        self.server.stall(true);
    }

    async fn resume(&mut self) {
        self.server.stall(false);
    }
}

mod http1 {
    use super::*;
    sink_contract_tests!(HttpRig::new(Options::default()).await);
}

mod http1_over_tls {
    use super::*;
    sink_contract_tests!(HttpRig::new(Options { alpn: Some(vec!["http/1.1"]), ..Options::default() }).await);
}

mod http2 {
    use super::*;
    sink_contract_tests!(HttpRig::new(Options { alpn: Some(vec!["h2", "http/1.1"]), ..Options::default() }).await);
}

mod http2_with_few_streams {
    use super::*;
    sink_contract_tests!(
        HttpRig::new(Options { alpn: Some(vec!["h2"]), max_streams: Some(3), ..Options::default() }).await
    );
}
