//! The remoting protocol of RocketMQ: frames, signatures, routes, messages. Pure: nothing here reads a clock or a socket.

pub(super) mod frame;
pub(super) mod message;
mod properties;
pub(super) mod route;
pub(super) mod sign;

#[cfg(test)]
mod frame_tests;

/// Bytes that are no remoting protocol, or more of it than is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotRemoting(pub(super) &'static str);

pub(super) mod code {
    pub(in super::super) const HEARTBEAT: u16 = 34;
    pub(in super::super) const ROUTE: u16 = 105;
    pub(in super::super) const CLUSTER: u16 = 106;
    pub(in super::super) const SEND: u16 = 310;
    pub(in super::super) const SEND_BATCH: u16 = 320;
}
