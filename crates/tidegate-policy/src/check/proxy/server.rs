//! Checks how the servers of an upstream go with its TLS.

use crate::grammar::{ServerUrl, is_server_name};
use crate::policy::proxy::UpstreamTls;

/// Whether a server with this address can be connected to as `tls` says.
pub(super) fn check(server: &ServerUrl, tls: Option<&UpstreamTls>) -> Result<(), (String, String)> {
    if !server.is_https() && tls.is_some() {
        let what = format!("server \"{server}\" is connected to without TLS, and its upstream has `tls`");
        return Err((what, format!("write https://{}, or take `tls` out", server.authority())));
    }
    let host = server.authority().host();
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if server.is_https() && !is_server_name(host) && tls.is_none_or(|tls| tls.server_name.is_none()) {
        let what = format!("server \"{server}\" has a host that no certificate can be for");
        return Err((what, "say what it is as `tls: { server_name: NAME }`".to_owned()));
    }
    Ok(())
}
