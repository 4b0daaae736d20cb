//! Features under load, in virtual time.

mod brownout;
mod fluid;
mod noise;
mod ramp;
mod world;
