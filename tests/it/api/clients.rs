//! Foreign clients take a job through its life: two generated from the OpenAPI document, in Python and in Go, and
//! lmstfy's own in Rust.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::start;
use harness::RedisServer;

/// The folder of the tools that `make setup` installs.
pub fn tools() -> PathBuf {
    brokers::openapi().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a command to its end; returns its output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/api").join(name)
}

/// Downloads the document as the daemon serves it.
pub fn document(port: u16, directory: &TempDir) -> PathBuf {
    let file = directory.path().join("openapi.json");
    run(Command::new("curl")
        .args(["-sS", "-f", "-o"])
        .arg(&file)
        .arg(format!("http://127.0.0.1:{port}/v1/openapi.json")));
    file
}

pub fn generate(document: &Path, directory: &TempDir, package: &str) {
    let python = tools().join("python/bin");
    let client = directory.path().join("client");
    let mut generate = Command::new(python.join("openapi-python-client"));
    generate.arg("generate").arg("--path").arg(document).arg("--output-path").arg(&client);
    // The generator formats its output with a program that is installed beside it.
    let path = format!("{}:{}", python.display(), std::env::var("PATH").unwrap_or_default());
    run(generate.args(["--meta", "none", "--fail-on-warning"]).current_dir(directory.path()).env("PATH", path));
    std::fs::rename(&client, directory.path().join(package)).expect("name the package");
}

#[tokio::test]
async fn a_client_generated_for_python_works() {
    let redis = RedisServer::start().await;
    let directory = TempDir::with_prefix("delaybridge-python-").expect("a directory");
    let (mut daemon, port) = start(&redis, "", "").await;
    let document = document(port, &directory);
    let python = tools().join("python/bin/python");
    run(Command::new(&python).args(["-m", "openapi_spec_validator"]).arg(&document));
    generate(&document, &directory, "delaybridge_client");
    let mut use_it = Command::new(python);
    use_it.arg(program("generated.py")).arg(port.to_string()).env("PYTHONPATH", directory.path());
    assert_eq!(run(&mut use_it).trim(), "finished py~1");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn a_client_generated_for_go_works() {
    let redis = RedisServer::start().await;
    let directory = TempDir::with_prefix("delaybridge-go-").expect("a directory");
    let (mut daemon, port) = start(&redis, "", "").await;
    let tools = tools();
    let module = directory.path().join("module");
    run(Command::new("cp").arg("-r").arg(tools.join("go")).arg(&module));
    std::fs::create_dir(module.join("jobs")).expect("make the package");
    let code = run(Command::new(tools.join("oapi-codegen"))
        .args(["-generate", "types,client", "-package", "jobs"])
        .arg(document(port, &directory)));
    std::fs::write(module.join("jobs/jobs.go"), code).expect("write the client");
    std::fs::copy(program("generated.go"), module.join("main.go")).expect("copy the program");
    let mut use_it = Command::new("go");
    use_it.args(["run", "-mod=vendor", ".", &port.to_string()]).current_dir(&module);
    // Only the installed version of Go, and no network.
    use_it.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env("GOFLAGS", "").env("GOCACHE", tools.join("gocache"));
    assert_eq!(run(use_it.env("CGO_ENABLED", "0")).trim(), "finished go~1");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn the_rust_client_of_lmstfy_works_unchanged() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis, "", "  compat: [lmstfy]\n").await;
    let program = brokers::lmstfy_client().unwrap_or_else(|error| panic!("{error}"));
    let said = run(Command::new(program).args([&port.to_string(), "rust-client", "any-token"]));
    assert!(said.ends_with("done\n"), "{said}");
    assert_eq!(daemon.stop().await, 0);
}
