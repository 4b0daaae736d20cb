//! A consumer of a queue that waits until a message may be handled, by its size:
//! `cargo run -p tidegate --features driver --example consumer`.

use std::error::Error;
use std::sync::Arc;

use tidegate::{Admission, Clock, Cost, Limit, Request, SystemClock};
use tokio::sync::mpsc;

/// A thousand bytes a second for each tenant.
pub fn admission(clock: Arc<dyn Clock>) -> Result<Admission, Box<dyn Error + Send + Sync>> {
    let limit = Limit::rate("bytes", "1000/s")?.key(["tenant"]);
    Ok(Admission::builder().limit(limit).clock(clock).build()?)
}

/// Handles messages of a tenant and a text until the queue ends, and returns how many it handled.
/// Dropping the future gives back what it holds.
pub async fn consume(
    admission: &Admission,
    mut messages: mpsc::Receiver<(String, String)>,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut handled = 0;
    while let Some((tenant, text)) = messages.recv().await {
        let Some(cost) = Cost::new(text.len() as u64) else { continue };
        let attributes = [("tenant", &tenant)];
        let hold = admission.until_ready(&Request::new("default", &attributes).cost(cost)).await?;
        println!("{tenant}: {} bytes", text.len());
        hold.succeeded();
        handled += 1;
    }
    Ok(handled)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (sender, messages) = mpsc::channel(16);
    for size in [400, 600, 500] {
        sender.send(("acme".to_owned(), "x".repeat(size))).await?;
    }
    drop(sender);
    consume(&admission(Arc::new(SystemClock::new()))?, messages).await?;
    Ok(())
}
