//! The services beside Tidegate's own, and how the listener ends.

use std::time::Duration;

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use super::{Envoy, config, connect, request, user, world};
use crate::world::{World, api};

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const QUOTA_SERVICE: &str = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService";

fn asking(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn health_is_known_under_every_name_that_gateways_ask_for() {
    let world = world().await;
    let mut health = HealthClient::new(connect(&world).await);
    for name in ["", "ratelimit", SERVICE, QUOTA_SERVICE] {
        let answer = health.check(asking(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name}");
    }
    assert_eq!(health.check(asking("other")).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_drain_is_told_to_those_who_watch_and_does_not_wait_for_them() {
    let mut config = config();
    config.bounds.drain_grace = Duration::from_mins(1);
    config.bounds.drain = Duration::from_mins(1);
    let world = World::with([api()], config).await;
    let channel = connect(&world).await;
    let mut health = HealthClient::new(channel.clone());
    let mut watch = health.watch(asking("ratelimit")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let mut envoy = Envoy(tonic::client::Grpc::new(channel));
    let shutdown = tokio::spawn(world.handle.shutdown());
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // Until the connection is told to end, what is asked is answered.
    let asked = envoy.left(&[user("ada")]).await;
    assert_eq!(asked, [(false, 2)]);
    let answer = health.check(asking("")).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    drop((health, watch, envoy));
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn somebody_who_watches_for_ever_is_let_go_at_the_end() {
    let world = world().await;
    let mut health = HealthClient::new(connect(&world).await);
    let mut watch = health.watch(asking("")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(world.handle.shutdown().await.cut_off, 0);
    while let Ok(Some(_)) = watch.message().await {}
}

#[tokio::test]
async fn a_call_in_flight_is_answered_before_the_end() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    assert_eq!(envoy.left(&[user("ada")]).await, [(false, 2)]);
    let (answer, drained) = tokio::join!(envoy.call(request("api", &[user("ada")])), world.handle.shutdown());
    // It was read, or its connection was told to end before: nothing between.
    if let Err(status) = answer {
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }
    assert_eq!(drained.cut_off, 0);
}

/// The services of both versions, and the file of ours.
macro_rules! reflect {
    ($pb:ident, $channel:expr) => {{
        use $pb::server_reflection_client::ServerReflectionClient;
        use $pb::server_reflection_request::MessageRequest;
        use $pb::server_reflection_response::MessageResponse;
        let mut client = ServerReflectionClient::new($channel);
        let mut ask = async |message| {
            let request =
                $pb::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
            let answers =
                client.server_reflection_info(tonic::codegen::tokio_stream::once(request)).await.unwrap();
            answers.into_inner().message().await.unwrap().unwrap().message_response.unwrap()
        };
        let MessageResponse::ListServicesResponse(services) =
            ask(MessageRequest::ListServices(String::new())).await
        else {
            panic!("a list of services")
        };
        let names: Vec<_> = services.service.into_iter().map(|service| service.name).collect();
        let mut described = Vec::new();
        for method in [format!("{SERVICE}.ShouldRateLimit"), format!("{QUOTA_SERVICE}.StreamRateLimitQuotas")]
        {
            let MessageResponse::FileDescriptorResponse(files) =
                ask(MessageRequest::FileContainingSymbol(method)).await
            else {
                panic!("a file")
            };
            described.extend(files.file_descriptor_proto);
        }
        (names, described)
    }};
}

#[tokio::test]
async fn reflection_describes_every_service_in_both_versions() {
    let world = world().await;
    let channel = connect(&world).await;
    let (names, files) = reflect!(v1, channel.clone());
    let health = "grpc.health.v1.Health";
    assert_eq!(names, [SERVICE, QUOTA_SERVICE, health, "grpc.reflection.v1.ServerReflection"]);
    let has = |file: &[u8], text: &str| file.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(&files[0], "ShouldRateLimit") && has(&files[1], "bucket_quota_usages"));
    let (names, older) = reflect!(v1alpha, channel);
    assert_eq!(names, [SERVICE, QUOTA_SERVICE, health, "grpc.reflection.v1alpha.ServerReflection"]);
    assert_eq!(older, files);
}
