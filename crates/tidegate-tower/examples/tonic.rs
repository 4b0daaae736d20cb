//! A tonic service with limits: `cargo run -p tidegate-tower --example tonic`.
//!
//! It serves on a free port, calls itself until it is refused, and prints what a caller sees.

use std::time::Duration;

use tidegate_core::Limit;
use tidegate_tower::{AdmitLayer, extract, timeout};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

#[path = "tonic/greeter.rs"]
pub mod greeter;

use greeter::{Greeter, GreeterClient, GreeterServer, HelloReply, HelloRequest};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Two calls a minute for each user.
pub fn admit() -> Result<AdmitLayer, Error> {
    let per_user = Limit::rate("per-user", "2/m")?.key(["user"]);
    Ok(AdmitLayer::from_limits([per_user])?
        // Metadata are headers; the method is the second segment of the path.
        .attribute("user", extract::header("x-user"))
        .attribute("method", extract::segment(1))
        .deadline(timeout::grpc))
}

#[derive(Debug)]
struct Polite;

impl Greeter for Polite {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        match request.into_inner().name {
            name if name.is_empty() => Err(Status::invalid_argument("whom?")),
            name => Ok(Response::new(HelloReply { message: format!("hello {name}") })),
        }
    }
}

/// Serves on a free port of this machine; its address.
pub async fn serve(admit: AdmitLayer) -> Result<String, Error> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let server = Server::builder().layer(admit).add_service(GreeterServer::new(Polite));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    Ok(address)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let channel = Channel::from_shared(serve(admit()?).await?)?.connect().await?;
    let mut client = GreeterClient::new(channel);
    for _ in 0..3 {
        let mut request = Request::new(HelloRequest { name: "ada".into() });
        request.metadata_mut().insert("x-user", "ada".parse()?);
        request.set_timeout(Duration::from_secs(1));
        match client.say_hello(request).await {
            Ok(reply) => println!("{:?} {:?}", reply.metadata().get("ratelimit"), reply.get_ref()),
            Err(status) => println!("{:?}: {}\n{:?}", status.code(), status.message(), status.metadata()),
        }
    }
    Ok(())
}
