//! The API over TLS with tokens, as used with `curl`.

use std::process::Command;

use tempfile::TempDir;

use super::start;
use harness::RedisServer;
use harness::tls::Pki;

#[tokio::test]
async fn the_api_is_served_over_tls_to_those_with_a_token() {
    let redis = RedisServer::start().await;
    let directory = TempDir::with_prefix("delaybridge-https-").expect("make a directory for certificates");
    let pki = Pki::create(directory.path());
    let tokens = directory.path().join("tokens.yaml");
    // printf %s geheim | sha256sum
    let hash = "addb0f5e7826c857d7376d1bd9bc33c0c544790a2eac96144a8af22b1298c940";
    let text = format!("tokens: {{ shop: {{ sha256: {hash}, grants: [{{ topics: [orders], rights: [add] }}] }} }}\n");
    harness::write_secret(&tokens, &text);
    let http = format!(
        "  tls: {{ cert_file: {}, key_file: {} }}\n  tokens_file: {}\n",
        pki.server_cert.display(),
        pki.server_key.display(),
        tokens.display()
    );
    let (mut daemon, port) = start(&redis, "", &http).await;
    let curl = |token: &str, path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-o", "-", "-w", " %{http_code}", "--cacert"]).arg(&pki.ca);
        curl.args(["-H", &format!("authorization: Bearer {token}"), "--json", r#"{"body":1}"#]);
        let output = curl.arg(format!("https://127.0.0.1:{port}{path}")).output().expect("run curl");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let added = curl("geheim", "/v1/topics/orders/jobs");
    assert!(added.ends_with(" 201"), "{added}");
    daemon.expect_log("refused a request to the job queue");
    let refused = curl("geheim", "/v1/topics/audit/jobs");
    assert!(refused.contains("has not the right `add`") && refused.ends_with(" 403"), "{refused}");
    assert!(curl("falsch", "/v1/topics/orders/jobs").ends_with(" 401"));
    let log = daemon.log().all().join("\n");
    assert!(!log.contains("geheim") && !log.contains("falsch") && !log.contains(hash), "{log}");
    assert_eq!(daemon.stop().await, 0);
}
