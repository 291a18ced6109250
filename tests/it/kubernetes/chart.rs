//! `deploy/helm/delaybridge`: linted, rendered, and equal to the overlay `deployment`.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::helm::{folder, helm, one, render};
use super::rendered::{Overlay, items, selects};
use super::schemas::Schemas;

/// The values with which the chart equals the overlay.
const AS_THE_OVERLAY: &[&str] = &[
    "--namespace",
    "delaybridge",
    "--set-file",
    "config=../../kubernetes/overlays/deployment/delaybridge.yaml",
    "--set",
    "networkPolicy.egressPorts={6379,9093}",
    "--set",
    "podMonitor.enabled=true",
];

/// The chart with the overlay's values.
fn chart() -> &'static (String, Vec<Value>) {
    static CHART: LazyLock<(String, Vec<Value>)> =
        LazyLock::new(|| render("delaybridge", AS_THE_OVERLAY).unwrap_or_else(|said| panic!("{said}")));
    &CHART
}

/// Removes the additions of one of the two tools: Helm's labels and checksum, and Kustomize's hash after the
/// ConfigMap's name.
fn plain(object: &Value) -> Value {
    match object {
        Value::Object(fields) => {
            let added = |name: &str| {
                name.starts_with("helm.sh/")
                    || name == "checksum/config"
                    || ["instance", "version", "managed-by"]
                        .iter()
                        .any(|end| name == format!("app.kubernetes.io/{end}"))
            };
            let fields =
                fields.iter().filter(|(name, _)| !added(name)).map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(fields.filter(|(name, value)| !(name == "annotations" && *value == json!({}))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::String(text) if text.starts_with("delaybridge-") && text.len() == "delaybridge-".len() + 10 => {
            json!("delaybridge")
        }
        other => other.clone(),
    }
}

#[test]
fn the_objects_are_those_of_the_overlay() {
    let (overlay, (_, objects)) = (Overlay::named("deployment"), chart());
    let kinds = |objects: &[Value]| objects.iter().map(|object| object["kind"].to_string()).collect::<BTreeSet<_>>();
    assert_eq!(kinds(objects), kinds(&overlay.objects));
    for kind in ["Deployment", "PodDisruptionBudget", "ConfigMap"] {
        let ours = plain(one(objects, kind));
        let theirs = plain(one(&overlay.objects, kind));
        if kind == "ConfigMap" {
            assert_eq!(ours["data"], theirs["data"]);
            assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
        } else {
            assert_eq!(ours, theirs, "{kind}");
        }
    }
    // One policy instead of the two of the base and the overlay.
    let rules = |objects: &[Value], side: &str| -> BTreeSet<String> {
        let policies = objects.iter().filter(|object| object["kind"] == "NetworkPolicy");
        policies.flat_map(|policy| items(&policy["spec"][side]).into_iter().map(Value::to_string)).collect()
    };
    for side in ["ingress", "egress"] {
        assert_eq!(rules(objects, side), rules(&overlay.objects, side), "{side}");
    }
    // The overlay's monitor also finds sidecars, which the chart cannot make.
    let monitor = |objects: &[Value]| one(objects, "PodMonitor")["spec"]["podMetricsEndpoints"].clone();
    assert_eq!(monitor(objects), monitor(&overlay.objects));
}

#[test]
fn every_selector_finds_the_pods_of_its_release_alone() {
    let pods = |objects: &[Value]| one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].clone();
    let (_, other) = render("orders", AS_THE_OVERLAY).expect("another release");
    let objects = &chart().1;
    for (kind, selector) in [
        ("Deployment", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector"),
        ("NetworkPolicy", "/spec/podSelector"),
        ("PodMonitor", "/spec/selector"),
    ] {
        let selector = one(objects, kind).pointer(selector).unwrap_or_else(|| panic!("a selector of {kind}"));
        assert!(selects(selector, &pods(objects)), "{kind}: {selector}");
        assert!(!selects(selector, &pods(&other)), "{kind}: {selector}");
    }
    for object in &other {
        assert_eq!(object["metadata"]["name"], "orders-delaybridge");
    }
}

#[test]
fn what_is_rendered_is_valid_with_every_value() {
    let schemas = Schemas::close();
    let values = folder().join("values.test.yaml.tmp");
    let everything = "config: 'a: 1'\nsecret: ''\nimage: { repository: 'r.example:5000/d', tag: v1, pullPolicy: Always }\n\
        imagePullSecrets: [login]\nenv: [{ name: A, value: b }]\nnodeSelector: { a: b }\ntolerations: [{ key: a, operator: Exists }]\n\
        affinity: { nodeAffinity: {} }\npriorityClassName: high\npodLabels: { team: a }\npodAnnotations: { a: b }\nreplicas: 1\n\
        podMonitor: { enabled: true, labels: { release: prometheus } }\n\
        networkPolicy: { egressPorts: [], extraIngress: [{ ports: [{ port: 9465 }] }], extraEgress: [{ ports: [{ port: 443 }] }] }\n\
        podDisruptionBudget: { maxUnavailable: 50% }\nextraSecrets: [kafka-certificates]\n\
        envFrom: [{ secretRef: { name: more } }]\nserviceAccountName: delaybridge\n\
        extraVolumes: [{ name: run, emptyDir: { sizeLimit: 1Mi } }]\nextraVolumeMounts: [{ name: run, mountPath: /run/delaybridge }]\n\
        admin: { enabled: true, port: 9466, namespaces: [ingress], annotations: { a: b } }\n\
        prometheusRule: { enabled: true, labels: { a: b } }\ndashboard: { enabled: true, annotations: { a: b } }\n\
        lifecycle: { preStop: { tcpSocket: { port: 9464 } } }\n\
        topologySpreadConstraints: [{ topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule }]\n";
    fs::write(&values, everything).expect("write values");
    let name = values.file_name().and_then(|name| name.to_str()).expect("a name");
    let all = render("delaybridge", &["--values", name]);
    fs::remove_file(&values).expect("remove the values");
    let (all, _) = all.unwrap_or_else(|said| panic!("{said}"));
    assert!(all.contains("image: \"r.example:5000/d:v1\"") && !all.contains("secret: { name: delaybridge }"), "{all}");
    for (name, yaml) in [("as-the-overlay", &chart().0), ("everything", &all)] {
        schemas.judge(name, yaml).unwrap_or_else(|said| panic!("{name}: {said}"));
    }
    let without = ["--set", "config=a", "--set", "podDisruptionBudget.enabled=false,networkPolicy.enabled=false"];
    assert_eq!(render("delaybridge", &without).expect("fewer objects").1.len(), 2);
}

#[test]
fn the_chart_passes_its_lint_and_has_the_version_of_the_daemon() {
    let output = helm(&folder(), &[&["lint", ".", "--strict"], &AS_THE_OVERLAY[2..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    let chart: Value = serde_yaml::from_str(&fs::read_to_string(folder().join("Chart.yaml")).unwrap()).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

#[test]
fn another_configuration_rolls_the_pods() {
    let checksum = |objects: &[Value]| {
        one(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    let (_, other) = render("delaybridge", &["--set", "config=a"]).expect("another configuration");
    assert!(checksum(&other).is_string());
    assert_ne!(checksum(&other), checksum(&chart().1));
}

#[test]
fn wrong_values_are_refused_by_name() {
    for (set, word) in [
        ("replicas=two", "replicas"),
        ("replicas=-1", "replicas"),
        ("replica=2", "replica"),
        ("config=", "config"),
        ("image.repository=a:b", "image.repository"),
        ("image.pullPolicy=Sometimes", "image.pullPolicy"),
        ("port=70000", "port"),
        ("networkPolicy.egressPorts={redis}", "networkPolicy.egressPorts.0"),
        ("podMonitor.interval=soon", "podMonitor.interval"),
        ("secret=My_Secret", "secret"),
        ("admin.port=0", "admin.port"),
        ("admin.namespaces={My_Namespace}", "admin.namespaces.0"),
        ("serviceMonitor.interval=soon", "serviceMonitor.interval"),
        ("prometheusRule.label.a=b", "label"),
        ("dashboard.labels.a=1", "dashboard.labels.a"),
        ("lifecycle=none", "lifecycle"),
        ("resources.limit.memory=1Gi", "limit"),
        ("podLabels.a=1", "podLabels.a"),
        ("env[0].value=x", "env.0"),
    ] {
        let said = render("delaybridge", &["--set", "config=a", "--set", set]).expect_err(set);
        assert!(said.contains("schema") && said.contains(word), "{set}: {said}");
    }
    let said = render("delaybridge", &[]).expect_err("a configuration is missing");
    assert!(said.contains("config"), "{said}");
}

/// The comments of `values.yaml` as a table: one line per value, with its default.
fn reference(values: &str) -> String {
    let defaults: Value = serde_yaml::from_str(values).expect("the values");
    let mut rows = String::new();
    let mut comment = Vec::new();
    let mut above = Vec::<(usize, String)>::new();
    for line in values.lines() {
        let text = line.trim_start();
        let indent = line.len() - line.trim_start().len();
        if let Some(words) = text.strip_prefix("# ") {
            comment.push(words);
        } else if text.is_empty() {
            comment.clear();
        } else if let Some((name, _)) = text.split_once(':').filter(|_| !comment.is_empty() || indent == 0) {
            above.retain(|(other, _)| *other < indent);
            above.push((indent, name.to_owned()));
            let path: Vec<_> = above.iter().map(|(_, name)| name.as_str()).collect();
            let value = defaults.pointer(&format!("/{}", path.join("/"))).unwrap_or_else(|| panic!("{path:?}"));
            // The rows of a group follow.
            let group = text.ends_with(':') && !matches!(*path, ["resources"] | ["hpa", "metrics"]);
            let shown = (!group).then(|| value.to_string());
            match (shown, comment.is_empty()) {
                (Some(shown), false) => {
                    rows.push_str(&format!("| `{}` | {} | `{shown}` |\n", path.join("."), comment.join(" ")));
                }
                (Some(_), true) => panic!("{path:?} has no comment"),
                (None, _) => {}
            }
            comment.clear();
        }
    }
    rows
}

#[test]
fn the_readme_has_every_value() {
    let path = folder().join("README.md");
    let values = fs::read_to_string(folder().join("values.yaml")).expect("read values.yaml");
    let page = format!(
        "# Helm chart of delaybridge\n\n\
         <!-- Written by a test from values.yaml; change it there. -->\n\n\
         The daemon as a Deployment, or as a sidecar of a chart of yours (`deploy/helm/sidecar-example`). For platform teams;\n\
         `docs/kubernetes.md` has the reasons, `docs/tutorials/kubernetes-team.md` a first installation. `egressPorts` are those of Redis and\n\
         of the sinks.\n\n\
         ```sh\n\
         kubectl create namespace delaybridge\n\
         kubectl --namespace delaybridge create secret generic delaybridge --from-file=redis-password\n\
         helm install delaybridge deploy/helm/delaybridge --namespace delaybridge \\\n  \
         --set-file config=delaybridge.yaml --set image.repository=registry.example.com/delaybridge \\\n  \
         --set 'networkPolicy.egressPorts={{6379,9093}}'\n\
         ```\n\n\
         Wrong and misspelt values are refused (`values.schema.json`).\n\n\
         | value | meaning | default |\n|---|---|---|\n{}",
        reference(&values)
    );
    if fs::read_to_string(&path).ok().as_deref() != Some(page.as_str()) {
        fs::write(&path, page).expect("write the README");
        panic!("deploy/helm/delaybridge/README.md was out of date and has been rewritten: look at it and commit it");
    }
}

/// Without a rule in the schema, a value would always be accepted.
#[test]
fn the_schema_has_every_value() {
    fn walk(path: &str, value: &Value, schema: &Value) {
        let Some(fields) = value.as_object() else { return };
        let Some(properties) = schema["properties"].as_object() else { return };
        for (name, value) in fields {
            let schema = properties.get(name).unwrap_or_else(|| panic!("{path}.{name} is not in values.schema.json"));
            walk(&format!("{path}.{name}"), value, schema);
        }
    }
    let read = |name: &str| fs::read_to_string(folder().join(name)).unwrap_or_else(|e| panic!("read {name}: {e}"));
    let values: Value = serde_yaml::from_str(&read("values.yaml")).expect("the values");
    walk("", &values, &serde_json::from_str(&read("values.schema.json")).expect("the schema"));
}
