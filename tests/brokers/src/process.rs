//! A child process that never outlives its owner: ended and reaped on drop, and killed by the kernel if this process
//! dies.
//!
//! It does not depend on the program.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The poll interval of a state: short compared with a start of seconds, and cheap.
pub(crate) const LOOK: Duration = Duration::from_millis(10);
/// Time-out for a process to stop after SIGSTOP.
const STOPPED: Duration = Duration::from_secs(60);

/// A command that the kernel kills when this process has ended.
///
/// `setpriv` sets the parent-death signal and then becomes the program itself, with the same pid. The process group of
/// its own protects it from a Ctrl-C in the terminal: the owner stops its children in order.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).stdin(Stdio::null()).process_group(0);
    command
}

/// A running child, or one that has ended and was reaped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a [`command`]; failures are reported under `name`.
    ///
    /// # Errors
    ///
    /// The program cannot be started. A missing program is no error here: `setpriv` ends with a status.
    pub fn spawn(name: &str, command: Command) -> io::Result<Self> {
        Ok(Process { child: spawn_from_lasting_thread(command)?, name: name.to_owned() })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for the pipes that the command asked for.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal; no error if the process has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.exit_status().is_some() {
            return;
        }
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a pid is a positive i32");
        // The process may end in between, but it is not reaped yet, so the pid is still its own.
        kill_process(pid, signal).unwrap_or_else(|e| panic!("send {signal:?} to {} (pid {pid:?}): {e}", self.name));
    }

    /// Suspends the process; returns when all its threads are stopped. SIGSTOP is handled by one thread, and on a busy
    /// machine the others continue until it is scheduled.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
        let until = Instant::now() + STOPPED;
        while self.exit_status().is_none() && runs(self.pid()) {
            assert!(Instant::now() < until, "{} (pid {}) does not stop within {STOPPED:?}", self.name, self.pid());
            thread::sleep(LOOK);
        }
    }

    /// The exit status, if the process has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|e| panic!("ask for the exit status of {}: {e}", self.name))
    }

    /// Waits for the end without blocking the runtime; `None` if the process still runs after `patience`.
    pub async fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The same as [`Process::wait`], blocking the thread.
    pub fn wait_blocking(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// Stops the process gracefully, also a suspended one, and waits at most `patience`.
    pub fn stop(&mut self, patience: Duration) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        if self.wait_blocking(patience).is_none() {
            self.kill();
        }
    }

    /// Kills the process and its descendants, and reaps it.
    pub fn kill(&mut self) {
        if self.exit_status().is_none()
            && let Some(group) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
        {
            // Fails only if the group does not exist any more.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Both fail only if the child is reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Memory and CPU time used so far. Panics if the process was reaped.
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid())
    }

    /// Resident memory in bytes; 0 if the process has ended.
    pub(crate) fn resident_memory(&mut self) -> u64 {
        if self.exit_status().is_some() { 0 } else { self.usage().resident }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether a thread of a process is neither stopped nor dead.
fn runs(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        // The state follows the name, which is in parentheses and may contain anything.
        stat.rsplit_once(") ")?.1.chars().next()
    });
    states.any(|state| !matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// Memory and CPU time of a process, from /proc.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory in bytes.
    pub resident: u64,
    /// Maximum resident memory so far, in bytes.
    pub peak: u64,
    /// CPU time of user and system together.
    pub cpu: Duration,
}

impl Usage {
    /// Reads /proc for a process that is not reaped.
    pub fn of(pid: u32) -> Self {
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{file}"))
                .unwrap_or_else(|e| panic!("read /proc/{pid}/{file}: {e}"))
        };
        let status = read("status");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib =
                line.and_then(|rest| rest.trim().strip_suffix("kB")).and_then(|number| number.trim().parse().ok());
            kib.unwrap_or(0_u64) * 1024
        };
        let stat = read("stat");
        // The command's name is in parentheses and may contain anything, so count the fields after the last
        // parenthesis.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        // A tick is 10 ms on every supported Linux (USER_HZ); utime and stime are fields 14 and 15.
        let cpu = Duration::from_millis((ticks(11) + ticks(12)) * 10);
        Usage { resident: bytes("VmRSS:"), peak: bytes("VmHWM:"), cpu }
    }
}

type Order = (Command, SyncSender<io::Result<Child>>);

/// Starts the command from a thread that lasts: the parent-death signal is sent when the *thread* that started the
/// child ends, and a test's thread ends early.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<SyncSender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = sync_channel::<Order>(16);
        thread::spawn(move || {
            for (mut command, reply) in receiver {
                // Fails only if the requester is gone; then the child ends with this process.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, answer) = sync_channel(1);
    orders.send((command, reply)).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}
