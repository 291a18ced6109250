//! The overlays of `deploy/kubernetes` as kustomize renders them, with access to their parts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// The folder of the manifests. Everything that is not an overlay is rendered through one.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes")
}

/// A tool or a schema that setup has installed in the cache.
pub fn tool(name: &str) -> PathBuf {
    brokers::kubernetes().unwrap_or_else(|e| panic!("{e}")).join(name)
}

/// One rendered overlay.
pub struct Overlay {
    pub folder: PathBuf,
    /// The input of `kubectl apply`.
    pub yaml: String,
    /// The objects of that input.
    pub objects: Vec<Value>,
}

impl Overlay {
    pub fn render(folder: PathBuf) -> Self {
        let output = Command::new(tool("kustomize")).arg("build").arg(&folder).output().expect("run kustomize");
        let complaint = String::from_utf8_lossy(&output.stderr);
        // It warns of syntax that a later version will refuse.
        assert!(output.status.success() && complaint.is_empty(), "render {}: {complaint}", folder.display());
        let yaml = String::from_utf8(output.stdout).expect("YAML is text");
        let objects = yaml.split("\n---\n").map(|object| serde_yaml::from_str(object).expect("an object")).collect();
        Overlay { folder, yaml, objects }
    }

    /// All overlays, rendered once for all tests.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Overlay>> = LazyLock::new(|| {
            let folders = fs::read_dir(folder().join("overlays")).expect("the folder of the overlays");
            folders.map(|entry| Overlay::render(entry.expect("an overlay").path())).collect()
        });
        &ALL
    }

    pub fn named(name: &str) -> &'static Self {
        let named = Self::all().iter().find(|overlay| overlay.folder.ends_with(name));
        named.unwrap_or_else(|| panic!("there is an overlay {name}"))
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    /// The pod template with the daemon.
    pub fn pod(&self) -> &Value {
        let templates = self.of_kind("Deployment").map(|deployment| &deployment["spec"]["template"]);
        let mut with_it = templates.filter(|template| containers(&template["spec"]).any(is_daemon));
        with_it.next().unwrap_or_else(|| panic!("no daemon in {}", self.folder.display()))
    }

    /// The daemon's container.
    pub fn daemon(&self) -> &Value {
        containers(&self.pod()["spec"]).find(|container| is_daemon(container)).expect("found before")
    }

    /// The content of the ConfigMap that the daemon's pod mounts.
    pub fn configuration(&self) -> &str {
        let sources = items(&self.daemon_volume()["projected"]["sources"]);
        let name = sources.into_iter().find_map(|source| source["configMap"]["name"].as_str()).expect("a ConfigMap");
        let map = self.of_kind("ConfigMap").find(|map| map["metadata"]["name"] == name).expect("the ConfigMap mounted");
        map["data"]["delaybridge.yaml"].as_str().expect("the file that the daemon looks for")
    }

    fn daemon_volume(&self) -> &Value {
        let mounts = items(&self.daemon()["volumeMounts"]);
        let mount = mounts.into_iter().find(|mount| mount["mountPath"] == "/etc/delaybridge").expect("a configuration");
        let volumes = items(&self.pod()["spec"]["volumes"]);
        volumes.into_iter().find(|volume| volume["name"] == mount["name"]).expect("the volume mounted")
    }

    /// The keys of the Secret in the overlay's instructions.
    pub fn secret_keys(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("kustomization.yaml")).expect("the overlay's kustomization");
        assert!(
            text.contains("create secret generic delaybridge"),
            "the command that creates the Secret is at its head"
        );
        text.split("--from-file=").skip(1).map(|rest| rest.split_whitespace().next().unwrap().to_owned()).collect()
    }
}

fn is_daemon(container: &Value) -> bool {
    container["name"] == "delaybridge"
}

/// The items of a list; empty if there is none.
pub fn items(list: &Value) -> Vec<&Value> {
    list.as_array().map(|list| list.iter().collect()).unwrap_or_default()
}

/// All containers of a pod, including sidecars.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    items(&pod["initContainers"]).into_iter().chain(items(&pod["containers"]))
}

/// Whether a label selector matches these labels.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let exist = items(&selector["matchExpressions"]).into_iter().all(|expression| {
        assert_eq!(expression["operator"], "Exists", "the one that the manifests use");
        !labels[expression["key"].as_str().expect("a key")].is_null()
    });
    equal && exist
}
