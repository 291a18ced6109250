//! A child process that never outlives its owner: ended and reaped on drop, and by the kernel should this process die.
//!
//! Knows nothing of what runs in it.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A command that the kernel kills when this process is gone.
///
/// `setpriv` of util-linux sets the parent-death signal and then becomes the program itself, under the same pid.
/// The process group of its own keeps a Ctrl-C in the terminal away: the owner ends its children in order.
pub fn command(program: &str) -> Command {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).stdin(Stdio::null()).process_group(0);
    command
}

/// A running child, or one that has ended and was reaped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a [`command`]; `name` is what failures call it.
    pub fn spawn(name: &str, command: Command) -> io::Result<Self> {
        Ok(Process { child: spawn_from_lasting_thread(command)?, name: name.to_owned() })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pipes, where the command asked for them.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal; a process that has ended already is not an error.
    pub fn signal(&mut self, signal: Signal) {
        if self.exit_status().is_some() {
            return;
        }
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("pids fit into i32")).expect("a pid is not 0");
        // It can end between the look and the signal, but it is not reaped yet, so the pid is still its own.
        if let Err(e) = kill_process(pid, signal) {
            panic!("send {signal:?} to {} (pid {pid:?}): {e}", self.name);
        }
    }

    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|e| panic!("ask for the exit status of {}: {e}", self.name))
    }

    /// Waits for the end without blocking the runtime; `None` when it still runs after `deadline`.
    pub async fn wait(&mut self, deadline: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + deadline;
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// SIGKILL, and reaped when this returns.
    pub fn kill(&mut self) {
        // Both fail only when the child is reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Memory and CPU time of a process, from /proc.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory in bytes.
    pub resident: u64,
    /// CPU time, user and system together.
    pub cpu: Duration,
}

impl Usage {
    /// Reads /proc of a running process.
    pub fn of(pid: u32) -> Self {
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{file}"))
                .unwrap_or_else(|e| panic!("read /proc/{pid}/{file}: {e}"))
        };
        let status = read("status");
        let resident_kib: u64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .and_then(|number| number.trim().parse().ok())
            .unwrap_or(0);
        let stat = read("stat");
        // The command's name stands in parentheses and may hold anything, so the fields are counted after the last one.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        // A tick is 10 ms on every Linux that this runs on (USER_HZ); utime and stime are fields 14 and 15.
        Usage { resident: resident_kib * 1024, cpu: Duration::from_millis((ticks(11) + ticks(12)) * 10) }
    }
}

type Order = (Command, SyncSender<io::Result<Child>>);

/// The parent-death signal fires when the *thread* that started the child ends, and a test's thread ends early.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<SyncSender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = sync_channel::<Order>(16);
        thread::spawn(move || {
            for (mut command, reply) in receiver {
                // Fails only when the asker is gone; the child then is dropped with it and ends with this process.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, answer) = sync_channel(1);
    orders.send((command, reply)).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}
