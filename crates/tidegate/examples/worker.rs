//! A worker that shares its limit with others in Redis:
//! `cargo run -p tidegate --features redis --example worker -- redis://127.0.0.1:6379`.

use std::error::Error;

use tidegate::limit::Consistency;
use tidegate::redis::RedisStore;
use tidegate::{Admission, Limit, Request};

/// A hundred jobs a second in each queue, over all workers: each spends from what the store has
/// lent it ahead of time.
pub fn admission(url: &str) -> Result<Admission, Box<dyn Error + Send + Sync>> {
    let limit = Limit::rate("jobs", "100/s")?.key(["queue"]).consistency(Consistency::Leased);
    Ok(Admission::builder().limit(limit).store(RedisStore::open(url)?).build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let admission = admission(&url)?;
    for number in 1..=10 {
        let hold = admission.until_ready(&Request::new("default", &[("queue", "mail")])).await?;
        println!("job {number}");
        hold.succeeded();
    }
    admission.close().await;
    Ok(())
}
