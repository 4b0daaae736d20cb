//! The gRPC services beside that of rate limits: health and reflection.

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;

use http::{Request, Response};
use hyper::body::Incoming;
use tidegate_wire::envoy;
use tonic::body::Body;
use tonic::codegen::Service;

use super::health::GrpcHealth;

type CallFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A reflection service.
pub(super) type Reflection = Box<dyn Fn(Request<Incoming>) -> CallFuture + Send + Sync>;

/// The services that are not Tidegate's own.
pub(crate) struct Services {
    pub(crate) health: GrpcHealth,
    /// Each version with the beginning of its paths.
    pub(super) reflection: [(&'static str, Reflection); 2],
}

impl Services {
    pub(crate) fn new() -> Self {
        Self {
            health: GrpcHealth::new(),
            reflection: [
                ("/grpc.reflection.v1.ServerReflection/", boxed(reflection_v1())),
                ("/grpc.reflection.v1alpha.ServerReflection/", boxed(reflection_v1alpha())),
            ],
        }
    }
}

fn described() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(envoy::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// The largest question of a reflection client in bytes: it names a file, a symbol or a type. Above
/// it: `OUT_OF_RANGE`.
const REFLECTION_BYTES: usize = 2 << 10;

const DESCRIBED: &str = "the committed descriptions of the messages can be read";

fn reflection_v1()
-> tonic_reflection::server::v1::ServerReflectionServer<impl tonic_reflection::server::v1::ServerReflection> {
    described().build_v1().expect(DESCRIBED).max_decoding_message_size(REFLECTION_BYTES)
}

fn reflection_v1alpha() -> tonic_reflection::server::v1alpha::ServerReflectionServer<
    impl tonic_reflection::server::v1alpha::ServerReflection,
> {
    described().build_v1alpha().expect(DESCRIBED).max_decoding_message_size(REFLECTION_BYTES)
}

fn boxed<S>(service: S) -> Reflection
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = CallFuture>
        + Clone
        + Send
        + Sync
        + 'static,
{
    Box::new(move |request| service.clone().call(request))
}
