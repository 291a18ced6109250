//! The OpenAPI document passes a validator, and a client generated from it works.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::start;
use crate::api::clients::{document, generate, run, tools};
use harness::RedisServer;

#[tokio::test]
async fn a_client_generated_from_the_document_works() {
    let redis = RedisServer::start().await;
    let directory = TempDir::with_prefix("delaybridge-admin-").expect("a directory");
    let (mut daemon, port) = start(&redis).await;
    let document = document(port, &directory);
    let python = tools().join("python/bin/python");
    run(Command::new(&python).args(["-m", "openapi_spec_validator"]).arg(&document));
    generate(&document, &directory, "delaybridge_admin");
    // The client asks for an element that does not exist any more.
    daemon.expect_log("an operator's change failed");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/admin/generated.py");
    let mut use_it = Command::new(python);
    use_it.arg(program).args([&port.to_string(), "orders"]).env("PYTHONPATH", directory.path());
    assert_eq!(run(&mut use_it).trim(), "scheduled 28");
    assert_eq!(daemon.stop().await, 0);
}
