//! Features under load, in virtual time.

mod bad_input;
mod brownout;
mod callers;
mod choice;
mod exchange;
#[cfg(tidegate_planted_faults)]
mod faults;
mod fluid;
mod interruptions;
mod noise;
mod pins;
mod ramp;
mod reload;
mod scopes;
mod world;
