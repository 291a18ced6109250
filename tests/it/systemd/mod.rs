//! Under systemd: what the daemon tells it.

mod notify;
