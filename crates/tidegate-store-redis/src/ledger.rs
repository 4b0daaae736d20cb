//! The numbers of leased limits and asks that the script receives, and the grants that it
//! returns.

use core::time::Duration;

use tidegate_core::algorithm::{Calendar, REPORT_DEBT_LIMITS, WindowStart};
use tidegate_core::lease::{Ask, Grant, LIFETIME_MAX, Terms};
use tidegate_core::rate::gcd;
use tidegate_core::{Algorithm, Timestamp};
use tidegate_store::{Grants, OnLedger};

use crate::bytes::{Reader, Writer};
use crate::call_format;
use crate::numbers::{Numbers, Shape, Windows, count, count_bits, micros, whole};

/// The largest integer that the script counts exactly, and the most that one holder is lent.
const NUMBER_MAX: u64 = (1 << 53) - 1;
const LENT_MAX: u64 = (1 << 31) - 1;

/// The numbers of `algorithm` that the script needs to lend it for `period`, or the missing
/// ability.
pub(crate) fn numbers(algorithm: &Algorithm, period: Duration) -> Result<Numbers, String> {
    // The window is that of the server's clock, so the script finds it by itself.
    let terms = Terms::for_period(algorithm, period, Timestamp::MIN);
    let terms = terms.map_err(|error| error.to_string())?;
    let period = u64::try_from(terms.period().as_micros()).unwrap_or(u64::MAX);
    let mut spec = Writer::default();
    let mut windows = None;
    spec.byte(match algorithm {
        Algorithm::Bucket(_) => 7,
        Algorithm::Fixed(_) => 8,
        _ => 9,
    });
    spec.byte(u8::from(terms.is_quota())).double(count(terms.largest()));
    // Pending releases of leases come on top of the reported usage.
    let deepest = terms.largest().saturating_mul(1 + REPORT_DEBT_LIMITS).min(NUMBER_MAX - 4 * LENT_MAX);
    spec.double(count(deepest));
    spec.double(count(period)).double(count((NUMBER_MAX / period).min(LENT_MAX)));
    spec.double(count(terms.leased_min()));
    match algorithm {
        Algorithm::Bucket(bucket) => {
            // Units a microsecond, in lowest terms.
            let (units, per_ns) =
                (u128::from(bucket.rate().units()) * 1000, u128::from(bucket.rate().per_ns()));
            let divisor = gcd(units, per_ns);
            let whole = |number: u128| count(u64::try_from(number).unwrap_or(u64::MAX));
            spec.double(whole(units / divisor)).double(whole(per_ns / divisor));
            spec.double(count(terms.quota())).double(count(terms.unleased()));
        }
        Algorithm::Fixed(fixed) => {
            spec.double(micros(fixed.window())?).byte(u8::from(fixed.start() == WindowStart::FirstHit));
        }
        Algorithm::Calendar(calendar) => {
            let bits = count_bits(&Calendar::new(u64::MAX, calendar.unit(), calendar.zone()));
            let twin =
                Calendar::new(1, calendar.unit(), calendar.zone()).map_err(|error| error.to_string())?;
            windows = Some(Windows::new(twin.with_week_start(calendar.week_start()), bits));
            // Nothing that the script reads: it tells calendars apart.
            spec.byte(calendar.unit() as u8).byte(calendar.week_start() as u8);
            spec.bytes(calendar.zone().as_bytes());
        }
        _ => {}
    }
    Ok(Numbers { spec: spec.into_bytes().into(), shape: Shape::Usage, windows })
}

/// The number under which the script knows an operation.
pub(crate) fn kind(operation: &OnLedger) -> u8 {
    match operation {
        OnLedger::Ask(_) => call_format::ASK,
        OnLedger::Look => call_format::LOOK,
        OnLedger::Report { .. } => call_format::LEDGER_REPORT,
        OnLedger::Refund { .. } => call_format::LEDGER_REFUND,
        OnLedger::Reset => call_format::LEDGER_RESET,
    }
}

/// The further numbers of an operation that the script needs.
pub(crate) fn write(operation: &OnLedger, bytes: &mut Writer) {
    match operation {
        OnLedger::Ask(ask) => write_ask(ask, bytes),
        OnLedger::Report { cost } | OnLedger::Refund { cost } => {
            bytes.double(count(cost.units()));
        }
        OnLedger::Look | OnLedger::Reset => {}
    }
}

fn write_ask(ask: &Ask, bytes: &mut Writer) {
    bytes.long(ask.holder.member).int(ask.holder.incarnation);
    for number in [ask.seq, ask.acked, ask.epoch, ask.left, ask.returned, ask.unused, ask.demand] {
        bytes.int(number);
    }
    bytes.double(count(ask.need)).double(count(ask.need_min));
    let is_remote = !ask.lifetime.is_zero();
    bytes.byte(u8::from(ask.is_leaving) | u8::from(ask.gives_up) << 1 | u8::from(is_remote) << 2);
    if is_remote {
        let lifetime = ask.lifetime.min(LIFETIME_MAX);
        bytes.double(count(u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX)));
    }
}

/// Units moved, units used, and the microsecond from which on none will be.
pub(crate) fn read(reader: &mut Reader<'_>) -> Option<[f64; 3]> {
    reader.doubles()
}

/// Reads what an ask was granted, if it was answered, and adds it to `grants`.
pub(crate) fn read_grant(reader: &mut Reader<'_>, grants: &mut Grants) -> Option<()> {
    if reader.byte()? == 0 {
        grants.push(None);
        return Some(());
    }
    let span = |micros: f64| Duration::from_micros(whole(micros));
    let mut grant = Grant {
        seq: reader.int()?,
        epoch: reader.int()?,
        lump: reader.int()?,
        held: reader.int()?,
        rate: reader.int()?,
        ttl: span(reader.double()?),
        keep: reader.int()?,
        members: reader.int()?,
        is_scarce: false,
        is_lost: false,
        again: Duration::ZERO,
        gone: 0,
    };
    let flags = reader.byte()?;
    (grant.is_scarce, grant.is_lost) = (flags & 1 != 0, flags & 2 != 0);
    (grant.again, grant.gone) = (span(reader.double()?), whole(reader.double()?));
    grants.push(Some(grant));
    Some(())
}

#[cfg(test)]
mod tests {
    use tidegate_core::lease::HolderName;

    use super::*;

    fn written(ask: &Ask) -> Vec<u8> {
        let mut bytes = Writer::default();
        write_ask(ask, &mut bytes);
        bytes.into_bytes()
    }

    #[test]
    fn only_an_ask_with_a_lifetime_is_longer_than_others_and_it_asks_for_90_seconds_at_most() {
        let ask =
            Ask { demand: 9, gives_up: true, ..Ask::first(HolderName { member: 7, incarnation: 3 }, 2) };
        let plain = written(&ask);
        let mut expected = vec![0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 3];
        for number in [ask.seq, 0, 0, 0, 0, 0, 9] {
            expected.extend(u32::to_be_bytes(number));
        }
        expected.extend([2.0_f64.to_be_bytes(); 2].concat());
        expected.push(2);
        assert_eq!(plain, expected);
        for (lifetime, micros) in [
            (Duration::from_nanos(1), 0.0_f64),
            (Duration::from_secs(23), 23e6),
            (Duration::from_nanos(89_999_999_999), 89_999_999.0),
            (LIFETIME_MAX, 90e6),
            (Duration::MAX, 90e6),
        ] {
            expected.truncate(plain.len() - 1);
            expected.push(6);
            expected.extend(micros.to_be_bytes());
            assert_eq!(written(&Ask { lifetime, ..ask }), expected, "{lifetime:?}");
        }
    }
}
