//! The name, the clock and the stored key with which this daemon signs deferral tickets.

use std::sync::{Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use tidegate_engine::{Engine, StoredTicketKey, TicketKeys};
use tidegate_overload::{TicketClock, TicketIssuer};
use tokio::sync::Notify;

/// Tells by how many nanoseconds the clock of a shared store is ahead of that of the member, as far
/// as is known.
pub(crate) struct StoreAhead(pub(crate) Box<dyn Fn() -> i64 + Send + Sync>);

tidegate_core::debug_fields!(StoreAhead {});

/// The part of a daemon that gives its engine keys and a name for tickets.
#[derive(Debug)]
pub(crate) struct TicketSigner {
    issuer: TicketIssuer,
    /// The clock of tickets where members share a store; `None`: that of the daemon.
    store_ahead: Option<StoreAhead>,
    /// The key that the store gave, once it did.
    pub(crate) stored: Mutex<Option<StoredTicketKey>>,
    /// Notified when the key is to be read from the store.
    pub(crate) wanted: Notify,
}

impl TicketSigner {
    /// A signer of the member called `member`, in a start that no other one has.
    pub(crate) fn new(member: &str, store_ahead: Option<StoreAhead>) -> Self {
        let hash = digest(&SHA256, member.as_bytes());
        let member = hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let start = getrandom::u64().expect("the operating system gives random numbers");
        let issuer = TicketIssuer { member, start };
        Self { issuer, store_ahead, stored: Mutex::default(), wanted: Notify::new() }
    }

    /// Gives an engine the name under which it sells tickets, before its first request.
    pub(crate) fn set_issuer(&self, engine: &Engine) {
        engine.set_ticket_issuer(self.issuer);
    }

    /// Gives an engine the clock of the store, whose offset changes in time.
    pub(crate) fn follow_clock(&self, engine: &Engine) {
        if let Some(StoreAhead(ahead)) = &self.store_ahead {
            engine.set_ticket_clock(TicketClock::ahead_by(ahead()));
        }
    }

    /// The key that the store gave, or a new one.
    pub(crate) fn stored_or_drawn(&self) -> StoredTicketKey {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stored.unwrap_or_else(|| {
            let mut bytes = [0; TicketKeys::KEY_BYTES_MIN];
            getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
            StoredTicketKey::new(bytes)
        })
    }
}
