//! A real Prometheus with a port and a directory of its own.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::http;
use brokers::ports::free_port;
use brokers::process::{Process, command};

/// Time-out of the start and of a response, on a machine that runs other tests as well.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running server, removed with its data on drop.
pub struct Prometheus {
    _process: Process,
    _dir: TempDir,
    port: u16,
}

impl Prometheus {
    /// Starts the server with this configuration, and with the rules in the file `rules.yaml`.
    pub async fn start(config: &str, rules: &str) -> Self {
        let dir = TempDir::with_prefix("delaybridge-prometheus-").expect("make a directory for prometheus");
        for (name, text) in [("prometheus.yaml", config), ("rules.yaml", rules)] {
            std::fs::write(dir.path().join(name), text).unwrap_or_else(|e| panic!("write {name}: {e}"));
        }
        let log = dir.path().join("log");
        for attempt in 1.. {
            let port = free_port();
            let mut command = command("prometheus");
            command.current_dir(dir.path()).arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn"]);
            command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).expect("create the log"));
            let mut process = Process::spawn("prometheus", command)
                .unwrap_or_else(|e| panic!("spawn prometheus (is it installed? `make setup`): {e}"));
            let until = Instant::now() + DEADLINE;
            loop {
                if http::get(port, "/-/ready", DEADLINE).await.is_ok_and(|answer| answer.status == 200) {
                    return Prometheus { _process: process, _dir: dir, port };
                }
                let said = || std::fs::read_to_string(&log).unwrap_or_default();
                if let Some(status) = process.exit_status() {
                    // Another process took the port between the check and the bind.
                    if attempt < 5 && said().contains("address already in use") {
                        break;
                    }
                    panic!("prometheus ended with {status} (not installed? `make setup`): {}", said());
                }
                assert!(Instant::now() < until, "prometheus is not ready within {DEADLINE:?}: {}", said());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        unreachable!("the attempts end in a return or a panic")
    }

    /// Requests the API; returns the value of `data`, or its error.
    pub async fn get(&self, path: &str) -> Result<Value, String> {
        let answer = http::get(self.port, path, DEADLINE).await?;
        let body: Value = serde_json::from_str(&answer.body).map_err(|e| format!("{e}: {}", answer.body))?;
        if body["status"] == "success" { Ok(body["data"].clone()) } else { Err(answer.body) }
    }

    /// The series of an instant query with their values; `NaN` is no value.
    pub async fn query(&self, expr: &str) -> Result<Vec<(Value, f64)>, String> {
        let escaped: String = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.get(&format!("/api/v1/query?query={escaped}")).await?;
        let series = data["result"].as_array().ok_or_else(|| format!("no vector: {data}"))?;
        let value = |series: &Value| series["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
        let read = series.iter().filter_map(|series| Some((series["metric"].clone(), value(series)?)));
        Ok(read.filter(|(_, value)| !value.is_nan()).collect())
    }
}
