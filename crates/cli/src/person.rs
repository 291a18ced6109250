//! The name of the person who runs a command.

/// Returns the person who runs the command.
pub(super) fn person(named: Option<&str>) -> String {
    let user = || {
        ["SUDO_USER", "USER", "LOGNAME"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok())
            .filter(|name| !name.is_empty())
    };
    // A container often has no such variable.
    let number = || format!("uid {}", rustix::process::getuid().as_raw());
    named.map(str::to_owned).or_else(user).unwrap_or_else(number)
}

/// Returns the person and the host, for the log of a daemon.
pub(super) fn actor() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}@{host}", person(None))
}
