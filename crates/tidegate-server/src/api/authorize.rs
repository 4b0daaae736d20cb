//! The gateway subrequest: `ANY /v1/authorize`.
//!
//! Namespace and attributes come from the query and from configured headers; a header wins over the
//! query, because not every gateway escapes what it puts into a query. An attribute that comes
//! twice, in the query or as a header, is refused rather than chosen: which one the service behind
//! the gateway would take is not known here. A query without a namespace means the configured one,
//! if there is one.
//!
//! Reserved in the query: `namespace`, `cost`, `class` and `deny_status`. Attributes of these names
//! can only come as headers. Attributes may name a resource and an access to a table: see
//! [`PlaneSettings::add_words`](crate::PlaneSettings).

use std::borrow::Cow;

use http::HeaderMap;
use tidegate_core::{Class, Cost};
use tidegate_net::query::parameters;
use tidegate_net::reply::Reply;
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::Fault;
use tidegate_wire::pairs::Pairs;
use tidegate_wire::text::Text;

use crate::api::parameters::{Accepted, decoded_leniently, malformed};
use crate::api::route::{RefusalForm, Route, RouteAccess};
use crate::api::terms::{Keep, Style, Terms};
use crate::authorization::Caller;
use crate::claims::OwnClaims;
use crate::config::AuthorizeHeaders;
use crate::context::RequestScope;
use crate::decide::RequestProgress;

/// The route, which a gateway asks with the method of its own client.
pub(crate) const ROUTES: &[Route] =
    &[Route::post("/v1/authorize", "May this request go ahead? For gateways, any method", |call| {
        Box::pin(async move {
            let (scope, caller, head, query) = (call.scope, call.caller, call.head, call.query());
            // A gateway may send the body of the request it asks about; it is not looked at.
            call.body.discard();
            scope.authorize(caller, query, &head.headers).await
        })
    })
    .any_method()
    .access(RouteAccess::Gateway)
    .refuses(RefusalForm::Status)
    .requires(&["namespace"])
    .query(Accepted { route: "/v1/authorize", once: &["namespace", "deny_status"], repeated: &[] })];

/// A gateway subrequest, read from query and headers.
#[derive(Debug)]
struct Subrequest<'a> {
    namespace: Cow<'a, str>,
    attributes: Pairs<'a>,
    cost: Option<Cost>,
    class: Option<Class>,
    deny_status: Option<u16>,
}

impl RequestScope<'_> {
    pub(crate) async fn authorize(
        &self,
        caller: &Caller,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Reply, Fault> {
        let names = &self.in_force.config.authorize_headers;
        let default = self.in_force.config.authorize_namespace.as_deref();
        let subrequest = Subrequest::read(query.unwrap_or(""), headers, names, default)?;
        let (begun, shown) = self.begin_authorize(caller, &subrequest, headers)?;
        let reply = self.end(Ok(begun)).await?;
        Ok(self.with_load(reply, shown.as_deref(), &subrequest.namespace))
    }

    /// Begins the decision; with the resource of the request, if answers about it show its load.
    fn begin_authorize(
        &self,
        caller: &Caller,
        subrequest: &Subrequest<'_>,
        headers: &HeaderMap,
    ) -> Result<(RequestProgress, Option<Box<str>>), Fault> {
        caller.may(Verb::Check, &subrequest.namespace)?;
        let pairs = self.bounded(&subrequest.attributes)?;
        let own = OwnClaims::from_headers(subrequest.class, headers)?;
        let mut request = self.request_of(&subrequest.namespace, &pairs, subrequest.cost, own, caller)?;
        let planes = &self.in_force.config.planes;
        planes.add_words(&mut request, |name| subrequest.attributes.get(name), caller)?;
        // A gateway does not report the end of the work.
        let request = request.end_unknown();
        let shown = request.resource.filter(|name| planes.shows_load(name)).map(Into::into);
        let style = Style::Headers(subrequest.deny_status);
        let terms = Terms { now: self.daemon.clock.now(), keep: Keep::Expiring, style };
        Ok((self.begin(&request, terms)?, shown))
    }
}

impl<'a> Subrequest<'a> {
    fn read(
        query: &'a str,
        headers: &'a HeaderMap,
        names: &'a AuthorizeHeaders,
        default_namespace: Option<&'a str>,
    ) -> Result<Self, Fault> {
        let mut namespace = None;
        let mut cost = None;
        let mut class = None;
        let mut deny_status = None;
        let mut attributes = Pairs::default();
        for (header, attribute) in names.iter() {
            let mut values = headers.get_all(header).iter();
            let Some(value) = values.next() else { continue };
            if values.next().is_some() {
                return Err(malformed(format_args!("duplicate header {header}"))
                    .fix("have the gateway set it rather than add to it"));
            }
            let text = core::str::from_utf8(value.as_bytes())
                .map_err(|_| malformed(format_args!("header {header} is not UTF-8")))?;
            attributes.push(Text(attribute.into()), Text(text.into())).map_err(malformed)?;
        }
        let mut from_query = Pairs::default();
        for parameter in parameters(query) {
            let (name, value) = parameter.raw();
            let (name, value) = (decoded_leniently(name)?, decoded_leniently(value)?);
            let twice = || malformed(format_args!("duplicate \"{name}\" in the query")).fix("send it once");
            match &*name {
                "namespace" if namespace.is_some() => return Err(twice()),
                "namespace" => namespace = Some(value),
                "deny_status" if deny_status.is_some() => return Err(twice()),
                "deny_status" => deny_status = Some(parse_status(&value)?),
                "cost" if cost.is_some() => return Err(twice()),
                "cost" => cost = Some(parse_cost(&value)?),
                "class" if class.is_some() => return Err(twice()),
                "class" => class = Some(value.parse().map_err(malformed)?),
                _ => from_query.push(Text(name), Text(value)).map_err(malformed)?,
            }
        }
        for (name, value) in from_query.into_pairs() {
            if attributes.get(&name).is_none() {
                attributes.push(name, value).map_err(malformed)?;
            }
        }
        let namespace = namespace.or(default_namespace.map(Cow::Borrowed)).ok_or_else(|| {
            malformed("the query names no namespace").fix("ask for /v1/authorize?namespace=...")
        })?;
        Ok(Self { namespace, attributes, cost, class, deny_status })
    }
}

/// A query of `/v1/authorize` as [`read_authorize_query`] reads it.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizeQuery {
    pub namespace: String,
    pub attributes: Vec<(String, String)>,
    pub cost: Option<Cost>,
    pub class: Option<Class>,
    pub deny_status: Option<u16>,
}

/// Reads a query of `/v1/authorize` as the route does. For the fuzzer.
#[doc(hidden)]
pub fn read_authorize_query(
    query: &str,
    headers: &HeaderMap,
    names: &AuthorizeHeaders,
) -> Result<AuthorizeQuery, Fault> {
    let read = Subrequest::read(query, headers, names, None)?;
    let attributes = read.attributes.borrowed();
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Ok(AuthorizeQuery {
        attributes: attributes.collect(),
        namespace: read.namespace.into_owned(),
        cost: read.cost,
        class: read.class,
        deny_status: read.deny_status,
    })
}

fn parse_cost(text: &str) -> Result<Cost, Fault> {
    text.parse().ok().and_then(Cost::new).ok_or_else(|| {
        malformed(format_args!("cost \"{text}\" is not a whole number from 1 to {}", u64::MAX))
            .fix("leave it out for the default")
    })
}

fn parse_status(text: &str) -> Result<u16, Fault> {
    text.parse().ok().filter(|status| (400..600).contains(status)).ok_or_else(|| {
        malformed(format_args!("deny_status \"{text}\" is not a status from 400 to 599"))
            .fix("leave it out for 429 and 503, or send what the gateway passes, such as 403")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn names() -> AuthorizeHeaders {
        AuthorizeHeaders::new([("x-api-key", "api_key"), ("x-user", "user")]).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    fn read(query: &str, given: &[(&'static str, &str)]) -> Result<(String, Vec<(String, String)>), String> {
        let (headers, names) = (headers(given), names());
        let subrequest = Subrequest::read(query, &headers, &names, None).map_err(|fault| fault.detail)?;
        let pairs = subrequest.attributes.borrowed();
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Ok((subrequest.namespace.into_owned(), pairs))
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn attributes_come_from_query_and_headers_and_a_header_wins() {
        let (namespace, pairs) =
            read("namespace=api&user=mallory&ip=%3A%3A1&note=a+b", &[("x-user", "ada")]).unwrap();
        assert_eq!(namespace, "api");
        assert_eq!(pairs, [pair("user", "ada"), pair("ip", "::1"), pair("note", "a b")]);
        // From a gateway that does not escape: it must not lock its caller out.
        let (_, pairs) = read("namespace=api&user=%zz&note=100%", &[]).unwrap();
        assert_eq!(pairs, [pair("user", "%zz"), pair("note", "100%")]);
    }

    #[test]
    fn what_comes_twice_is_refused_rather_than_chosen() {
        assert!(read("namespace=api&user=a&user=b", &[]).unwrap_err().contains("duplicate"));
        for name in ["namespace", "cost", "class", "deny_status"] {
            let value = match name {
                "class" => "critical",
                "deny_status" => "403",
                _ => "1",
            };
            let rest = if name == "namespace" { "" } else { "namespace=api&" };
            let twice = read(&format!("{rest}{name}={value}&{name}={value}"), &[]).unwrap_err();
            assert_eq!(twice, format!("duplicate \"{name}\" in the query"));
        }
        let twice = [("x-api-key", "one"), ("x-api-key", "two")];
        assert!(read("namespace=api", &twice).unwrap_err().contains("duplicate header x-api-key"));
    }

    #[test]
    fn a_query_that_cannot_be_taken_says_why() {
        for (query, hint) in [
            ("", "names no namespace"),
            ("user=ada", "names no namespace"),
            ("namespace=api&user=%ff", "not UTF-8"),
            ("namespace=api&cost=0", "not a whole number"),
            ("namespace=api&cost=1.5", "not a whole number"),
            ("namespace=api&class=urgent", "does not exist"),
            ("namespace=api&deny_status=200", "400 to 599"),
            ("namespace=api&deny_status=ok", "400 to 599"),
            ("namespace=api&=x", "empty name"),
        ] {
            let detail = read(query, &[]).unwrap_err();
            assert!(detail.contains(hint), "{query}: {detail}");
        }
        assert!(read("namespace=api", &[("x-user", "\u{fc}")]).is_ok(), "UTF-8 in a header is text");
    }
}
