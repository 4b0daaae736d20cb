//! A route of the HTTP API as its owner registers it, and the table of all routes.

use core::fmt::Write;
use core::future::Future;
use core::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use smallvec::SmallVec;
use tidegate_net::connections::ConnectionActivity;
use tidegate_net::reply::Reply;
use tidegate_wire::{Fault, FaultCode};

use crate::api::body::BodyReader;
use crate::api::parameters::Accepted;
use crate::authorization::Caller;
use crate::context::RequestScope;
use crate::decide::RouteProgress;

/// The answer of a route.
pub(crate) type RouteFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, Fault>> + Send + 'a>>;

/// Answers the requests of a route.
pub(crate) type Handler = for<'a> fn(RouteCall<'a>) -> RouteFuture<'a>;

/// The beginning of a decision.
pub(crate) type DecisionFuture<'a> = Pin<Box<dyn Future<Output = Result<RouteProgress, Fault>> + Send + 'a>>;

/// Begins the decisions of a route.
pub(crate) type DecisionHandler = for<'a> fn(RouteCall<'a>) -> DecisionFuture<'a>;

/// How the requests of a route are answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RouteHandler {
    /// By one future, for which the head and the body of the request stay in memory.
    Answer(Handler),
    /// By a decision that needs neither head nor body any more while it waits.
    Decision(DecisionHandler),
}

/// The callers of a route, and who checks their grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Callers that are limited; the handler checks the grant for the namespace.
    Caller,
    /// The same through a gateway, which passes on the headers and the host of its own clients.
    Gateway,
    /// Operators that may inspect everywhere.
    Inspector,
    /// Operators; the handler checks the grant.
    Operator,
    /// Everyone; no grant is needed.
    Everyone,
}

/// A route of the HTTP API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Its path. A segment in braces stands for any segment, and has that name.
    pub(crate) path: &'static str,
    /// The methods it takes; none stands for all.
    pub(crate) methods: &'static [Method],
    pub(crate) access: RouteAccess,
    pub(crate) handler: RouteHandler,
    /// Read by the test that makes `openapi.json`.
    pub(crate) description: Description,
}

/// A route as the description of the API has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// Its purpose; empty for a route that stands there only to explain an error.
    pub(crate) summary: &'static str,
    /// The schema of the body of a request.
    pub(crate) body: Option<&'static str>,
    /// The schema of the body of an answer.
    pub(crate) answer: Option<&'static str>,
    /// Whether it may be answered with a refusal, and with a body for it.
    pub(crate) refusal: RefusalForm,
    /// The parameters of its query that must be given.
    pub(crate) required: &'static [&'static str],
    /// The parameters of its query.
    pub(crate) parameters: Option<Accepted>,
}

/// How a route answers a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalForm {
    /// It refuses nothing.
    None,
    /// With a problem body.
    Problem,
    /// With a status and headers, for a gateway.
    Status,
    /// With this schema and status 429, as Envoy has it.
    Envoy(&'static str),
}

const GET: &[Method] = &[Method::GET, Method::HEAD];
const POST: &[Method] = &[Method::POST];
const PUT: &[Method] = &[Method::PUT];
const DELETE: &[Method] = &[Method::DELETE];

impl Route {
    /// An operation of a caller.
    pub(crate) const fn post(path: &'static str, summary: &'static str, handler: Handler) -> Self {
        Self::new(path, POST, RouteAccess::Caller, summary, RouteHandler::Answer(handler))
    }

    /// An operation of a caller that asks for a decision.
    pub(crate) const fn decision(
        path: &'static str,
        summary: &'static str,
        handler: DecisionHandler,
    ) -> Self {
        Self::new(path, POST, RouteAccess::Caller, summary, RouteHandler::Decision(handler))
    }

    /// A page for operators.
    pub(crate) const fn get(path: &'static str, summary: &'static str, handler: Handler) -> Self {
        Self::new(path, GET, RouteAccess::Inspector, summary, RouteHandler::Answer(handler))
    }

    /// A setting that an operator makes.
    pub(crate) const fn put(path: &'static str, summary: &'static str, handler: Handler) -> Self {
        Self::new(path, PUT, RouteAccess::Operator, summary, RouteHandler::Answer(handler))
    }

    /// A setting that an operator takes back.
    pub(crate) const fn delete(path: &'static str, summary: &'static str, handler: Handler) -> Self {
        Self::new(path, DELETE, RouteAccess::Operator, summary, RouteHandler::Answer(handler))
    }

    const fn new(
        path: &'static str,
        methods: &'static [Method],
        access: RouteAccess,
        summary: &'static str,
        handler: RouteHandler,
    ) -> Self {
        let description = Description {
            summary,
            body: None,
            answer: None,
            refusal: RefusalForm::None,
            required: &[],
            parameters: None,
        };
        Self { path, methods, access, handler, description }
    }

    /// With any method.
    pub(crate) const fn any_method(mut self) -> Self {
        self.methods = &[];
        self
    }

    pub(crate) const fn access(mut self, access: RouteAccess) -> Self {
        self.access = access;
        self
    }

    /// Its body has this schema.
    pub(crate) const fn takes(mut self, schema: &'static str) -> Self {
        self.description.body = Some(schema);
        self
    }

    /// Its answer has this schema.
    pub(crate) const fn answers(mut self, schema: &'static str) -> Self {
        self.description.answer = Some(schema);
        self
    }

    pub(crate) const fn refuses(mut self, form: RefusalForm) -> Self {
        self.description.refusal = form;
        self
    }

    /// Its query has these parameters.
    pub(crate) const fn query(mut self, parameters: Accepted) -> Self {
        self.description.parameters = Some(parameters);
        self
    }

    /// Its query must have these parameters.
    pub(crate) const fn requires(mut self, parameters: &'static [&'static str]) -> Self {
        self.description.required = parameters;
        self
    }

    /// Its name in metrics: the path before the first segment that varies.
    pub(crate) fn name(&self) -> &'static str {
        self.path.split_once("/{").map_or(self.path, |(name, _)| name)
    }

    /// Whether it is served whatever page a browser was made to send the request by, and whatever
    /// host the request names.
    pub(crate) const fn takes_any_origin(&self) -> bool {
        matches!(self.access, RouteAccess::Gateway | RouteAccess::Everyone)
    }

    fn takes_method(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }

    /// Whether the description of the API has it.
    pub(crate) const fn is_described(&self) -> bool {
        !self.description.summary.is_empty()
    }
}

/// One request of a route, whose caller is known.
pub(crate) struct RouteCall<'a> {
    pub(crate) scope: RequestScope<'a>,
    pub(crate) caller: &'a Caller,
    pub(crate) head: &'a Parts,
    pub(crate) line: &'a Arc<ConnectionActivity>,
    pub(crate) body: BodyReader<'a>,
    pub(crate) segments: &'a Segments<'a>,
}

impl<'a> RouteCall<'a> {
    /// The query as it was sent.
    pub(crate) fn query(&self) -> Option<&'a str> {
        self.head.uri.query()
    }

    /// The value of a named segment, decoded; `None` if the path has no such segment.
    pub(crate) fn segment(&self, name: &str) -> Result<Option<String>, Fault> {
        let Some(value) =
            self.segments.0.iter().find_map(|(known, value)| (*known == name).then_some(*value))
        else {
            return Ok(None);
        };
        let decoded = percent_decode_str(value).decode_utf8().map_err(|_| {
            let detail = format_args!("segment {name} of the path is not UTF-8 when decoded");
            Fault::new(FaultCode::MalformedQuery, detail)
                .fix("write a byte that is no letter as %XX of UTF-8")
        })?;
        Ok(Some(decoded.into_owned()))
    }

    /// The answer to the whole body, once it has arrived.
    pub(crate) fn with_body<F: Future<Output = Result<Reply, Fault>> + Send>(
        self,
        answer: impl FnOnce(RequestScope<'a>, &'a Caller, Bytes) -> F + Send + 'a,
    ) -> RouteFuture<'a> {
        Box::pin(async move { answer(self.scope, self.caller, self.body.read().await?).await })
    }
}

/// The named segments of a path, as they were sent.
#[derive(Debug, Default)]
pub(crate) struct Segments<'a>(Vec<(&'static str, &'a str)>);

/// The routes of the API.
#[derive(Debug)]
pub(crate) struct RouteTable {
    routes: Vec<Route>,
    paths: matchit::Router<PathRoutes>,
}

/// The routes of one path, which differ in their methods: indices in the table.
type PathRoutes = SmallVec<[usize; 2]>;

/// The routes at the path of a request.
#[derive(Debug)]
pub(crate) struct RoutesAtPath<'t, 'a> {
    table: &'t RouteTable,
    indices: &'t [usize],
    pub(crate) segments: Segments<'a>,
}

impl RouteTable {
    /// The table of these routes. Panics if two of them take the same requests, or if a path is no
    /// pattern.
    pub(crate) fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let routes: Vec<Route> = routes.into_iter().collect();
        let mut by_path: Vec<(&str, PathRoutes)> = Vec::new();
        for (index, route) in routes.iter().enumerate() {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, indices)) => {
                    let is_twice =
                        |other: &usize| routes[*other].methods.iter().any(|one| route.takes_method(one));
                    assert!(!indices.iter().any(is_twice), "{} has two routes for a method", route.path);
                    indices.push(index);
                }
                None => by_path.push((route.path, PathRoutes::from_slice(&[index]))),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, indices) in by_path {
            paths.insert(path, indices).unwrap_or_else(|error| panic!("route {path}: {error}"));
        }
        Self { routes, paths }
    }

    /// All routes, in the order in which they were registered.
    pub(crate) fn all(&self) -> &[Route] {
        &self.routes
    }

    /// The routes at `path`.
    pub(crate) fn at<'a>(&self, path: &'a str) -> Option<RoutesAtPath<'_, 'a>> {
        let found = self.paths.at(path).ok()?;
        let pattern = self.routes[found.value[0]].path;
        let segments =
            named_segments(pattern).filter_map(|name| Some((name, found.params.get(name)?))).collect();
        Some(RoutesAtPath { table: self, indices: found.value, segments: Segments(segments) })
    }
}

/// The names of the segments of a path pattern that vary.
pub(crate) fn named_segments(pattern: &'static str) -> impl Iterator<Item = &'static str> {
    pattern.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

impl<'t> RoutesAtPath<'t, '_> {
    /// The index of the first in the table.
    pub(crate) fn index(&self) -> usize {
        self.indices[0]
    }

    fn routes(&self) -> impl Iterator<Item = &'t Route> {
        let table = self.table;
        self.indices.iter().map(move |index| &table.routes[*index])
    }

    /// The first of them. All have the same path and the same callers.
    pub(crate) fn first(&self) -> &'t Route {
        &self.table.routes[self.index()]
    }

    /// The one that takes this method. An error is the list of the methods that are taken.
    pub(crate) fn taking(&self, method: &Method) -> Result<&'t Route, String> {
        let taking = self.routes().find(|route| route.takes_method(method));
        taking.ok_or_else(|| {
            let mut allowed = String::new();
            for method in self.routes().flat_map(|route| route.methods) {
                let separator = if allowed.is_empty() { "" } else { ", " };
                let _ = write!(allowed, "{separator}{method}");
            }
            allowed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: RouteCall<'_>) -> RouteFuture<'_> {
        unreachable!("no request is sent")
    }

    fn table() -> RouteTable {
        RouteTable::new([
            Route::get("/v1/things", "", nothing),
            Route::put("/v1/things/{owner}/{name}", "", nothing),
            Route::delete("/v1/things/{owner}/{name}", "", nothing),
            Route::post("/v1/things/all", "", nothing).any_method(),
        ])
    }

    fn segments(table: &RouteTable, path: &str) -> Option<(&'static str, Vec<String>)> {
        let found = table.at(path)?;
        let values = found.segments.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Some((found.first().path, values))
    }

    #[test]
    fn a_path_is_found_with_its_named_segments_and_no_other_is() {
        let table = table();
        assert_eq!(segments(&table, "/v1/things"), Some(("/v1/things", vec![])));
        let named = vec!["owner=a%2Fb".to_owned(), "name=c".to_owned()];
        assert_eq!(segments(&table, "/v1/things/a%2Fb/c"), Some(("/v1/things/{owner}/{name}", named)));
        assert_eq!(segments(&table, "/v1/things/all"), Some(("/v1/things/all", vec![])));
        for path in
            ["", "/", "/v1/things/", "/v1/thingsx", "/v1/things/a", "/v1/things/a/b/c", "/v1/things/a/b/"]
        {
            assert_eq!(segments(&table, path), None, "{path}");
        }
    }

    #[test]
    fn routes_of_one_path_differ_in_their_methods() {
        let table = table();
        let changes = table.at("/v1/things/a/b").unwrap();
        assert_eq!(changes.taking(&Method::DELETE).unwrap().methods, DELETE);
        assert_eq!(changes.taking(&Method::GET).unwrap_err(), "PUT, DELETE");
        assert_eq!(table.at("/v1/things").unwrap().taking(&Method::PUT).unwrap_err(), "GET, HEAD");
        assert!(table.at("/v1/things/all").unwrap().taking(&Method::TRACE).is_ok());
    }

    #[test]
    #[should_panic(expected = "/v1/things has two routes for a method")]
    fn two_routes_for_the_same_requests_are_a_mistake() {
        RouteTable::new([Route::get("/v1/things", "", nothing), Route::get("/v1/things", "", nothing)]);
    }

    #[test]
    fn the_name_of_a_route_ends_before_its_first_segment_that_varies() {
        assert_eq!(Route::put("/v1/things/{owner}/{name}", "", nothing).name(), "/v1/things");
        assert_eq!(Route::get("/v1/keys/top", "", nothing).name(), "/v1/keys/top");
    }
}
