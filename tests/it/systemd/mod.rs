//! The daemon with systemd: its notifications, and the files of `deploy/systemd`.

mod notify;
mod unit;
