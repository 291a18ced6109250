//! `deploy/kubernetes`: valid, consistent with this daemon, and working.

mod chart;
mod chart_around;
mod chart_options;
mod helm;
mod rendered;
mod scaling;
mod schemas;
mod sidecar;
mod upgrades;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use harness::daemon::{ConfigFile, cli};
use harness::tls::Pki;
use rendered::{Overlay, containers, folder, items, selects};

/// The files that the daemon finds in `/etc/delaybridge`.
fn mounted(overlay: &Overlay) -> ConfigFile {
    let config = ConfigFile::new(overlay.configuration());
    let folder = config.path().parent().unwrap().to_owned();
    let pki = Pki::create(&folder);
    for key in overlay.secret_keys() {
        let content = if key.ends_with(".pem") { fs::read_to_string(&pki.ca).unwrap() } else { "secret".to_owned() };
        config.write(&key, &content);
    }
    config
}

#[test]
fn every_configuration_passes_check_with_the_secret_that_its_overlay_asks_for() {
    for overlay in Overlay::all() {
        let config = mounted(overlay);
        let output = cli(&config, &["check"]);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{}: {said}", overlay.folder.display());
        for key in overlay.secret_keys() {
            assert!(overlay.configuration().contains(&key), "{key} is created and never read");
        }
    }
}

#[test]
fn ports_and_times_are_those_of_the_configuration() {
    for overlay in Overlay::all() {
        let name = overlay.folder.display();
        let config = mounted(overlay);
        let loaded = delaybridge_config::load(&config.path(), &|_| None).expect("it passed check");
        let config = loaded.config;
        let daemon = overlay.daemon();
        let port = &items(&daemon["ports"])[0];
        assert_eq!(port["containerPort"], config.http_listen.expect("probes need it").port(), "{name}");
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            assert!(daemon[probe].is_null() || daemon[probe]["httpGet"]["port"] == port["name"], "{name}: {probe}");
        }
        for endpoint in overlay.of_kind("PodMonitor").flat_map(|m| items(&m["spec"]["podMetricsEndpoints"])) {
            assert_eq!(endpoint["port"], port["name"], "{name}: PodMonitor");
        }
        let grace = overlay.pod()["spec"]["terminationGracePeriodSeconds"].as_u64().expect("written down");
        assert!(grace > config.shutdown_timeout.as_secs(), "{name}: {grace} s for {:?}", config.shutdown_timeout);
        // Long enough for the first probes of the sinks, so that a wrong address stops a rollout.
        for deployment in
            overlay.of_kind("Deployment").filter(|deployment| deployment["metadata"]["name"] == "delaybridge")
        {
            assert!(deployment["spec"]["minReadySeconds"].as_u64() >= Some(10), "{name}: minReadySeconds");
        }
        // A ready replica must deliver, but a ready application need not.
        let sidecar = daemon["restartPolicy"] == "Always";
        assert_eq!(daemon["readinessProbe"].is_null(), sidecar, "{name}");
    }
}

/// The ports that the configuration connects to.
fn ports_out(config: &Value) -> BTreeSet<u64> {
    let port = |text: &str| text.rsplit(':').next().and_then(|end| end.split('/').next()?.parse().ok());
    match config {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match key.as_str() {
                "url" => value.as_str().and_then(port).into_iter().collect(),
                "brokers" => items(value).into_iter().filter_map(|broker| port(broker.as_str()?)).collect(),
                _ => ports_out(value),
            })
            .collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn the_network_policies_let_out_what_the_configuration_connects_to() {
    let overlay = Overlay::named("deployment");
    let wanted = ports_out(&serde_yaml::from_str(overlay.configuration()).expect("the configuration"));
    assert_eq!(wanted, [6379, 9093].into());
    let rules: Vec<_> = overlay.of_kind("NetworkPolicy").flat_map(|policy| items(&policy["spec"]["egress"])).collect();
    let open: BTreeSet<u64> =
        rules.iter().flat_map(|rule| items(&rule["ports"])).filter_map(|port| port["port"].as_u64()).collect();
    assert_eq!(open, &wanted | &[53, 5353].into());
}

#[test]
fn selectors_find_the_daemons_pods() {
    for overlay in Overlay::all() {
        let labels = &overlay.pod()["metadata"]["labels"];
        for (kind, selector) in [
            ("Deployment", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector"),
            ("NetworkPolicy", "/spec/podSelector"),
            ("PodMonitor", "/spec/selector"),
        ] {
            for object in overlay.of_kind(kind) {
                let selector = object.pointer(selector).unwrap_or_else(|| panic!("a selector in {object}"));
                assert!(selects(selector, labels), "{kind} {selector} does not select {labels}");
            }
        }
    }
    assert_eq!(Overlay::named("deployment").of_kind("Deployment").next().unwrap()["spec"]["replicas"], 2);
}

/// The requirements of the Pod Security Standard `restricted`, and a read-only root file system.
#[test]
fn every_container_is_restricted() {
    for overlay in Overlay::all() {
        for deployment in overlay.of_kind("Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            for field in ["hostNetwork", "hostPID", "hostIPC"] {
                assert!(pod[field].is_null(), "{field}");
            }
            for container in containers(pod) {
                let own = &container["securityContext"];
                let effective =
                    |field: &str| if own[field].is_null() { &pod["securityContext"][field] } else { &own[field] };
                let name = &container["name"];
                assert_eq!(*effective("runAsNonRoot"), true, "{name}");
                assert!(effective("runAsUser").as_u64() > Some(0), "{name}");
                assert_eq!(effective("seccompProfile")["type"], "RuntimeDefault", "{name}");
                assert_eq!(own["allowPrivilegeEscalation"], false, "{name}");
                assert_eq!(own["readOnlyRootFilesystem"], true, "{name}");
                assert_eq!(own["capabilities"], serde_json::json!({ "drop": ["ALL"] }), "{name}");
                assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
            }
            for volume in items(&pod["volumes"]) {
                let known = ["configMap", "projected", "secret"].iter().any(|kind| volume[kind].is_object());
                assert!(known, "nothing of the node and nothing writable: {volume}");
            }
        }
    }
}

#[test]
fn another_configuration_rolls_the_pods() {
    let copy = tempfile::tempdir().expect("make a directory for a copy");
    copy_folder(&folder(), copy.path());
    for name in ["deployment", "sidecar"] {
        let before = Overlay::render(copy.path().join("overlays").join(name));
        let file = before.folder.join("delaybridge.yaml");
        fs::write(&file, fs::read_to_string(&file).unwrap() + "# one more line\n").unwrap();
        let after = Overlay::render(before.folder.clone());
        assert_ne!(before.pod(), after.pod(), "{name}: the template names another ConfigMap");
        assert!(after.configuration().ends_with("# one more line\n"));
    }
}

/// The head of an overlay and the page have the same commands.
#[test]
fn the_page_has_the_commands_of_every_overlay() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubernetes.md"));
    for overlay in Overlay::all() {
        let head = fs::read_to_string(overlay.folder.join("kustomization.yaml")).unwrap();
        let commands: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
        assert!(commands.len() >= 2 && page.contains(&commands.join("\n")), "{commands:?}");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make a folder");
    for entry in fs::read_dir(from).expect("read a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            fs::copy(&path, &to).expect("copy a file");
        }
    }
}

#[test]
fn the_image_is_that_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    for overlay in Overlay::all() {
        assert_eq!(overlay.daemon()["image"], format!("registry.example.com/delaybridge:{version}"));
    }
    let dockerfile = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/Dockerfile"));
    assert!(dockerfile.contains(&format!("image.version=\"{version}\"")), "the label of the image");
    assert!(dockerfile.contains(&format!("--tag delaybridge:{version}")), "the command at its head");
}
