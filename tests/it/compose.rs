//! `compose.yaml` and `deploy/compose`: valid by the schema of the Compose specification, and consistent with this daemon.
//!
//! No container engine runs here. `make demo-all` starts the same programs with the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("read {}: {e}", file.display()))
}

fn compose() -> String {
    read(&root().join("compose.yaml"))
}

/// The report of kubeconform on this text; `Err` if it is wrong. It wants objects of Kubernetes: each gets the two fields.
fn judge(yaml: &str) -> Result<(), String> {
    let mut schema: Value =
        serde_json::from_str(&read(&brokers::compose().unwrap_or_else(|e| panic!("{e}")))).expect("JSON");
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = json!({ "type": "string" });
    }
    let dir = tempfile::tempdir().expect("make a directory for the schema");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("write for kubeconform");
    write("compose.json", &schema.to_string());
    write("compose.yaml", &format!("{yaml}\napiVersion: v1\nkind: Compose\n"));
    let output = Command::new(brokers::kubernetes().unwrap_or_else(|e| panic!("{e}")).join("kubeconform"))
        .args(["-strict", "-summary", "-schema-location"])
        .arg(dir.path().join("{{ .ResourceKind }}.json"))
        .arg(dir.path().join("compose.yaml"))
        .stdin(Stdio::null())
        .output()
        .expect("run kubeconform");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn the_file_is_valid_by_the_specification() {
    let text = compose();
    judge(&text).unwrap_or_else(|said| panic!("{said}"));
    for (right, wrong) in [
        ("stop_grace_period: 30s", "stop_grace: 30s"),
        ("condition: service_healthy", "condition: healthy"),
        ("cap_drop: [ALL]", "cap_drop: ALL"),
        ("\nservices:", "\nservice:"),
    ] {
        assert!(text.contains(right), "{right}");
        judge(&text.replace(right, wrong)).expect_err(wrong);
    }
}

/// The files of this repository that are mounted, with their place in the container.
fn mounts() -> BTreeMap<String, PathBuf> {
    let text = compose();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.strip_suffix(":ro"));
    lines.filter_map(|mount| mount.split_once(':')).map(|(from, to)| (to.to_owned(), root().join(from))).collect()
}

#[test]
fn every_mounted_file_is_there_and_readable_for_others() {
    use std::os::unix::fs::PermissionsExt;
    let mounts = mounts();
    assert!(mounts.len() >= 8, "{mounts:?}");
    for (to, from) in &mounts {
        let found = fs::metadata(from).unwrap_or_else(|e| panic!("{}, mounted at {to}: {e}", from.display()));
        // Docker makes a folder of a file that is missing.
        assert!(found.is_file(), "{}", from.display());
        assert_eq!(found.permissions().mode() & 0o004, 0o004, "{}: containers run as other users", from.display());
    }
}

#[test]
fn the_configuration_is_one_that_the_daemon_takes() {
    let file = &mounts()["/etc/delaybridge/delaybridge.yaml"];
    let loaded = delaybridge_config::load(file, &|_| None).expect("it can be loaded");
    assert!(loaded.warnings.is_empty());
    let port = loaded.config.http_listen.expect("it listens").port();
    let text = compose();
    assert!(text.contains(&format!("127.0.0.1:9464:{port}")), "the port that is published");
    // The addresses are names of services, and the queues those that the producer offers to.
    let configuration = read(file);
    for service in ["redis:6379", "kafka:9092"] {
        assert!(
            configuration.contains(service) && text.contains(&format!("  {}:\n", service.split(':').next().unwrap()))
        );
    }
    let producer = read(&root().join("deploy/compose/producer/Producer.java"));
    for queue in ["order:timeout", "reminders"] {
        assert!(
            configuration.contains(&format!("name: \"{queue}\"")) || configuration.contains(&format!("name: {queue} ")),
            "{queue}"
        );
        assert!(producer.contains(&format!("\"{queue}\"")), "{queue}");
    }
}

#[test]
fn prometheus_scrapes_both_daemons_and_grafana_finds_it() {
    let prometheus: Value = serde_yaml::from_str(&read(&mounts()["/etc/prometheus/prometheus.yml"])).expect("YAML");
    let targets = &prometheus["scrape_configs"][0]["static_configs"][0]["targets"];
    let text = compose();
    for target in targets.as_array().expect("targets") {
        let service = target.as_str().and_then(|target| target.strip_suffix(":9464")).expect("the port of the daemon");
        assert!(text.contains(&format!("  {service}:\n")), "{service} is no service");
    }
    // The alerts and the dashboard need it.
    assert!(prometheus["scrape_configs"][0]["job_name"].as_str().is_some_and(|name| name.contains("delaybridge")));
    assert!(mounts().contains_key(prometheus["rule_files"][0].as_str().expect("the rules")));
    let sources: Value =
        serde_yaml::from_str(&read(&root().join("deploy/compose/grafana/datasources.yaml"))).expect("YAML");
    assert_eq!(sources["datasources"][0]["url"], "http://prometheus:9090");
    assert!(mounts().contains_key("/dashboards/delaybridge.json"));
}

/// Nothing is open to the network, and no image is a moving one.
#[test]
fn ports_are_for_this_machine_and_images_have_versions() {
    let text = compose();
    for line in text.lines().filter(|line| line.contains("ports:")) {
        assert!(line.contains("\"127.0.0.1:"), "{line}");
    }
    for line in text.lines().map(str::trim).filter(|line| line.starts_with("image:")) {
        let tag = line.rsplit_once(':').expect("a tag").1;
        assert!(tag.starts_with(|c: char| c.is_ascii_digit() || c == 'v') && tag.contains('.'), "{line}");
    }
    assert!(text.contains(&format!("image: delaybridge:{}\n", env!("CARGO_PKG_VERSION"))));
}
