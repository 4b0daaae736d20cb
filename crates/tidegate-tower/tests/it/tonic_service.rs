//! The tonic example, with real calls.

use core::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tonic::transport::Channel;
use tonic::{Code, Request};

#[path = "../../examples/tonic.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

use example::greeter::{GreeterClient, HelloRequest};

fn hello(name: &str) -> Request<HelloRequest> {
    let mut request = Request::new(HelloRequest { name: name.to_owned() });
    request.metadata_mut().insert("x-user", "ada".parse().unwrap());
    request
}

async fn client() -> GreeterClient {
    client_at(example::serve(example::admit().unwrap()).await.unwrap()).await
}

async fn client_at(address: String) -> GreeterClient {
    GreeterClient::new(Channel::from_shared(address).unwrap().connect().await.unwrap())
}

#[tokio::test]
async fn the_tonic_example_admits_and_then_is_exhausted() {
    let mut client = client().await;
    let reply = client.say_hello(hello("ada")).await.unwrap();
    assert_eq!(reply.metadata().get("ratelimit").unwrap(), r#""per-user";r=1;t=30"#);
    assert_eq!(reply.get_ref().message, "hello ada");
    // An error of the service itself passes as it is.
    assert_eq!(client.say_hello(hello("")).await.unwrap_err().code(), Code::InvalidArgument);
    let refused = client.say_hello(hello("ada")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().starts_with("limit \"per-user\" is used up for user=ada"), "{refused}");
    let metadata = refused.metadata();
    assert_eq!(metadata.get("x-tidegate-reason").unwrap(), "rate_exceeded");
    assert!(metadata.contains_key("retry-after"));
    assert_eq!(metadata.get("ratelimit-policy").unwrap(), r#""per-user";q=2;w=60"#);
}

#[tokio::test]
async fn a_call_past_its_deadline_is_refused_without_a_charge() {
    let address = example::serve(example::admit().unwrap()).await.unwrap();
    // By hand: the client of tonic gives up by itself before it sends such a call.
    let stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let late = http::Request::post(format!("{address}/greeter.Greeter/SayHello"))
        .header("content-type", "application/grpc")
        .header("x-user", "ada")
        .header("grpc-timeout", "0n");
    let late = late.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap();
    let refused = sender.send_request(late).await.unwrap();
    assert_eq!(refused.status(), 200);
    assert_eq!(refused.headers()["grpc-status"], "4");
    assert_eq!(refused.headers()["x-tidegate-reason"], "deadline_unmeetable");

    let mut in_time = hello("ada");
    in_time.set_timeout(Duration::from_mins(1));
    let reply = client_at(address).await.say_hello(in_time).await.unwrap();
    assert_eq!(reply.metadata().get("ratelimit").unwrap(), r#""per-user";r=1;t=30"#);
}
