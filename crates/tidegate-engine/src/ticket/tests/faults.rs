//! The planted fault of tickets is found.

use tidegate_core::planted_fault::PlantedFault;

use super::bad_tickets::a_ticket_with_another_signature_is_forged;
use crate::fault::Fault;

#[test]
fn a_signature_that_is_not_verified_is_found() {
    assert!(PlantedFault::is_found_by(Fault::TicketUnverified, a_ticket_with_another_signature_is_forged));
}
