//! The program helm, and what it renders.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The folder of the chart.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/helm/delaybridge")
}

/// Runs helm in a chart's folder.
pub fn helm(chart: &Path, arguments: &[&str]) -> Output {
    let program = brokers::helm().unwrap_or_else(|e| panic!("{e}"));
    let home = tempfile::tempdir().expect("make a directory for helm's files");
    // Independent of the machine's own settings.
    Command::new(program).args(arguments).current_dir(chart).env("HOME", home.path()).output().expect("run helm")
}

/// The objects of a release of this chart, as text and as values.
pub fn render_chart(chart: &Path, release: &str, values: &[&str]) -> Result<(String, Vec<Value>), String> {
    let output = helm(chart, &[&["template", release, "."], values].concat());
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let yaml = String::from_utf8(output.stdout).expect("YAML is text");
    let objects = objects(&yaml);
    Ok((yaml, objects))
}

/// The same with the chart as it is in the repository.
pub fn render(release: &str, values: &[&str]) -> Result<(String, Vec<Value>), String> {
    render_chart(&folder(), release, values)
}

/// The objects of a rendered text.
pub fn objects(yaml: &str) -> Vec<Value> {
    let texts = yaml.split("---\n").filter(|object| object.contains("apiVersion: "));
    texts.map(|object| serde_yaml::from_str(object).expect("an object")).collect()
}

/// The object of this kind, of which there is one.
pub fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut of_kind = objects.iter().filter(|object| object["kind"] == kind);
    let object = of_kind.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(of_kind.next().is_none(), "more than one {kind}");
    object
}
