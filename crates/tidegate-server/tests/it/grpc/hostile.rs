//! Malformed calls: each gets an error that names its problem, and other callers are unaffected.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tidegate_wire::envoy::rate_limit_descriptor::RateLimitOverride;
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit, SHOULD_RATE_LIMIT};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use super::{Envoy, back, config, descriptor, lefts, request, under, user, weighing, world};
use crate::paused_clock::at_this_instant;
use crate::world::{World, api};

/// Sends bytes as a message, with the five before it that say how long it is; what is told in
/// status and message.
async fn send(world: &World, path: &str, message: &[u8]) -> (String, String) {
    send_raw(world, path, framed(message)).await
}

pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    framed
}

async fn send_raw(world: &World, path: &str, body: Vec<u8>) -> (String, String) {
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    exchange(TcpStream::connect(address).await.unwrap(), path, None, body).await
}

/// One call over a connection of its own.
pub(crate) async fn exchange<S>(stream: S, path: &str, token: Option<&str>, body: Vec<u8>) -> (String, String)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = http::Request::post(format!("http://t{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let (head, body) = answer.into_parts();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
    let text = |name: &str| {
        let value = head.headers.get(name).or_else(|| trailers.get(name));
        let value = value.map_or("", |value| value.to_str().unwrap());
        percent_encoding::percent_decode_str(value).decode_utf8().unwrap().into_owned()
    };
    let told = (text("grpc-status"), text("grpc-message"));
    drop(sender);
    let _ = connection.await;
    told
}

#[tokio::test]
async fn every_bad_request_is_an_invalid_argument_that_names_the_field() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let before = world.engine.fingerprint();
    let with_unit = |unit| {
        let limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
        request("api", &[RateLimitDescriptor { limit, ..user("ada") }])
    };
    let long = descriptor(&[("user", &"v".repeat((64 << 10) + 1))]);
    for (bad, field) in [
        (request("", &[user("ada")]), "domain "),
        (request("api", &[]), "descriptors is empty"),
        (request("api", &vec![user("a"); 10_000]), "descriptors has 10000 descriptors"),
        (request("api", &[user("ada"), descriptor(&[])]), "descriptors[1].entries "),
        (request("api", &[descriptor(&[("", "v")])]), "descriptors[0].entries[0].key "),
        (request("api", &[long]), "descriptors[0].entries[0].value has 65537 bytes"),
        (request("api", &[descriptor(&[("user", &"v".repeat(1 << 20))])]), "larger than 262144 bytes"),
        (with_unit(0), "descriptors[0].limit.unit is UNKNOWN"),
        (with_unit(7), "descriptors[0].limit.unit is 7"),
        (with_unit(i32::MIN), "descriptors[0].limit.unit is -2147483648"),
    ] {
        let status = envoy.call(bad).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status}");
        assert!(status.message().contains(field), "{field}: {status}");
        assert!(status.message().contains("; "), "what to do: {status}");
    }
    assert_eq!(world.engine.fingerprint(), before, "nothing was charged");
    assert_eq!(envoy.left(&[user("ada")]).await, [(false, 2)], "and the connection goes on");
}

#[tokio::test]
async fn the_largest_numbers_are_numbers() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let most = RateLimitRequest { hits_addend: u32::MAX, ..request("api", &[user("ada")]) };
    assert_eq!(lefts(&envoy.call(most).await.unwrap()), [(true, 3)]);
    assert_eq!(envoy.left(&[weighing(u64::MAX, user("bob"))]).await, [(true, 0)]);
    let own = under(u32::MAX, RateLimitUnit::Year, user("eve"));
    assert_eq!(envoy.left(core::slice::from_ref(&own)).await, [(false, u32::MAX - 1)]);
    assert_eq!(envoy.left(&[weighing(u64::MAX, own)]).await, [(true, 0)]);
}

/// A second counts less than 2^29, so the largest numbers count as the largest that it can.
#[tokio::test]
async fn a_limit_of_its_own_may_be_any_number_of_any_unit() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let units = [
        RateLimitUnit::Second,
        RateLimitUnit::Minute,
        RateLimitUnit::Hour,
        RateLimitUnit::Day,
        RateLimitUnit::Month,
        RateLimitUnit::Year,
    ];
    for unit in units {
        for most in [1_u32 << 29, u32::MAX] {
            let name = format!("{most}/{unit:?}");
            let own = under(most, unit, user(&name));
            let looked = weighing(0, own.clone());
            assert_eq!(envoy.left(core::slice::from_ref(&own)).await, [(false, most - 1)], "{name}");
            assert_eq!(envoy.left(&[weighing(1, own.clone())]).await, [(false, most - 2)], "{name}");
            assert_eq!(envoy.left(&[back(own)]).await, [(false, most - 1)], "{name}");
            assert_eq!(envoy.left(&[looked]).await, [(false, most - 1)], "{name}");
            let body = format!(
                r#"{{"domain":"api","descriptors":[{{"limit":{{"unit":"{}","requestsPerUnit":{most}}},
                "entries":[{{"key":"user","value":"{name}"}}]}}]}}"#,
                unit.as_str_name()
            );
            let status = &world.post("/json", &body).await.json()["statuses"][0];
            assert_eq!(status["limitRemaining"], most - 2, "{name}");
            assert_eq!(status["currentLimit"]["requestsPerUnit"], most, "{name}");
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_are_an_invalid_argument() {
    let world = world().await;
    // A string that is not UTF-8, in each place where one may stand.
    let told = send(&world, SHOULD_RATE_LIMIT, b"\x0a\x02\xff\xfe").await;
    assert_eq!(told.0, "3", "{told:?}");
    assert!(told.1.contains("RateLimitRequest.domain") && told.1.contains("UTF-8"), "{told:?}");
    let told = send(&world, SHOULD_RATE_LIMIT, b"\x0a\x03api\x12\x09\x0a\x07\x0a\x01k\x12\x02\xff\xfe").await;
    assert_eq!(told.0, "3", "{told:?}");
    assert!(told.1.contains("Entry.value"), "{told:?}");
    for garbage in
        [&b"\xff"[..], b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x05\x0a\x7f", b"\x0b\x0b\x0b\x0b", &[0x0b; 4096]]
    {
        let told = send(&world, SHOULD_RATE_LIMIT, garbage).await;
        assert_eq!(told.0, "3", "{garbage:?}: {told:?}");
    }
    // Framing: no message, half of one, one that says it is compressed, one that says it is 4 GB.
    for frame in
        [vec![], vec![0, 0, 0], vec![0, 0, 0, 0, 9, 1], vec![7, 0, 0, 0, 0], vec![0, 255, 255, 255, 255]]
    {
        let told = send_raw(&world, SHOULD_RATE_LIMIT, frame.clone()).await;
        assert_eq!(told.0, "3", "{frame:?}: {told:?}");
    }
    let page = world.client().await.get("/metrics").await.body;
    assert!(page.contains("tidegate_faults_total{error=\"malformed_body\"} 12\n"), "{page}");
    assert_eq!(Envoy::of(&world).await.left(&[user("ada")]).await, [(false, 2)]);
}

#[tokio::test]
async fn fields_that_nobody_knows_are_read_over() {
    let world = world().await;
    let mut message = request("api", &[user("ada")]).encode_to_vec();
    message.extend(b"\xfa\x07\x03new");
    assert_eq!(send(&world, SHOULD_RATE_LIMIT, &message).await, ("0".to_owned(), String::new()));
}

#[tokio::test]
async fn a_method_that_there_is_not_is_unimplemented() {
    let world = world().await;
    for path in [
        "/",
        "/envoy.service.ratelimit.v3.RateLimitService/Other",
        "/grpc.health.v1.Health/Other",
        "/v1/check",
    ] {
        assert_eq!(send(&world, path, b"").await.0, "12", "{path}");
    }
}

#[tokio::test]
async fn a_connection_that_speaks_http_1_is_told_so_and_closed() {
    let world = world().await;
    let mut stream = TcpStream::connect(world.handle.grpc().unwrap().tcp().unwrap()).await.unwrap();
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("HTTP/1.1 505 ") && said.contains("needs HTTP/2"), "{said}");
    assert_eq!(Envoy::of(&world).await.left(&[user("ada")]).await, [(false, 2)]);
}

/// How every connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Settings without any.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[tokio::test(start_paused = true)]
async fn a_connection_that_stops_half_way_is_closed_and_others_are_not() {
    let mut config = config();
    config.bounds.header_timeout = Duration::from_millis(100);
    config.bounds.body_timeout = Duration::from_millis(100);
    config.bounds.idle_timeout = Duration::from_millis(200);
    config.bounds.linger = Duration::from_millis(50);
    let world = World::with([api()], config).await;
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    // Nothing at all; a piece of the preface; no settings; then silence; half of a frame of
    // headers.
    let half = [PREFACE, SETTINGS, &[0, 0, 40, 1, 4, 0, 0, 0, 1, 0x83]].concat();
    for begun in [&b""[..], b"PR", b"PRI * HTTP", PREFACE, &[PREFACE, SETTINGS].concat(), &half] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        let other = async { Envoy::of(&world).await.left(&[descriptor(&[("colour", "red")])]).await };
        assert_eq!(at_this_instant("an answer", other).await, [(false, 0)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_ends_is_answered_and_charges_nothing() {
    let mut config = config();
    config.bounds.body_timeout = Duration::from_millis(100);
    let world = World::with([api()], config).await;
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    // Nothing of what is sent waits in the kernel while the clock moves.
    stream.set_nodelay(true).unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let (pieces, body) = tokio::sync::mpsc::channel::<Result<http_body::Frame<Bytes>, std::io::Error>>(1);
    pieces.send(Ok(http_body::Frame::data(Bytes::from_static(&[0, 0, 0, 0, 20, 0x0a])))).await.unwrap();
    for path in [SHOULD_RATE_LIMIT, "/grpc.health.v1.Health/Check"] {
        let (pieces, body) = tokio::sync::mpsc::channel::<Result<http_body::Frame<Bytes>, std::io::Error>>(1);
        pieces.send(Ok(http_body::Frame::data(Bytes::from_static(&[0, 0, 0, 0, 20, 0x0a])))).await.unwrap();
        let body = http_body_util::StreamBody::new(
            tonic::codegen::tokio_stream::wrappers::ReceiverStream::new(body),
        );
        let request =
            http::Request::post(format!("http://t{path}")).header("content-type", "application/grpc");
        let answer = sender.send_request(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "4", "{path}");
    }
    drop((pieces, body, sender));
    connection.abort();
    let _ = connection.await;
    let other = async { Envoy::of(&world).await.left(&[user("ada")]).await };
    assert_eq!(at_this_instant("an answer", other).await, [(false, 2)]);
}

#[tokio::test]
async fn ten_thousand_calls_that_are_taken_back_at_once_end_their_connection_and_no_other() {
    let world = world().await;
    let mut good = Envoy::of(&world).await;
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut flood = [PREFACE, SETTINGS].concat();
    // POST http / with an empty authority, from the static table.
    let headers = [0x83, 0x86, 0x84];
    for stream in (1..20_000_u32).step_by(2) {
        flood.extend([0, 0, 3, 1, 4]);
        flood.extend(stream.to_be_bytes());
        flood.extend(headers);
        flood.extend([0, 0, 4, 3, 0]);
        flood.extend(stream.to_be_bytes());
        flood.extend(8_u32.to_be_bytes());
    }
    // It may be closed before all of it is written.
    let _ = stream.write_all(&flood).await;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    assert_eq!(good.left(&[user("ada")]).await, [(false, 2)]);
}
