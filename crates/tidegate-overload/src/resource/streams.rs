//! The streams of a resource.

use tidegate_core::{BindingSignal, OverloadMechanism};

use super::Resource;
use crate::cursor::RequestLevel;
use crate::namespaces::NamespaceKey;
use crate::places::stream_places::{StreamPermit, StreamRefusal};
use crate::resource_id::ResourceId;
use crate::shed::Shed;
use crate::sync::lock;

impl Resource {
    /// Sets the namespaces that have streams, in place of earlier ones; each has its part of the
    /// bound by its share.
    pub(crate) fn set_stream_namespaces(&self, namespaces: impl IntoIterator<Item = u32>) {
        let control = lock(&self.control);
        let share = |namespace| (namespace, control.shares.weight(NamespaceKey::Exact(namespace)));
        self.streams.set_shares(namespaces.into_iter().map(share).collect());
    }

    /// Counts a request that may become a stream; the refusal of one too many.
    pub(crate) fn open_stream(&self, id: ResourceId, level: RequestLevel) -> Result<StreamPermit, Shed> {
        let namespace = level.namespace();
        match self.streams.open(namespace, self.hint_key) {
            Ok(()) => Ok(StreamPermit { resource: id, namespace }),
            Err(refusal) => Err(self.without_stream(level, refusal)),
        }
    }

    /// The refusal that [`Resource::open_stream`] would give; counts nothing.
    pub(crate) fn would_lack_stream(&self, level: RequestLevel) -> Option<Shed> {
        let refusal = self.streams.would_refuse(level.namespace(), self.hint_key)?;
        Some(self.without_stream(level, refusal))
    }

    /// The refusal of a request that would become a stream too many.
    #[cold]
    fn without_stream(&self, level: RequestLevel, refusal: StreamRefusal) -> Shed {
        let StreamRefusal { max, retry_after } = refusal;
        let shed = self.refusal(OverloadMechanism::Streams, BindingSignal::InFlight, level);
        Shed { in_flight_max: max, retry_after_hint: retry_after, ..shed }
    }
}
