//! The address of a name server or a broker.

/// Returns the text of an address.
pub(super) fn shown_server((host, port): &(String, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
