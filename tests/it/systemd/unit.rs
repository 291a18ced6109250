//! The unit as systemd reads it: no warning, little exposure, and the exit codes of the daemon.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// The unit with its drop-in as installed, except for the path of the binary, which systemd checks.
fn installed() -> (TempDir, PathBuf) {
    let dir = TempDir::with_prefix("delaybridge-unit-").expect("make a directory for the unit");
    let unit = dir.path().join("delaybridge.service");
    let drop_ins = dir.path().join("delaybridge.service.d");
    let text = shipped("delaybridge.service").replace("/usr/bin/delaybridge", env!("CARGO_BIN_EXE_delaybridge"));
    std::fs::write(&unit, text).unwrap();
    std::fs::create_dir(&drop_ins).unwrap();
    std::fs::write(drop_ins.join("credentials.conf"), shipped("credentials.conf")).unwrap();
    (dir, unit)
}

fn analyze(arguments: &[&str], unit: &Path) -> (bool, String) {
    let output = Command::new("systemd-analyze").arg("--no-pager").args(arguments).arg(unit).output();
    let Output { status, stdout, stderr } =
        output.unwrap_or_else(|e| panic!("run systemd-analyze: {e}; `make setup` installs it"));
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn systemd_takes_the_unit_and_its_drop_in_without_a_word() {
    let (_dir, unit) = installed();
    // Without --man=no it would look for the manual page, which only the package installs.
    assert_eq!(analyze(&["verify", "--man=no"], &unit), (true, String::new()));
}

#[test]
fn what_the_service_could_do_to_the_machine_rates_at_most_2_0() {
    let (_dir, unit) = installed();
    let (well, report) = analyze(&["security", "--offline=true", "--threshold=20"], &unit);
    assert!(well, "{report}");
    println!("{}", report.lines().last().unwrap_or_default());
}

#[test]
fn the_exit_codes_are_those_of_the_daemon() {
    let unit = shipped("delaybridge.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    assert_eq!(value("SuccessExitStatus"), delaybridge::app::LEFTOVERS.to_string());
    // The exit code for an invalid configuration, which `tests/it/cli/check.rs` tests.
    assert_eq!(value("RestartPreventExitStatus"), "2");
}
