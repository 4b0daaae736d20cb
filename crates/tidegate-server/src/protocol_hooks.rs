//! The hooks by which a protocol follows what concerns the daemon as a whole.

use core::future::{Future, ready};
use core::pin::Pin;
use std::sync::Arc;

use tidegate_net::file_backed::Refresh;

use crate::in_force::InForce;

/// The future of a hook that may wait.
pub(crate) type HookFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The part of a protocol that follows the daemon. No request calls it.
pub(crate) trait ProtocolHooks: Send + Sync {
    /// Takes over a policy, before the other protocols read requests under it.
    fn take_over(&self, _next: &Arc<InForce>) {}

    /// Another policy is in force, or the same one with other overrides.
    fn policy_changed(&self) {}

    /// The files of the protocol to read again when they change.
    fn files(&self) -> Vec<Arc<dyn Refresh>> {
        Vec::new()
    }

    /// Announces to callers whether the daemon is ready for work.
    fn announce(&self, _is_ready: bool) -> HookFuture<'_> {
        Box::pin(ready(()))
    }

    /// Ends the answers that have no end of their own, so that the drain does not wait for them.
    fn end_streams(&self) -> HookFuture<'_> {
        Box::pin(ready(()))
    }
}
