//! A server of `https://`: with a certificate of an authority that is trusted, or not.

use std::sync::Arc;

use brokers::tls::Certificates;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::scripted::serve;
use super::{destination, patient_sink, spec};
use crate::{AwsService, AwsSpec};
use delaybridge_core::message::Class;
use delaybridge_http_client::HttpOrigin;
use delaybridge_settings::TlsFiles;
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let files = Certificates::create(&folder.path().join("tls")).unwrap();
    delaybridge_dial::init();
    let chain = CertificateDer::pem_file_iter(&files.server_cert).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&files.server_key).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::<parking_lot::Mutex<usize>>::default();
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            let counted = counted.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.ok()?;
                *counted.lock() += 1;
                serve(AwsService::Sqs, stream, Arc::default(), Arc::default()).await
            });
        }
    });
    let origin = HttpOrigin { tls: true, host: "127.0.0.1".to_owned(), port };
    let spec = AwsSpec { origin, ..spec(AwsService::Sqs, port, folder.path()) };
    let message = || outbound(1, destination(AwsService::Sqs, "https://sqs.eu-west-1.amazonaws.com/1/q", None), "x");
    let trusting = TlsFiles { ca_file: Some(files.ca.clone()), client: None, ..TlsFiles::default() };
    let sink = patient_sink(AwsSpec { tls: Some(trusting), ..spec.clone() });
    for _ in 0..5 {
        sink.deliver(message()).await.unwrap();
    }
    assert_eq!(*connections.lock(), 1, "a connection is kept");
    let failure = patient_sink(spec).deliver(message()).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "tls"), "{failure}");
}
