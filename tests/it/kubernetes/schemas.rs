//! Rendered objects checked with the schemas of Kubernetes and of the Prometheus operator, by kubeconform.
//!
//! The published schemas allow unknown fields, as the API server does, at best with a warning. Here they are closed
//! first, so that a misspelt field is an error.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::rendered::{Overlay, tool};

const DEFINITIONS: &str = "#/definitions/";

/// One schema per kind, in a folder of their own.
pub struct Schemas(TempDir);

impl Schemas {
    /// Closes the schemas of the versions that setup has downloaded.
    pub fn close() -> Self {
        let dir = TempDir::with_prefix("delaybridge-schemas-").expect("make a directory for the schemas");
        let read = |name: &str| fs::read_to_string(tool(name)).unwrap_or_else(|e| panic!("read {name}: {e}"));
        let mut api: Value = serde_json::from_str(&read("kubernetes.json")).expect("the API as JSON");
        close(&mut api["definitions"]);
        // Two types that the API writes as text, and also reads as numbers.
        api["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] =
            json!({ "type": ["string", "integer"] });
        api["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] = json!({ "type": ["string", "number"] });
        let write = |kind: &str, schema: &Value| {
            let file = dir.path().join(format!("{}.json", kind.to_lowercase()));
            fs::write(file, schema.to_string()).expect("write a schema");
        };
        for (kind, definition) in [
            ("ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
            ("Deployment", "io.k8s.api.apps.v1.Deployment"),
            ("HorizontalPodAutoscaler", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"),
            ("NetworkPolicy", "io.k8s.api.networking.v1.NetworkPolicy"),
            ("PodDisruptionBudget", "io.k8s.api.policy.v1.PodDisruptionBudget"),
            ("Service", "io.k8s.api.core.v1.Service"),
        ] {
            let mut needed = serde_json::Map::new();
            gather(definition, &api["definitions"], &mut needed);
            write(kind, &json!({ "$ref": format!("{DEFINITIONS}{definition}"), "definitions": needed }));
        }
        for (kind, file) in [
            ("PodMonitor", Ok(tool("podmonitor.yaml"))),
            ("PrometheusRule", brokers::prometheus_operator("prometheusrules")),
            ("ScaledObject", brokers::keda()),
            ("ServiceMonitor", brokers::prometheus_operator("servicemonitors")),
        ] {
            let file = file.unwrap_or_else(|e| panic!("{e}"));
            let definition = fs::read_to_string(&file).unwrap_or_else(|e| panic!("read {}: {e}", file.display()));
            let mut crd: Value = serde_yaml::from_str(&definition).expect("the resource definition");
            let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            close(schema);
            // The definition leaves it to Kubernetes.
            schema["properties"]["metadata"] = json!({ "type": "object" });
            write(kind, schema);
        }
        Schemas(dir)
    }

    /// The report of kubeconform on these objects; `Err` if one is wrong or of an unexpected kind.
    pub fn judge(&self, name: &str, yaml: &str) -> Result<String, String> {
        let file = self.0.path().join(format!("{name}.yaml"));
        fs::write(&file, yaml).expect("write what was rendered");
        let output = Command::new(tool("kubeconform"))
            .args(["-strict", "-summary", "-schema-location"])
            .arg(self.0.path().join("{{ .ResourceKind }}.json"))
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .expect("run kubeconform");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }
}

/// Collects a definition and all that it refers to: otherwise kubeconform would read the whole API for each kind.
fn gather(name: &str, all: &Value, needed: &mut serde_json::Map<String, Value>) {
    if needed.insert(name.to_owned(), all[name].clone()).is_none() {
        references(&all[name], &mut |name| gather(name, all, needed));
    }
}

fn references(schema: &Value, found: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(|to| to.as_str()?.strip_prefix(DEFINITIONS)) {
                found(name);
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Closes objects with known fields, so that no others are allowed.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn every_overlay_is_valid() {
    let schemas = Schemas::close();
    for overlay in Overlay::all() {
        let name = overlay.folder.file_name().unwrap().to_str().unwrap();
        let said = schemas.judge(name, &overlay.yaml).unwrap_or_else(|said| panic!("{name}: {said}"));
        println!("{name}: {said}");
        assert!(said.contains(&format!("Valid: {}, Invalid: 0, Errors: 0", overlay.objects.len())), "{said}");
    }
}

#[test]
fn what_is_wrong_is_seen() {
    let schemas = Schemas::close();
    let sidecar = &Overlay::named("sidecar").yaml;
    let deployment = &Overlay::named("deployment").yaml;
    let check = |yaml: &str, right: &str, wrong: &str| {
        assert!(yaml.contains(right), "{right} is what the manifest says");
        let said = schemas.judge("wrong", &yaml.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(said.contains("Invalid: 1, Errors: 0") || said.contains("Invalid: 0, Errors: 1"), "{wrong}: {said}");
    };
    check(sidecar, "restartPolicy: Always", "restartPolice: Always");
    check(sidecar, "containerPort: 9464", "containerPort: many");
    check(sidecar, "interval: 15s", "interval: soon");
    check(sidecar, "podMetricsEndpoints:", "podMetricEndpoints:");
    check(deployment, "topologyKey: kubernetes.io/hostname", "topology: kubernetes.io/hostname");
    check(deployment, "maxUnavailable: 1", "maxUnavailable: [1]");
    check(deployment, "policyTypes:", "policies:");
}
