//! The output of `tidegate serve`: the address of each listener, and three lines to paste.

use std::fmt::Write;
use std::path::{self, Path};

use tidegate_core::limit::KeyPart;
use tidegate_policy::Policy;
use tidegate_policy::policy::StoreKind;
use tidegate_server::{Address, Handle, ListenerRole};

use crate::arguments::Serve;

/// The lines, for a daemon that has started with this store.
pub(crate) fn lines(policy: &Policy, handle: &Handle, store: &StoreKind, arguments: &Serve) -> String {
    let is_example = arguments.configuration().is_none();
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let what = if is_example { ", with the built-in example" } else { "" };
    let _ = writeln!(text, "tidegate {version} is serving{what}");
    for address in handle.addresses(ListenerRole::Http) {
        let _ = writeln!(text, "  callers    {}", url(address));
    }
    match handle.admin() {
        Some(address) => {
            let _ = writeln!(text, "  operators  {}", url(address));
        }
        None => {
            let _ = writeln!(text, "  operators  nowhere: set listen.admin to see metrics and limits");
        }
    }
    if let Some(proxy) = handle.proxy() {
        match &arguments.upstream {
            Some(upstream) => writeln!(text, "  proxy      {} -> {upstream}", url(proxy)),
            None => writeln!(text, "  proxy      {}", url(proxy)),
        }
        .expect("a string takes every text");
    }
    if let Some(grpc) = handle.grpc() {
        let _ = writeln!(text, "  grpc       {grpc}");
    }
    if let Some(resp) = handle.resp() {
        let _ = writeln!(text, "  redis      {resp}");
    }
    let _ = writeln!(text, "  store      {}", store_words(store));
    if let (Some(proxy), true) = (handle.proxy(), is_example) {
        let curl = curl(proxy);
        let _ = writeln!(text, "\nTry it:\n\n  # passed on to the service");
        let _ = writeln!(text, "  {curl}/");
        let _ =
            writeln!(text, "\n  # more than a hundred at once: some are refused, and say when to come back");
        let plain = curl.trim_start_matches("curl -i ");
        let _ = writeln!(text, "  curl -so /dev/null -w '%{{http_code}} ' '{plain}/?[1-150]'; echo");
        if let Some(operators) = handle.admin() {
            let _ = writeln!(text, "\n  # what was decided so far\n  {}/metrics", self::curl(operators));
        }
        return text;
    }
    let Some(check) = example_check(policy) else { return text };
    let Some(callers) = handle.http() else { return text };
    let curl = curl(callers);
    let _ = writeln!(text, "\nTry it:\n");
    if is_example {
        let _ = writeln!(text, "  # a request that may go ahead");
    }
    let _ = writeln!(text, "  {curl}/v1/check -d '{check}'");
    if is_example {
        let _ = writeln!(text, "\n  # the same until it is refused, and says why and when to come back");
        let _ = writeln!(text, "  for i in 1 2 3 4 5 6; do {curl}/v1/check -d '{check}'; echo; done");
    }
    if let Some(operators) = handle.admin() {
        if is_example {
            let _ = writeln!(text, "\n  # what was decided so far");
        }
        let _ = writeln!(text, "  {}/metrics", self::curl(operators));
    }
    text
}

fn store_words(store: &StoreKind) -> String {
    match store {
        StoreKind::Embedded(embedded) => {
            let directory = Path::new(&embedded.path);
            let directory = path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
            directory.display().to_string()
        }
        StoreKind::Redis(redis) => redis.urls.join(", "),
        _ => "memory, which a restart forgets".to_owned(),
    }
}

fn url(address: &Address) -> String {
    match address {
        Address::Tcp(socket) => format!("http://{socket}"),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// The beginning of a curl command to which a path is appended.
fn curl(address: &Address) -> String {
    match address {
        Address::Tcp(socket) => format!("curl -i http://{socket}"),
        Address::Unix(path) => format!("curl -i --unix-socket {} http://localhost", path.display()),
    }
}

/// A request that the first limit of the first namespace counts.
fn example_check(policy: &Policy) -> Option<String> {
    let namespace = policy.namespaces.first()?;
    let key = namespace.limits.first().map(|limit| limit.key.as_slice()).unwrap_or_default();
    let values = ["ada", "bob", "cyd"].into_iter().chain(std::iter::repeat("x"));
    // An address of the range for documentation (RFC 5737) where the limit counts by addresses.
    let value_of = |part: &KeyPart, value| if part.ipv6_prefix.is_some() { "192.0.2.1" } else { value };
    let attributes: serde_json::Map<String, serde_json::Value> = key
        .iter()
        .zip(values)
        .map(|(part, value)| (part.attribute.clone(), value_of(part, value).into()))
        .collect();
    let check = serde_json::json!({"namespace": namespace.name, "attributes": attributes});
    // Within single quotes of a shell.
    Some(check.to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_an_address_where_the_limit_counts_by_addresses() {
        let text = "namespaces: { api: { limits: [{ name: a, key: [user, ip], rate: 5/s }] } }";
        let checked = tidegate_policy::parse("t.yaml", text, &|_| None).unwrap();
        let example = example_check(&checked.policy).unwrap();
        assert_eq!(example, r#"{"attributes":{"ip":"192.0.2.1","user":"ada"},"namespace":"api"}"#);
    }
}
