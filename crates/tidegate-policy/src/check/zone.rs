//! Names of time zones: the one that was probably meant.

use jiff::tz::TimeZoneDatabase;

use crate::suggestion::{listed, nearest};

/// Abbreviations, each with the IANA zones that use it, the most common one first.
const ABBREVIATIONS: [(&str, &[&str]); 60] = [
    ("PST", &["America/Los_Angeles"]),
    ("PDT", &["America/Los_Angeles"]),
    ("PT", &["America/Los_Angeles"]),
    ("MST", &["America/Denver", "America/Phoenix"]),
    ("MDT", &["America/Denver"]),
    ("MT", &["America/Denver"]),
    ("CST", &["America/Chicago", "Asia/Shanghai", "America/Havana"]),
    ("CDT", &["America/Chicago", "America/Havana"]),
    ("CT", &["America/Chicago"]),
    ("EST", &["America/New_York", "America/Panama"]),
    ("EDT", &["America/New_York"]),
    ("ET", &["America/New_York"]),
    ("AKST", &["America/Anchorage"]),
    ("AKDT", &["America/Anchorage"]),
    ("HST", &["Pacific/Honolulu"]),
    ("HDT", &["America/Adak"]),
    ("AST", &["America/Halifax", "America/Puerto_Rico", "Asia/Riyadh"]),
    ("ADT", &["America/Halifax"]),
    ("NST", &["America/St_Johns"]),
    ("NDT", &["America/St_Johns"]),
    ("BRT", &["America/Sao_Paulo"]),
    ("ART", &["America/Argentina/Buenos_Aires"]),
    ("CLT", &["America/Santiago"]),
    ("COT", &["America/Bogota"]),
    ("PET", &["America/Lima"]),
    ("GMT", &["Europe/London", "Africa/Abidjan"]),
    ("BST", &["Europe/London", "Asia/Dhaka"]),
    ("WET", &["Europe/Lisbon"]),
    ("WEST", &["Europe/Lisbon"]),
    ("CET", &["Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Rome"]),
    ("CEST", &["Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Rome"]),
    ("EET", &["Europe/Athens", "Europe/Helsinki", "Europe/Kyiv", "Africa/Cairo"]),
    ("EEST", &["Europe/Athens", "Europe/Helsinki", "Europe/Kyiv", "Africa/Cairo"]),
    ("MSK", &["Europe/Moscow"]),
    ("TRT", &["Europe/Istanbul"]),
    ("IST", &["Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"]),
    ("IDT", &["Asia/Jerusalem"]),
    ("GST", &["Asia/Dubai"]),
    ("IRST", &["Asia/Tehran"]),
    ("PKT", &["Asia/Karachi"]),
    ("NPT", &["Asia/Kathmandu"]),
    ("ICT", &["Asia/Bangkok", "Asia/Ho_Chi_Minh"]),
    ("WIB", &["Asia/Jakarta"]),
    ("SGT", &["Asia/Singapore"]),
    ("MYT", &["Asia/Kuala_Lumpur"]),
    ("HKT", &["Asia/Hong_Kong"]),
    ("PHT", &["Asia/Manila"]),
    ("JST", &["Asia/Tokyo"]),
    ("KST", &["Asia/Seoul"]),
    ("SAST", &["Africa/Johannesburg"]),
    ("WAT", &["Africa/Lagos"]),
    ("CAT", &["Africa/Maputo"]),
    ("EAT", &["Africa/Nairobi"]),
    ("AWST", &["Australia/Perth"]),
    ("ACST", &["Australia/Adelaide", "Australia/Darwin"]),
    ("ACDT", &["Australia/Adelaide"]),
    ("AEST", &["Australia/Sydney", "Australia/Brisbane"]),
    ("AEDT", &["Australia/Sydney"]),
    ("NZST", &["Pacific/Auckland"]),
    ("NZDT", &["Pacific/Auckland"]),
];

/// The likely spelling of a zone that does not exist, if it can be guessed: by an abbreviation, a
/// name or a city.
pub(super) fn meant(zone: &str) -> Option<String> {
    if let Some(zones) = zones_of(zone) {
        return Some(match zones {
            [one] => format!("use the IANA name {one}"),
            several => format!("use an IANA name: {}", listed(several.iter().copied(), "or")),
        });
    }
    nearest_zone(zone).map(|near| format!("did you mean {near}?"))
}

/// The warning about an abbreviation that is also an IANA zone with a fixed offset, although the
/// clocks known by that abbreviation change twice a year. `None` for every other zone.
pub(super) fn without_daylight_saving(zone: &str) -> Option<(String, String)> {
    let (offset, meant, fixed) = match zone.to_ascii_uppercase().as_str() {
        "EST" => ("UTC-5", "America/New_York", "America/Panama"),
        "MST" => ("UTC-7", "America/Denver", "America/Phoenix"),
        _ => return None,
    };
    let what = format!("zone \"{zone}\" is {offset} all year, without daylight-saving time");
    Some((what, format!("use {meant} for the clocks of a city, or {fixed} if a fixed offset is meant")))
}

fn zones_of(abbreviation: &str) -> Option<&'static [&'static str]> {
    let known = ABBREVIATIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(abbreviation));
    known.map(|(_, zones)| *zones)
}

/// The IANA zone that was probably meant, by its name or by its city.
fn nearest_zone(zone: &str) -> Option<String> {
    let names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    let whole = nearest(zone, names.iter().map(String::as_str));
    let by_city = || {
        let city = |name: &'_ str| name.rsplit('/').next().map(str::to_owned);
        let wanted = city(zone)?;
        let cities: Vec<String> = names.iter().filter_map(|name| city(name)).collect();
        let near = nearest(&wanted, cities.iter().map(String::as_str))?;
        names.iter().find(|name| name.rsplit('/').next() == Some(near)).cloned()
    };
    whole.map(str::to_owned).or_else(by_city)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_of_an_abbreviation_exists_and_no_abbreviation_is_in_the_table_twice() {
        for (at, (name, zones)) in ABBREVIATIONS.iter().enumerate() {
            assert!(!ABBREVIATIONS[..at].iter().any(|(earlier, _)| earlier == name), "{name}");
            for zone in *zones {
                assert!(TimeZoneDatabase::bundled().get(zone).is_ok(), "{name}: {zone}");
            }
        }
    }

    #[test]
    fn issue_15_an_abbreviation_names_its_zone_and_an_ambiguous_one_all_of_them() {
        for (zone, expected) in [
            ("PST", "use the IANA name America/Los_Angeles"),
            ("pdt", "use the IANA name America/Los_Angeles"),
            ("JST", "use the IANA name Asia/Tokyo"),
            ("CST", "use an IANA name: America/Chicago, Asia/Shanghai or America/Havana"),
            ("IST", "use an IANA name: Asia/Kolkata, Asia/Jerusalem or Europe/Dublin"),
            ("Los_Angeles", "did you mean America/Los_Angeles?"),
        ] {
            assert_eq!(meant(zone).as_deref(), Some(expected), "{zone}");
        }
    }
}
