//! Limits in process, without a runtime: `cargo run -p tidegate --example plain`.

use std::error::Error;

use tidegate::{Clock, Cost, Gate, Limit, Permit, Refusal, SystemClock};

/// A service keeps its gate and its clock in fields, or in an `Arc` that threads share.
#[derive(Debug)]
pub struct Orders {
    gate: Gate,
    clock: SystemClock,
}

impl Orders {
    /// Two orders a second for each user after a burst of three, and two at a time.
    pub fn new() -> Result<Self, Box<dyn Error>> {
        let gate = Gate::builder("orders")
            .limit(Limit::rate("per-user", "2/s")?.burst(3).key(["user"]))
            .limit(Limit::concurrency("parallel", 2, "30s")?.key(["user"]))
            .build()?;
        Ok(Self { gate, clock: SystemClock::new() })
    }

    /// Admits an order, or says why not and when to come back.
    pub fn order(&self, user: &str) -> Result<Permit, Refusal> {
        self.gate.check(&[("user", user)], Cost::ONE, self.clock.now()).into_result()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let orders = Orders::new()?;
    for number in 1..=4 {
        match orders.order("ada") {
            // Its place under `parallel` is given back when the permit is dropped.
            Ok(_permit) => println!("order {number}: go ahead"),
            Err(refusal) => println!("order {number}: {refusal}"),
        }
    }
    Ok(())
}
