//! From an earlier version of the chart to this one: the same objects, of which only what is listed differs.
//!
//! `charts/VERSION` has the defaults of that version (`values.yaml`), and for some sets of values what it rendered. A release
//! adds a folder (CONTRIBUTING.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::helm::{folder, objects, render_chart};

/// What an upgrade changes: the version of before, and the path of the field. The reason stands above it.
const CHANGES: &[(&str, &str)] = &[
    // Secrets were readable for every user, of which the daemon warned.
    ("0.1.0-alpha", "Deployment/spec/template/spec/securityContext/fsGroup"),
    ("0.1.0-alpha", "Deployment/spec/template/spec/volumes/delaybridge/projected/defaultMode"),
    // Services of the namespace set variables that a configuration may take for its own.
    ("0.1.0-alpha", "Deployment/spec/template/spec/enableServiceLinks"),
    // An outage of Redis of five minutes at the start killed the pods.
    ("0.1.0-alpha", "Deployment/spec/template/spec/containers/delaybridge/startupProbe/failureThreshold"),
    ("0.1.0-alpha", "Deployment/spec/template/spec/containers/delaybridge/startupProbe/httpGet/path"),
    ("0.1.0-alpha", "Deployment/spec/template/spec/containers/delaybridge/startupProbe/periodSeconds"),
    // A Service goes on to send clients of the job queue to a pod that ends.
    ("0.1.0-alpha", "Deployment/spec/template/spec/containers/delaybridge/env/DELAYBRIDGE_JOBS_SHUTDOWN_DELAY/name"),
    ("0.1.0-alpha", "Deployment/spec/template/spec/containers/delaybridge/env/DELAYBRIDGE_JOBS_SHUTDOWN_DELAY/value"),
    // Resolvers of OpenShift listen on this port.
    ("0.1.0-alpha", "NetworkPolicy/spec/egress/0/ports/2/port"),
    ("0.1.0-alpha", "NetworkPolicy/spec/egress/0/ports/2/protocol"),
    ("0.1.0-alpha", "NetworkPolicy/spec/egress/0/ports/3/port"),
    ("0.1.0-alpha", "NetworkPolicy/spec/egress/0/ports/3/protocol"),
];

fn versions() -> Vec<PathBuf> {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kubernetes/charts");
    let entries = fs::read_dir(&charts).unwrap_or_else(|e| panic!("read {}: {e}", charts.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// The names of the sets of values.
fn sets(version: &Path) -> Vec<String> {
    let files = fs::read_dir(version).expect("the folder of a version").map(|entry| entry.expect("a file").file_name());
    let names = files.filter_map(|file| Some(file.to_str()?.strip_suffix(".values.yaml")?.to_owned()));
    names.collect()
}

/// Every field with its path, with the kind of its object first. An item of a list has its name there, or its place if it has none.
fn fields(object: &Value) -> BTreeMap<String, Value> {
    fn walk(path: String, value: &Value, into: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| walk(format!("{path}/{name}"), value, into))
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    let name = value["name"].as_str().map_or_else(|| at.to_string(), str::to_owned);
                    walk(format!("{path}/{name}"), value, into);
                }
            }
            _ => {
                into.insert(path, value.clone());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(object["kind"].as_str().expect("a kind").to_owned(), object, &mut all);
    all
}

/// The version in labels and in the image, and nothing else, changes with every release.
fn is_version(path: &str, value: &Value) -> bool {
    path.ends_with("/labels/helm.sh/chart")
        || path.ends_with("/labels/app.kubernetes.io/version")
        || path.ends_with("/image") && value.as_str().is_some_and(|image| image.ends_with(env!("CARGO_PKG_VERSION")))
}

/// The paths that differ between two renderings; panics if an object comes or goes.
fn differences(before: &[Value], after: &[Value]) -> BTreeSet<String> {
    let by_name = |objects: &[Value]| -> BTreeMap<String, BTreeMap<String, Value>> {
        let named = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        objects.iter().map(|object| (named(object), fields(object))).collect()
    };
    let before = by_name(before);
    let after = by_name(after);
    // Helm deletes an object that is no longer rendered.
    assert!(before.keys().eq(after.keys()), "objects of before {:?}, now {:?}", before.keys(), after.keys());
    let mut differing = BTreeSet::new();
    for (name, before) in &before {
        let after = &after[name];
        let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let differs = |path: &&&String| {
            before.get(**path) != after.get(**path) && !after.get(**path).is_some_and(|value| is_version(path, value))
        };
        differing.extend(paths.iter().filter(differs).map(|path| (*path).clone()));
    }
    differing
}

/// A copy of this chart whose defaults are those of `version`: what `helm upgrade --reuse-values` renders.
fn with_defaults_of(version: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("make a directory for a copy");
    super::copy_folder(&folder(), copy.path());
    fs::copy(version.join("values.yaml"), copy.path().join("values.yaml")).expect("copy the defaults of before");
    copy
}

#[test]
fn an_upgrade_changes_only_what_is_listed() {
    for version in versions() {
        let name = version.file_name().and_then(|name| name.to_str()).expect("a version");
        let listed: BTreeSet<_> =
            CHANGES.iter().filter(|(of, _)| *of == name).map(|(_, path)| (*path).to_owned()).collect();
        let reused = with_defaults_of(&version);
        let sets = sets(&version);
        assert!(!sets.is_empty(), "{name} has no values");
        for set in sets {
            let before = fs::read_to_string(version.join(format!("{set}.yaml"))).expect("what was rendered");
            let values = version.join(format!("{set}.values.yaml"));
            let arguments = ["--namespace", "shop", "--values", values.to_str().expect("a path")];
            for chart in [folder(), reused.path().to_owned()] {
                let (_, after) = render_chart(&chart, "orders", &arguments).unwrap_or_else(|said| panic!("{said}"));
                let found = differences(&objects(&before), &after);
                assert_eq!(found, listed, "{name}, {set}, with the defaults of {}", chart.display());
            }
        }
    }
}

/// The API server refuses a change of these fields.
#[test]
fn no_listed_change_is_of_a_field_that_cannot_change() {
    for (version, path) in CHANGES {
        for fixed in ["Deployment/spec/selector", "/metadata/name", "PodDisruptionBudget/spec/selector"] {
            assert!(!path.contains(fixed), "{version}: {path} cannot change; a new name needs a new object");
        }
    }
}
