//! Queues: the waiting room, and the fair queue of each resource.

pub(crate) mod fair_queue;
pub(crate) mod position_map;
pub(crate) mod queue_observation;
pub(crate) mod waiting_room;
