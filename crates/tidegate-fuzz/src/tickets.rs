//! Deferral tickets: the last line is a ticket, the lines before it are a key file.

use tidegate_core::{Class, Cost};
use tidegate_engine::{TICKET_BYTES_MAX, TicketFault, TicketKeys, TicketSubject};

use crate::Taken;

/// The request that presents the ticket.
const SUBJECT: TicketSubject<'static> = TicketSubject {
    namespace: "shop",
    resource: Some("db"),
    operation: Some("export"),
    tenant: Some("acme"),
};

/// Reads a key file, and a ticket by its keys.
///
/// A ticket that opens is the text that one of the keys seals for its terms. The same ticket is
/// refused for another tenant, with another character anywhere, and when cut off. An input is
/// accepted if its ticket opens.
pub fn tickets(bytes: &[u8]) -> Taken {
    let asked = (Class::Critical, Cost::new(2).expect("two is not zero"));
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let (file, ticket) = end.map_or((&[][..], bytes), |end| (&bytes[..end], &bytes[end + 1..]));
    let keys = match TicketKeys::parse(file) {
        Ok(keys) => keys,
        Err(error) => {
            let line = error.to_string();
            assert!(line.len() < 256 && !line.contains(char::is_control), "{line:?}");
            return Taken::Refused;
        }
    };
    assert!((1..=2).contains(&keys.numbers().count()), "{keys:?}");
    let Ok(ticket) = str::from_utf8(ticket) else { return Taken::Refused };
    let terms = match keys.open(ticket, &SUBJECT, asked) {
        Ok(terms) => terms,
        Err(fault) => {
            assert!(TicketFault::ALL.contains(&fault) && fault.to_string().len() < 128, "{fault}");
            return Taken::Refused;
        }
    };
    assert!(ticket.len() <= TICKET_BYTES_MAX, "a ticket of {} bytes", ticket.len());
    let alone = file.split(|byte| *byte == b'\n').filter_map(|line| TicketKeys::parse(line).ok());
    let mut sealed = alone.map(|key| key.seal(&SUBJECT, &terms));
    assert!(sealed.any(|text| text == ticket), "no key seals {ticket}, which opens with {terms:?}");
    let other = TicketSubject { tenant: Some("eve"), ..SUBJECT };
    assert_eq!(keys.open(ticket, &other, asked), Err(TicketFault::Tenant));
    for at in 0..ticket.len() {
        let digit = if ticket[at..].starts_with('A') { "B" } else { "A" };
        let changed = [&ticket[..at], digit, &ticket[at + 1..]].concat();
        assert!(keys.open(&changed, &SUBJECT, asked).is_err(), "opens with character {at} changed");
        assert!(keys.open(&ticket[..at], &SUBJECT, asked).is_err(), "opens when cut off at {at}");
    }
    Taken::Accepted
}
