//! What the scheduler runs: a test program, or the tests of a client in another language.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::build::Program;
use crate::place::Place;

/// A process that runs tests.
#[derive(Debug, Clone)]
pub struct Job {
    /// The name of the program in reports.
    pub name: String,
    pub place: Place,
    pub kind: Kind,
}

/// How the results of a job are read.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A program of Rust's test library.
    Tests(Program),
    /// A command that is one test, by its exit code.
    Command(Vec<String>),
}

impl Job {
    pub fn test(program: &Program, place: Place) -> Job {
        Job { name: program.target.clone(), place, kind: Kind::Tests(program.clone()) }
    }

    /// What runs beside the test programs: the tests of the clients that setup has the tools for (`make test-clients` runs
    /// all), the examples in the documentation of the code, and damaged payloads for 15 seconds.
    pub fn others() -> Vec<Job> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let job = |name: &str, command: &str| Job {
            name: name.to_owned(),
            place: Place { threads: 1, weight: 1, alone: false, rank: 0 },
            kind: Kind::Command(command.split(' ').map(str::to_owned).collect()),
        };
        let fuzz = "run --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz -- 15";
        vec![
            job("client python", "scripts/clients-test.sh python"),
            job("client node", "scripts/clients-test.sh node"),
            job("examples", &format!("{cargo} test --quiet --locked --workspace --doc")),
            job("fuzz", &format!("{cargo} {fuzz}")),
        ]
    }

    /// The command of the job, of all of its tests or of one.
    pub fn command(&self, only: Option<&str>) -> Command {
        match &self.kind {
            Kind::Tests(program) => {
                let mut command = ended_with_us(&program.executable);
                command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
                command.env("RUSTC_BOOTSTRAP", "1").env("LD_LIBRARY_PATH", library_path());
                command.args(["-Zunstable-options", "--format", "json", "--report-time"]);
                command.args(["--test-threads", &self.place.threads.to_string()]);
                if let Some(name) = only {
                    command.args(["--exact", name]);
                }
                command
            }
            Kind::Command(words) => {
                let mut command = ended_with_us(&words[0]);
                command.args(&words[1..]);
                command
            }
        }
    }
}

/// A command that the kernel ends when this process has ended: a run that is killed leaves nothing behind. `setpriv` becomes
/// the program itself, with the same pid.
fn ended_with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// The folder of Rust's shared libraries, which the tests of a crate of macros need.
fn library_path() -> PathBuf {
    static PATH: std::sync::LazyLock<PathBuf> = std::sync::LazyLock::new(|| {
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        let output = Command::new(rustc).args(["--print", "target-libdir"]).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().into()).unwrap_or_default()
    });
    PATH.clone()
}
