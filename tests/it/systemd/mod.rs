//! Under systemd: what the daemon tells it, and whether it takes the files of `deploy/systemd`.

mod notify;
mod unit;
