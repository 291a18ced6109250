//! Under systemd: the daemon's notifications, and whether systemd accepts the files of `deploy/systemd`.

mod notify;
mod unit;
