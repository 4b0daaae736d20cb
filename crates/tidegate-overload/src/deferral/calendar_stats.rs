//! The figures of a calendar that operators see.

/// Figures of a calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalendarStats {
    /// The tickets for the present second and later ones that were not spent.
    pub booked: u64,
    /// The present and later seconds for which tickets were sold.
    pub slots_booked: usize,
    /// The last second for which a ticket was sold, since the Unix epoch; `None` if none is ahead.
    pub last_slot: Option<u64>,
    /// The last second whose tickets are due early, since the Unix epoch; `None` unless the
    /// calendar is pulled forward beyond the present second.
    pub pulled_to: Option<u64>,
    /// The spent tickets that are remembered, own and foreign ones.
    pub spent: usize,
    /// The bytes of the bits of spent tickets, at most the bound of the calendar.
    pub spent_bytes: usize,
    /// The bytes that the calendar takes in all.
    pub bytes: usize,
}
