//! Planted faults: mistakes that a test plants to show that other tests would find them.
//!
//! Every crate that has such mistakes lists them in an enum of its own, called `Fault`. A place in
//! the code that can go wrong asks whether its mistake is planted. One mechanism serves all enums:
//! a test plants a fault in its thread, and takes it out again by dropping the guard.
//!
//! Faults can be planted under `--cfg tidegate_planted_faults` only. It is a cfg and no feature of
//! cargo, because features unite: a crate anywhere in a user's graph could turn one on. Without
//! the cfg the questions are constants, and nothing of them is left in the code.

use core::any::Any;
#[cfg(tidegate_planted_faults)]
use std::cell::RefCell;

/// The fault of this enum that is planted in this thread; always `None` without the cfg.
#[inline]
pub fn planted<F: Any + Copy>() -> Option<F> {
    #[cfg(tidegate_planted_faults)]
    return PLANTED.with_borrow(|planted| planted.as_ref()?.downcast_ref().copied());
    #[cfg(not(tidegate_planted_faults))]
    None
}

#[cfg(tidegate_planted_faults)]
std::thread_local! {
    static PLANTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// A fault while it is planted in a thread. Dropping the guard plants the one before again.
#[cfg(tidegate_planted_faults)]
#[derive(Debug)]
#[must_use = "the fault is planted as long as the guard lives"]
pub struct PlantedFault {
    before: Option<Box<dyn Any>>,
}

#[cfg(tidegate_planted_faults)]
impl PlantedFault {
    /// Plants a fault in this thread in place of any other.
    pub fn plant<F: Any>(fault: F) -> Self {
        Self { before: PLANTED.replace(Some(Box::new(fault))) }
    }

    /// Whether `test` fails while the fault is planted. Without one it is expected to pass, so a
    /// test that spawns threads or writes files when it fails is of no use here.
    pub fn is_found_by<F: Any>(fault: F, test: fn()) -> bool {
        let _planted = Self::plant(fault);
        std::panic::catch_unwind(test).is_err()
    }
}

#[cfg(tidegate_planted_faults)]
impl Drop for PlantedFault {
    fn drop(&mut self) {
        PLANTED.set(self.before.take());
    }
}
