//! The key `proxy` of sinks that speak HTTP.

use std::sync::Arc;

use serde_json::Value;

use delaybridge_dial::{Proxy, ProxyChoice};
use delaybridge_settings::keys::Key;
use delaybridge_settings::reader::Section;

/// Reads the key.
pub fn read_proxy(section: &Section<'_>, key: &Key) -> ProxyChoice {
    let Some(text) = section.text(key) else { return ProxyChoice::Environment };
    if text.value == "none" {
        return ProxyChoice::Direct;
    }
    match Proxy::parse(&text.value) {
        Ok(proxy) => {
            if proxy.has_login() && text.is_plain() {
                let help = "write the URL as `${PROXY_URL}`, and set the variable";
                section.cx.report.warning(&text.spot, "the URL holds a password in plain text", help);
            }
            ProxyChoice::Through(Arc::new(proxy))
        }
        Err(why) => {
            section.cx.report.problem(&text.spot, why, "write `http://host:3128`, or `none`");
            ProxyChoice::Direct
        }
    }
}

/// Shows the value, without a login.
pub fn shown_proxy(choice: &ProxyChoice) -> Option<Value> {
    match choice {
        ProxyChoice::Environment => None,
        ProxyChoice::Direct => Some("none".into()),
        ProxyChoice::Through(proxy) => Some(format!("http://{proxy}").into()),
    }
}
