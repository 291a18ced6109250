//! Files that are made or downloaded once per machine, in the folder that scripts/setup.sh fills, outside of `target`.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{During, Error, Result};

/// The version of Kafka that scripts/setup.sh downloads.
pub(crate) const KAFKA: &str = "kafka-4.3.1";

/// The version of ElasticMQ that scripts/setup.sh downloads.
pub(crate) const ELASTICMQ: &str = "elasticmq-1.7.1";

/// The version of ActiveMQ Artemis that scripts/setup.sh downloads.
pub(crate) const ARTEMIS: &str = "artemis-2.40.0";

/// The versions of RocketMQ that scripts/setup.sh downloads.
pub(crate) const ROCKETMQ_4: &str = "rocketmq4-4.9.7";
/// As [`ROCKETMQ_4`].
pub(crate) const ROCKETMQ_5: &str = "rocketmq5-5.3.3";

/// The version of actionlint that scripts/setup.sh builds.
const ACTIONLINT: &str = "actionlint@v1.7.7";
/// The program that tests the chart; its version is also in scripts/setup.sh.
const HELM: &str = "helm-3.17.1";
/// The schema of KEDA's objects; its version is also in scripts/setup.sh.
const KEDA: &str = "keda-2.15.1.yaml";
/// The version of the Prometheus operator; it is also in scripts/setup.sh.
const PROMETHEUS_OPERATOR: &str = "0.85.0";
/// The schema of Compose files; its version is also in scripts/setup.sh.
const COMPOSE: &str = "compose-go-2.4.0.json";

/// The file, if setup has put it there.
fn there(file: PathBuf) -> Result<PathBuf> {
    if file.exists() {
        Ok(file)
    } else {
        Err(Error::new(format!("find {}: not there; run `make setup`", file.display())))
    }
}

/// The folder of Kafka, if setup has completed it.
pub(crate) fn kafka() -> Result<PathBuf> {
    complete(KAFKA, "Kafka")
}

/// The folder of ActiveMQ Artemis, if setup has completed it.
pub(crate) fn artemis() -> Result<PathBuf> {
    complete(ARTEMIS, "Artemis")
}

/// The folder of this name, if setup has completed it.
pub(crate) fn complete(name: &str, what: &str) -> Result<PathBuf> {
    let folder = root()?.join(name);
    if folder.join("complete").exists() {
        Ok(folder)
    } else {
        Err(Error::new(format!("find {what} in {}: not there; run `make setup`", folder.display())))
    }
}

/// The folder of ElasticMQ, if setup has completed it.
pub(crate) fn elasticmq() -> Result<PathBuf> {
    let folder = root()?.join(ELASTICMQ);
    if folder.join("complete").exists() {
        Ok(folder)
    } else {
        Err(Error::new(format!("find ElasticMQ in {}: not there; run `make setup`", folder.display())))
    }
}

/// The program moto_server, if setup has completed it.
pub(crate) fn moto() -> Result<PathBuf> {
    let folder = root()?.join("moto");
    if folder.join("complete").exists() {
        Ok(folder.join("python/bin/moto_server"))
    } else {
        Err(Error::new(format!("find moto in {}: not there; run `make setup`", folder.display())))
    }
}

/// The jar of Kafka's own Java client.
pub(crate) fn kafka_client() -> Result<PathBuf> {
    there(kafka()?.join("lib").join(KAFKA.replace("kafka-", "kafka-clients-") + ".jar"))
}

/// The folder of Redisson's jars, if setup has completed it with the jars in these lines of `sha256sum`.
pub(crate) fn redisson(jars: &str) -> Result<PathBuf> {
    let folder = root()?.join("redisson");
    let complete = fs::read_to_string(folder.join("complete")).unwrap_or_default();
    // The folder may be older than this source, with another version.
    if jars.lines().all(|jar| complete.lines().any(|line| line == jar)) {
        Ok(folder)
    } else {
        Err(Error::new(format!("find the jars in {}: not all are there; run `make setup`", folder.display())))
    }
}

/// The folder of kustomize, kubeconform and the schemas of Kubernetes, if setup has completed it.
pub fn kubernetes() -> Result<PathBuf> {
    let folder = root()?.join("kubernetes");
    if folder.join("complete").exists() {
        Ok(folder)
    } else {
        Err(Error::new(format!("find kustomize in {}: not there; run `make setup`", folder.display())))
    }
}

/// The program helm, as setup downloads it.
pub fn helm() -> Result<PathBuf> {
    there(root()?.join(HELM))
}

/// The definition of KEDA's ScaledObject, as setup downloads it.
pub fn keda() -> Result<PathBuf> {
    there(root()?.join(KEDA))
}

/// The definition of a kind of the Prometheus operator, `servicemonitors` or `prometheusrules`, as setup downloads it.
pub fn prometheus_operator(kind: &str) -> Result<PathBuf> {
    there(root()?.join(format!("{kind}-{PROMETHEUS_OPERATOR}.yaml")))
}

/// The schema of the Compose specification, as setup downloads it.
pub fn compose() -> Result<PathBuf> {
    there(root()?.join(COMPOSE))
}

/// The program actionlint, as setup builds it.
pub fn actionlint() -> Result<PathBuf> {
    there(root()?.join(ACTIONLINT))
}

/// The folder of the generators of clients from an OpenAPI document, if setup has completed it.
pub fn openapi() -> Result<PathBuf> {
    let folder = root()?.join("openapi");
    if folder.join("complete").exists() {
        Ok(folder)
    } else {
        Err(Error::new(format!("find oapi-codegen in {}: not there; run `make setup`", folder.display())))
    }
}

/// The program with a client of lmstfy, as setup builds it.
pub fn lmstfy_client() -> Result<PathBuf> {
    let program = root()?.join("lmstfy-client/lmstfy-client-program");
    if program.exists() {
        Ok(program)
    } else {
        Err(Error::new(format!("find {}: not there; run `make setup`", program.display())))
    }
}

/// The server of faktory, as setup builds it for benchmarks.
pub fn faktory() -> Result<PathBuf> {
    job_queue("faktory")
}

/// The server of lmstfy, as setup builds it for benchmarks.
pub fn lmstfy() -> Result<PathBuf> {
    job_queue("lmstfy")
}

fn job_queue(name: &str) -> Result<PathBuf> {
    let program = root()?.join(format!("{name}-server")).join(name);
    if program.exists() {
        Ok(program)
    } else {
        Err(Error::new(format!("find {}: not there; run `scripts/setup.sh bench`", program.display())))
    }
}

/// The program with asynq, as setup builds it.
pub fn asynq() -> Result<PathBuf> {
    let program = root()?.join("asynq/asynq-program");
    if program.exists() {
        Ok(program)
    } else {
        Err(Error::new(format!("find {}: not there; run `make setup`", program.display())))
    }
}

/// The folder with the packages of BullMQ, if setup has completed it.
pub fn bullmq() -> Result<PathBuf> {
    let folder = root()?.join("bullmq");
    if folder.join("complete").exists() {
        Ok(folder.join("node_modules"))
    } else {
        Err(Error::new(format!("find BullMQ in {}: not there; run `make setup`", folder.display())))
    }
}

/// A server of this name and version, such as `valkey-9.1.2`, as setup unpacks it.
pub fn redis_server(version: &str) -> Result<PathBuf> {
    let program = root()?.join("servers").join(version);
    if program.exists() {
        Ok(program)
    } else {
        Err(Error::new(format!("find {}: not there; run `make setup`", program.display())))
    }
}

fn root() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("DELAYBRIDGE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("delaybridge")))
        .or_else(|| Some(set("HOME")?.join(".cache/delaybridge")))
        .ok_or_else(|| Error::new("find the cache: HOME is not set"))
}

/// Makes `path` with `make`, once for all processes on this machine: others wait and find it.
///
/// `make` writes to the path that it is given; the result is renamed only when it is complete.
pub(crate) fn once(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = File::create(&lock).during(format_args!("create {}", lock.display()))?;
    // The lock is released when the file is closed, or by the kernel if this process dies.
    lock.lock().during(format_args!("lock {}", path.display()))?;
    if path.exists() {
        return Ok(());
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    // Remove the remains of a killed process; at least one of the two calls fails.
    let _ = fs::remove_file(&unfinished);
    let _ = fs::remove_dir_all(&unfinished);
    make(&unfinished).map_err(|e| e.during(format_args!("make {}", path.display())))?;
    fs::rename(&unfinished, path).during(format_args!("rename {}", unfinished.display()))
}
