//! The counter of the processor: the only `unsafe` code of the project.
//!
//! `Instant` reads the same counter, and waits for earlier instructions first: 26 ns on a machine
//! where the counter alone takes 10. No library reads it as the clock needs it: quanta 0.12 takes
//! up to 200 ms to learn the speed when a program starts.

/// The file in which Linux names the source of `Instant`.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The sources that read the counter. Linux leaves them when the counter misbehaves.
const BY_COUNTER: &[&str] = &["tsc", "kvm-clock"];

/// Whether the processor promises a counter of one speed, and the system uses it for `Instant`. A
/// system that names no source is believed to.
pub(crate) fn is_invariant() -> bool {
    let uses = |source: String| BY_COUNTER.contains(&source.trim());
    machine::is_invariant() && std::fs::read_to_string(CLOCK_SOURCE).map_or(true, uses)
}

pub(crate) use machine::ticks;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod machine {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// The leaf of CPUID with the highest extended leaf.
    const EXTENDED_LEAVES: u32 = 0x8000_0000;
    /// The leaf of CPUID about power management.
    const POWER_LEAF: u32 = 0x8000_0007;
    /// Its bit for a counter whose speed never changes, in EDX.
    const INVARIANT_COUNTER: u32 = 1 << 8;

    /// Whether the processor says that its counter has one speed.
    #[allow(unused_unsafe, reason = "CPUID is safe in newer versions of Rust than the oldest supported")]
    #[expect(unsafe_code, reason = "the standard library has no other way to ask")]
    pub(super) fn is_invariant() -> bool {
        // SAFETY: every processor of x86_64 has the instruction, which touches no memory.
        unsafe {
            __cpuid(EXTENDED_LEAVES).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT_COUNTER != 0
        }
    }

    /// The counter of the core that the thread runs on.
    #[inline]
    #[expect(unsafe_code, reason = "a reading takes 10 ns; `Instant` takes 26 on the same machine")]
    pub(crate) fn ticks() -> u64 {
        // SAFETY: every processor of x86_64 has the instruction, which touches no memory. A system
        // that forbids it ends the process, as it would for `Instant`, which reads the counter too.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod machine {
    pub(super) fn is_invariant() -> bool {
        false
    }

    /// Not read, as nothing is promised of it.
    pub(crate) fn ticks() -> u64 {
        0
    }
}
