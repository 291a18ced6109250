//! What the chart can put beside the daemon: the operators' Service, the ServiceMonitor, the alerts and the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::helm::{folder, objects, one, render, render_chart};
use super::rendered::{containers, items, selects};
use super::schemas::Schemas;

fn rendered(set: &str) -> (String, Vec<Value>) {
    let arguments = ["--namespace", "shop", "--set", "config=a", "--set", set];
    render("orders", &arguments).unwrap_or_else(|said| panic!("{set}: {said}"))
}

/// The objects with this kind, by name.
fn named(objects: &[Value]) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    objects.iter().map(|object| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))).collect()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

#[test]
fn each_value_adds_its_objects_and_no_others() {
    let schemas = Schemas::close();
    let without = named(&rendered("admin.enabled=false").1);
    for (value, added) in [
        ("admin", &["Service orders-delaybridge-admin"][..]),
        ("serviceMonitor", &["Service orders-delaybridge-metrics", "ServiceMonitor orders-delaybridge"]),
        ("podMonitor", &["PodMonitor orders-delaybridge"]),
        ("prometheusRule", &["PrometheusRule orders-delaybridge"]),
        ("dashboard", &["ConfigMap orders-delaybridge-dashboard"]),
    ] {
        let (yaml, all) = rendered(&format!("{value}.enabled=true"));
        schemas.judge(value, &yaml).unwrap_or_else(|said| panic!("{value}: {said}"));
        let with = named(&all);
        assert!(without.is_subset(&with), "{value}");
        assert_eq!(with.difference(&without).map(String::as_str).collect::<Vec<_>>(), added, "{value}");
    }
    // Values of a release before these.
    let plain = rendered("admin=null,serviceMonitor=null,prometheusRule=null,dashboard=null,lifecycle=null");
    assert_eq!(named(&plain.1), without);
}

/// The schemas are closed, so a wrong field of the new kinds would be seen.
#[test]
fn wrong_fields_of_these_objects_are_seen() {
    let schemas = Schemas::close();
    for (value, right, wrong) in [
        ("admin", "sessionAffinity: ClientIP", "sessionAfinity: ClientIP"),
        ("serviceMonitor", "endpoints:", "endpoint:"),
        ("prometheusRule", "expr: ", "expression: "),
    ] {
        let (yaml, _) = rendered(&format!("{value}.enabled=true"));
        assert!(yaml.contains(right), "{right}");
        schemas.judge(value, &yaml.replacen(right, wrong, 1)).expect_err(wrong);
    }
}

/// The port of a Service with this name, in the container that it leads to.
fn target(service: &Value, container: &Value) -> Value {
    let port = &service["spec"]["ports"][0];
    let ports = items(&container["ports"]);
    let target = ports.into_iter().find(|other| other["name"] == port["targetPort"]).expect("a port of the container");
    assert_eq!(target["containerPort"], port["port"]);
    port["port"].clone()
}

#[test]
fn the_operators_port_has_a_service_that_leads_to_pods_that_are_not_ready_too() {
    let (_, all) = rendered("admin.enabled=true,admin.port=9000");
    let template = &one(&all, "Deployment")["spec"]["template"];
    let service = one(&all, "Service");
    assert!(selects(&json!({ "matchLabels": service["spec"]["selector"] }), &template["metadata"]["labels"]));
    assert_eq!(target(service, &template["spec"]["containers"][0]), 9000);
    // A login is known to one pod, and the page is needed most while none is ready.
    assert_eq!(service["spec"]["sessionAffinity"], "ClientIP");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
}

/// Who may reach the operators' port, by the rules of the network policy.
fn who(set: &str) -> Vec<Value> {
    let (_, all) = rendered(set);
    let rules = &one(&all, "NetworkPolicy")["spec"]["ingress"];
    let rules = items(rules).into_iter().filter(|rule| items(&rule["ports"]).contains(&&json!({ "port": "admin" })));
    rules.flat_map(|rule| items(&rule["from"]).into_iter().cloned().collect::<Vec<_>>()).collect()
}

#[test]
fn the_network_policy_opens_the_operators_port_to_whom_it_is_for() {
    let namespace =
        |name: &str| json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } });
    assert_eq!(who("admin.enabled=false"), [] as [Value; 0]);
    assert_eq!(who("admin.enabled=true"), [json!({ "podSelector": {} })]);
    assert_eq!(who("admin.enabled=true,admin.namespaces={ingress,sre}"), [namespace("ingress"), namespace("sre")]);
}

/// The address in the recipe for KEDA is that of a release with the name of the chart.
#[test]
fn the_scaling_recipe_names_the_service() {
    let (_, all) = render("delaybridge", &["--namespace", "shop", "--set", "config=a,admin.enabled=true"]).expect("it");
    let service = one(&all, "Service");
    let address = format!(
        "http://{}.{}:{}/v1/",
        service["metadata"]["name"].as_str().expect("a name"),
        service["metadata"]["namespace"].as_str().expect("a namespace"),
        service["spec"]["ports"][0]["port"]
    );
    assert!(read(&file("deploy/scaling/keda.yaml")).contains(&address), "{address}");
}

/// The alerts ask for a job with this name, and Prometheus takes that of the Service. No name of a Service may be longer.
#[test]
fn names_of_services_are_short_enough_and_name_the_job() {
    for release in ["a".repeat(53), "delaybridge-".to_owned() + &"b".repeat(41), "orders".to_owned()] {
        let set = ["--set", "config=a,admin.enabled=true,serviceMonitor.enabled=true"];
        let (_, all) = render(&release, &set).unwrap_or_else(|said| panic!("{said}"));
        let services: Vec<_> = all.iter().filter(|object| object["kind"] == "Service").collect();
        assert_eq!(services.len(), 2);
        for service in services {
            let name = service["metadata"]["name"].as_str().expect("a name");
            assert!(name.len() <= 63 && name.contains("delaybridge"), "{name}");
        }
    }
}

#[test]
fn the_service_monitor_finds_the_service_of_the_metrics_alone() {
    let set = "serviceMonitor.enabled=true,serviceMonitor.labels.release=prometheus,serviceMonitor.interval=30s,admin.enabled=true";
    let (_, all) = rendered(set);
    let monitor = one(&all, "ServiceMonitor");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let (found, others): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|object| object["kind"] == "Service")
        .partition(|service| selects(&monitor["spec"]["selector"], &service["metadata"]["labels"]));
    let [service] = found[..] else { panic!("one Service is scraped, not {found:?}") };
    assert_eq!(others.len(), 1, "that of the operators");
    let template = &one(&all, "Deployment")["spec"]["template"];
    assert!(selects(&json!({ "matchLabels": service["spec"]["selector"] }), &template["metadata"]["labels"]));
    assert_eq!(target(service, &template["spec"]["containers"][0]), 9464);
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(
        *endpoint,
        json!({ "port": service["spec"]["ports"][0]["name"], "path": "/metrics", "interval": "30s" })
    );
    let both = render("delaybridge", &["--set", "config=a,podMonitor.enabled=true,serviceMonitor.enabled=true"]);
    assert!(both.expect_err("each pod would be there twice").contains("schema"));
}

/// The chart has copies, because Helm reads no file outside of its folder.
#[test]
fn the_alerts_and_the_dashboard_are_those_of_deploy() {
    for (source, copy) in [("prometheus/rules.yaml", "rules.yaml"), ("grafana/delaybridge.json", "dashboard.json")] {
        let text = read(&file("deploy").join(source));
        let copy = folder().join("files").join(copy);
        if fs::read_to_string(&copy).ok().as_deref() != Some(text.as_str()) {
            fs::write(&copy, text).expect("write the copy");
            panic!("{} was not deploy/{source} and has been rewritten: commit it", copy.display());
        }
    }
    let set = "prometheusRule.enabled=true,prometheusRule.labels.release=prometheus,dashboard.enabled=true,\
               dashboard.annotations.grafana_folder=queues";
    let (_, all) = rendered(set);
    let rule = one(&all, "PrometheusRule");
    let rules: Value = serde_yaml::from_str(&read(&file("deploy/prometheus/rules.yaml"))).expect("YAML");
    assert_eq!(rule["spec"], rules);
    assert_eq!(rule["metadata"]["labels"]["release"], "prometheus");
    let dashboards: Vec<_> =
        all.iter().filter(|object| object["metadata"]["labels"]["grafana_dashboard"] == "1").collect();
    let [dashboard] = dashboards[..] else { panic!("one dashboard for the sidecar of Grafana, not {dashboards:?}") };
    assert_eq!(dashboard["metadata"]["annotations"], json!({ "grafana_folder": "queues" }));
    let text = dashboard["data"]["delaybridge.json"].as_str().expect("the dashboard");
    assert_eq!(text.trim_end(), read(&file("deploy/grafana/delaybridge.json")).trim_end());
}

#[test]
fn the_label_of_the_dashboard_can_be_another() {
    let (_, all) =
        rendered("dashboard.enabled=true,dashboard.labels.grafana_dashboard=null,dashboard.labels.dashboards=yes");
    let labels = |object: &Value| object["metadata"]["labels"].clone();
    let found =
        all.iter().map(labels).filter(|labels| labels["dashboards"] == "yes" && labels["grafana_dashboard"].is_null());
    assert_eq!(found.count(), 1);
}

#[test]
fn hooks_are_those_of_the_daemons_container() {
    let (yaml, all) = rendered("lifecycle.preStop.httpGet.path=/,lifecycle.preStop.httpGet.port=80");
    Schemas::close().judge("lifecycle", &yaml).unwrap_or_else(|said| panic!("{said}"));
    let container = &one(&all, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["lifecycle"], json!({ "preStop": { "httpGet": { "path": "/", "port": 80 } } }));
}

/// A sidecar of another chart can be read and scraped as well.
#[test]
fn the_services_of_a_sidecar_lead_to_its_pods() {
    let copy = tempfile::tempdir().expect("make a directory for a copy");
    super::copy_folder(folder().parent().expect("the folder of the charts"), copy.path());
    let chart = copy.path().join("sidecar-example");
    let built = super::helm::helm(&chart, &["dependency", "build", "."]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let set = "delaybridge.config=a,delaybridge.admin.enabled=true,delaybridge.serviceMonitor.enabled=true,\
               delaybridge.prometheusRule.enabled=true,delaybridge.dashboard.enabled=true";
    let (yaml, all) = render_chart(&chart, "orders", &["--set", set]).unwrap_or_else(|said| panic!("{said}"));
    Schemas::close().judge("sidecar", &yaml).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(objects(&yaml).len(), 7, "{:?}", named(&all));
    let template = &one(&all, "Deployment")["spec"]["template"];
    let sidecar = containers(&template["spec"]).next().expect("the sidecar comes first");
    let services: Vec<_> = all.iter().filter(|object| object["kind"] == "Service").collect();
    assert_eq!(services.len(), 2);
    for service in services {
        assert!(selects(&json!({ "matchLabels": service["spec"]["selector"] }), &template["metadata"]["labels"]));
        target(service, sidecar);
    }
}
