//! Options of the chart that change what is rendered: numbers of pods, existing objects, and the sidecar of another chart.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::helm::{folder, helm, objects, one, render, render_chart};
use super::rendered::{Overlay, containers, items, selects};
use super::schemas::Schemas;

fn rendered(set: &str) -> (String, Vec<Value>) {
    let namespace = ["--namespace", "shop", "--set"];
    render("delaybridge", &[&namespace[..], &[set]].concat()).unwrap_or_else(|said| panic!("{set}: {said}"))
}

#[test]
fn the_number_of_pods_is_left_to_whoever_changes_it() {
    let schemas = Schemas::close();
    for (set, kind, least) in [
        ("config=a,hpa.enabled=true", "HorizontalPodAutoscaler", "/spec/minReplicas"),
        ("config=a,keda.enabled=true", "ScaledObject", "/spec/minReplicaCount"),
    ] {
        let (yaml, all) = rendered(set);
        schemas.judge(kind, &yaml).unwrap_or_else(|said| panic!("{kind}: {said}"));
        let deployment = one(&all, "Deployment");
        // A number here would be set again with each upgrade.
        assert!(deployment["spec"]["replicas"].is_null(), "{kind}");
        let scaler = one(&all, kind);
        assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], deployment["metadata"]["name"], "{kind}");
        assert_eq!(*scaler.pointer(least).expect("a least number"), 2, "{kind}");
    }
    let both = render("delaybridge", &["--set", "config=a,keda.enabled=true,hpa.enabled=true"]);
    assert!(both.expect_err("two that change one number").contains("schema"));
}

/// The query names a metric of this daemon, and counts each element once although every pod reports it.
#[test]
fn pods_follow_the_due_elements_of_their_namespace() {
    let (_, all) = rendered("config=a,keda.enabled=true");
    let query = &items(&one(&all, "ScaledObject")["spec"]["triggers"])[0]["metadata"]["query"];
    let text = "sum(max by (queue) (delaybridge_queue_messages{state=\"due\", namespace=\"shop\"}))";
    assert_eq!(*query, text);
    let metrics = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md"));
    let row = metrics.lines().find(|row| row.starts_with("| `delaybridge_queue_messages`")).expect("the metric");
    assert!(row.contains("`state`") && row.contains("max by (queue)"), "{row}");
}

#[test]
fn an_existing_config_map_takes_the_place_of_the_text() {
    let (yaml, all) = rendered("existingConfigMap=orders-config");
    Schemas::close().judge("existing", &yaml).unwrap_or_else(|said| panic!("{said}"));
    assert!(all.iter().all(|object| object["kind"] != "ConfigMap"));
    let volumes = &one(&all, "Deployment")["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["projected"]["sources"][0], json!({ "configMap": { "name": "orders-config" } }));
    let both = render("delaybridge", &["--set", "config=a,existingConfigMap=b"]);
    assert!(both.expect_err("one of the two would be ignored").contains("schema"));
}

/// YAML would take the indentation of the first line for that of the block.
#[test]
fn a_configuration_whose_first_line_is_indented_arrives_as_it_is() {
    let folder = tempfile::tempdir().expect("a directory");
    let values = folder.path().join("values.yaml");
    let config = "    redis: { url: 'redis://h' }\n  # a comment\n";
    fs::write(&values, json!({ "config": config }).to_string()).expect("write the values");
    let (_, all) = render("delaybridge", &["--values", values.to_str().expect("a path in UTF-8")]).expect("rendered");
    assert_eq!(one(&all, "ConfigMap")["data"]["delaybridge.yaml"].as_str().map(str::trim_end), Some(config.trim_end()));
}

/// Labels and tags have no `+`, which a version has behind it for its build.
#[test]
fn a_version_with_a_build_is_valid_in_labels_and_as_a_tag() {
    let copy = tempfile::tempdir().expect("a directory");
    let status = Command::new("cp").arg("-r").arg(folder()).arg(copy.path()).status().expect("run cp");
    assert!(status.success());
    let chart = copy.path().join("delaybridge");
    let file = chart.join("Chart.yaml");
    let text = fs::read_to_string(&file).expect("the chart").replace("0.1.0", "0.1.0+build.7");
    fs::write(&file, text).expect("write the chart");
    let (yaml, all) = render_chart(&chart, "delaybridge", &["--set", "config=a"]).expect("rendered");
    Schemas::close().judge("a build", &yaml).unwrap_or_else(|said| panic!("{said}"));
    let deployment = one(&all, "Deployment");
    let labels = &deployment["metadata"]["labels"];
    assert_eq!(labels["helm.sh/chart"], "delaybridge-0.1.0_build.7");
    assert_eq!(labels["app.kubernetes.io/version"], "0.1.0_build.7");
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert!(image.as_str().is_some_and(|image| image.ends_with(":0.1.0-build.7")), "{image}");
}

#[test]
fn a_digest_decides_over_the_tag() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let (yaml, _) = rendered(&format!("config=a,image.tag=v1,image.digest={digest}"));
    assert!(yaml.contains(&format!("image: \"registry.example.com/delaybridge@{digest}\"")), "{yaml}");
}

/// The daemon warns of secrets that every user can read.
#[test]
fn mounted_secrets_are_readable_for_the_daemons_group_alone() {
    let overlay = Overlay::named("deployment");
    let (_, all) = rendered("config=a");
    for pod in [&overlay.pod()["spec"], &one(&all, "Deployment")["spec"]["template"]["spec"]] {
        assert_eq!(pod["securityContext"]["fsGroup"], pod["securityContext"]["runAsGroup"]);
        assert_eq!(pod["volumes"][0]["projected"]["defaultMode"], 0o440);
    }
}

/// A copy of the example with the chart packed into it, as `helm dependency build` does.
fn example(to: &Path) -> (String, Vec<Value>) {
    super::copy_folder(folder().parent().expect("the folder of the charts"), to);
    let chart = to.join("sidecar-example");
    let built = helm(&chart, &["dependency", "build", "."]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let linted = helm(&chart, &["lint", ".", "--strict", "--set", "delaybridge.config=a"]);
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
    let set = "delaybridge.config=a,delaybridge.podMonitor.enabled=true";
    render_chart(&chart, "orders", &["--set", set]).unwrap_or_else(|said| panic!("{said}"))
}

#[test]
fn another_charts_sidecar_is_the_sidecar_of_the_overlay() {
    let copy = tempfile::tempdir().expect("make a directory for a copy");
    let (yaml, all) = example(copy.path());
    Schemas::close().judge("sidecar-example", &yaml).unwrap_or_else(|said| panic!("{said}"));

    let template = &one(&all, "Deployment")["spec"]["template"];
    let ours = containers(&template["spec"]).next().expect("the sidecar comes first");
    let overlay = Overlay::named("sidecar");
    assert_eq!(ours, overlay.daemon());
    let sources = |pod: &Value| {
        let all = items(&pod["volumes"]);
        let ours = all.into_iter().find(|volume| volume["name"] == "delaybridge").expect("the daemon's volume");
        items(&ours["projected"]["sources"]).len()
    };
    assert_eq!(sources(&template["spec"]), sources(&overlay.pod()["spec"]));

    // Nothing that would apply to the application, or deliver twice.
    let mut kinds: Vec<_> = all.iter().map(|object| object["kind"].as_str().expect("a kind")).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["ConfigMap", "Deployment", "PodMonitor"]);
    assert!(selects(&one(&all, "PodMonitor")["spec"]["selector"], &template["metadata"]["labels"]));
    assert!(template["metadata"]["annotations"]["checksum/config"].is_string());
}

#[test]
fn the_example_has_the_version_of_the_chart() {
    let text = fs::read_to_string(folder().with_file_name("sidecar-example").join("Chart.yaml")).expect("the example");
    let chart: Value = serde_yaml::from_str(&text).expect("YAML");
    assert_eq!(chart["dependencies"][0]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(objects(&text).len(), 1);
}
