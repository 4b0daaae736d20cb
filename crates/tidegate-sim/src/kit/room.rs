//! The room of a party: requests that wait there until they can go on, in order of arrival.

/// Waiting requests. The world decides in rounds which of them go on; the others, and those that
/// have to wait again, enter anew and keep the order in which the round met them.
#[derive(Debug)]
pub struct Room<W> {
    waiting: Vec<W>,
}

impl<W> Default for Room<W> {
    fn default() -> Self {
        Self { waiting: Vec::new() }
    }
}

impl<W> Room<W> {
    /// Lets a request wait.
    pub fn enter(&mut self, waiting: W) {
        self.waiting.push(waiting);
    }

    /// Whether any waiting request can go on.
    pub fn any(&self, can_go_on: impl FnMut(&W) -> bool) -> bool {
        self.waiting.iter().any(can_go_on)
    }

    /// Begins a round: the requests that wait, in order of arrival. The room is empty then, and
    /// uses the space of `empty`, which has no elements; pass the vector of the round before.
    pub fn begin_round(&mut self, empty: Vec<W>) -> Vec<W> {
        debug_assert!(empty.is_empty(), "a round begins with an empty room");
        core::mem::replace(&mut self.waiting, empty)
    }

    /// The number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets all waiting requests, as a party that crashes does; how many there were.
    pub fn clear(&mut self) -> usize {
        let count = self.waiting.len();
        self.waiting.clear();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_meets_the_waiting_in_order_and_those_that_stay_keep_it() {
        let mut room = Room::default();
        (0..6).for_each(|number| room.enter(number));
        assert!(room.any(|number| *number == 5) && !room.any(|number| *number == 6));
        let mut round = room.begin_round(Vec::new());
        for number in round.drain(..) {
            match number {
                // It goes on, and another request arrives meanwhile.
                2 => room.enter(20),
                4 => {}
                stays => room.enter(stays),
            }
        }
        assert_eq!(room.begin_round(round), [0, 1, 20, 3, 5]);
        assert!(room.is_empty());
        room.enter(1);
        assert_eq!((room.len(), room.clear(), room.len()), (1, 1, 0));
    }
}
