//! The daemon with systemd: its notifications, and the files of `deploy/systemd`.

mod absent;
mod journal;
mod notify;
mod unit;
