//! The generated code of this service, kept here so that building needs no `protoc`:
//!
//! ```proto
//! package greeter;
//! message HelloRequest { string name = 1; }
//! message HelloReply { string message = 1; }
//! service Greeter { rpc SayHello(HelloRequest) returns (HelloReply); }
//! ```

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

/// Whom to greet.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloRequest {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A greeting.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HelloReply {
    /// The words.
    #[prost(string, tag = "1")]
    pub message: String,
}

const SAY_HELLO: &str = "/greeter.Greeter/SayHello";

/// The service.
pub trait Greeter: Send + Sync + 'static {
    /// Greets.
    fn say_hello(
        &self,
        request: Request<HelloRequest>,
    ) -> impl Future<Output = Result<Response<HelloReply>, Status>> + Send;
}

type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The service as tonic serves it.
#[derive(Debug)]
pub struct GreeterServer<T>(Arc<T>);

impl<T: Greeter> GreeterServer<T> {
    /// Serves `inner`.
    pub fn new(inner: T) -> Self {
        Self(Arc::new(inner))
    }
}

impl<T> Clone for GreeterServer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Greeter> UnaryService<HelloRequest> for GreeterServer<T> {
    type Response = HelloReply;
    type Future = Boxed<Response<HelloReply>, Status>;

    fn call(&mut self, request: Request<HelloRequest>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.say_hello(request).await })
    }
}

impl<T: Greeter> Service<http::Request<Body>> for GreeterServer<T> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            if request.uri().path() != SAY_HELLO {
                return Ok(Status::unimplemented("there is no such method").into_http());
            }
            Ok(tonic::server::Grpc::new(ProstCodec::default()).unary(this, request).await)
        })
    }
}

impl<T> NamedService for GreeterServer<T> {
    const NAME: &'static str = "greeter.Greeter";
}

/// A caller of the service.
#[derive(Clone, Debug)]
pub struct GreeterClient(tonic::client::Grpc<tonic::transport::Channel>);

impl GreeterClient {
    /// Calls over `channel`.
    pub fn new(channel: tonic::transport::Channel) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    /// Asks for a greeting.
    pub async fn say_hello(
        &mut self,
        request: Request<HelloRequest>,
    ) -> Result<Response<HelloReply>, Status> {
        self.0.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        self.0.unary(request, PathAndQuery::from_static(SAY_HELLO), ProstCodec::default()).await
    }
}
