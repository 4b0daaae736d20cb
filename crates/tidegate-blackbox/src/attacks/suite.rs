//! The table of all attacks.

use crate::attack::MEBIBYTES_ABOVE_IDLE_MAX;
use crate::attacks::shared_parts::misconduct::{self, beside_misconduct};
use crate::attacks::{
    authorization, certificates, connections, counters, departures, disk, floods, neighbour, permits,
    proxy_load, proxy_requests, redis, requests, secrets, shared_parts, waiting_memory,
};
use crate::trial::{Pace, Repetition, Trial};

/// Brief attacks that the daemon does not withstand yet, so that the gate leaves them out. An
/// attack that is fixed is taken out of this list; a test fails while a name here is no brief
/// attack.
pub const NOT_YET_HELD: &[&str] = &[];

/// The attacks that the gate runs: the brief ones without [`NOT_YET_HELD`].
pub fn gated() -> impl Iterator<Item = &'static Trial> {
    ATTACKS.iter().filter(|attack| attack.pace == Pace::Brief && !NOT_YET_HELD.contains(&attack.name))
}

macro_rules! attacks {
    ($($name:literal $pace:ident $run:expr => $claim:literal;)*) => {
        &[$(Trial {
            name: $name,
            claim: $claim,
            pace: Pace::$pace,
            repeats: Repetition::Run,
            mebibytes_max: Some(MEBIBYTES_ABOVE_IDLE_MAX),
            run: |context, findings| findings.attacked(($run)(context)),
        }),*]
    };
}

/// All attacks, in the order in which they run.
pub const ATTACKS: &[Trial] = attacks! {
    "settled-permits-of-one-key" Brief
        |context| permits::settled_permits(context, |_, _| "eve".to_owned()) =>
        "140 000 permits that one user took and released leave room for another namespace";
    "settled-permits-of-many-keys" Brief
        |context| permits::settled_permits(context, |round, number| format!("{round}-{number}")) =>
        "140 000 permits that as many users took and released leave room for another namespace";
    "held-permits-of-one-key" Brief
        |context| permits::held_permits(context, |_| "eve".to_owned()) =>
        "70 000 permits that one user keeps leave room for another namespace";
    "held-permits-of-many-keys" Brief
        |context| permits::held_permits(context, |number| number.to_string()) =>
        "70 000 permits that as many users keep leave room for another namespace";
    "refund-keys" Long permits::refund_keys =>
        "270 000 refund keys of one namespace leave room for another";
    "permit-names" Brief permits::permit_names =>
        "the names of permits cannot be guessed from those of another daemon";
    "year-long-throttle" Brief counters::year_long_throttle =>
        "CL.THROTTLE with a period of a year fills no table for other namespaces";
    "year-long-descriptors" Brief counters::year_long_descriptors =>
        "limits of a year that come with Envoy's requests fill no table for other namespaces";
    "large-costs" Brief counters::large_costs =>
        "large costs on rolling limits leave rings for other namespaces";
    "metric-values" Brief counters::metric_values =>
        "values of one domain leave places in the metrics for another";
    "override-changes" Long counters::override_changes =>
        "1 100 000 override changes leave reloads in force";
    "unique-keys-over-grpc" Brief floods::unique_keys_over_grpc =>
        "60 000 unique keys over gRPC are answered, within the memory";
    "unique-keys-over-http-and-resp" Brief floods::unique_keys_over_http_and_resp =>
        "60 000 unique keys over each of HTTP and RESP are answered, within the memory";
    "unique-keys-through-the-proxy" Brief floods::unique_keys_through_the_proxy =>
        "6 000 unique keys through the proxy pass, within the memory";
    "unread-replies-and-half-commands" Long floods::unread_replies_and_half_commands =>
        "600 RESP connections that do not read, or send half a command, take at most 256 MiB";
    "bodies-before-authentication" Brief floods::bodies_before_authentication =>
        "bodies of gRPC calls without a token take at most 256 MiB";
    "unfinished-bodies-over-http2" Brief floods::unfinished_bodies_over_http2 =>
        "bodies over HTTP/2 that never end take at most 256 MiB";
    "stream-resets" Brief floods::stream_resets =>
        "streams that are opened and reset at once leave at most 200 lines in the log";
    "listeners-on-ipv6" Brief floods::listeners_on_ipv6 =>
        "every kind of listener serves on IPv6";
    "silent-connections" Brief connections::silent_connections =>
        "silent connections at one listener leave room at the others";
    "large-heads" Brief connections::large_heads =>
        "a head of 200 KiB is read to its end and answered 431";
    "heads-that-begin-as-the-preface" Brief connections::heads_that_begin_as_the_preface =>
        "every head that does not end is cut off after the time for a request";
    "doubled-parameters" Brief requests::doubled_parameters =>
        "a duplicate parameter of /v1/authorize is answered 400";
    "hosts-missing-or-doubled" Brief requests::hosts_missing_or_doubled =>
        "HTTP/1.1 without exactly one Host is answered 400";
    "requests-of-other-sites" Brief requests::requests_of_other_sites =>
        "no page of another site resets a limit through a browser on the same machine";
    "arrays-for-objects" Brief requests::arrays_for_objects =>
        "a JSON array in place of an object is answered 400";
    "metadata-entries" Brief requests::metadata_entries =>
        "a gRPC call with 200 metadata entries is refused";
    "patterns-of-many-stars" Brief requests::patterns_of_many_stars =>
        "a pattern of 1000 stars on 64 000 bytes takes less than 250 ms";
    "upgrades-to-h2c" Brief proxy_requests::upgrades_to_h2c =>
        "no upgrade but that to WebSocket becomes a tunnel";
    "spellings-of-a-host" Brief proxy_requests::spellings_of_a_host =>
        "every spelling of a host meets the route of that host";
    "headers-named-by-connection" Brief proxy_requests::headers_named_by_connection =>
        "a Connection header that names an end-to-end header is answered 400";
    "bodies-of-get" Brief proxy_requests::bodies_of_get =>
        "a body without a length arrives with every method, or is refused";
    "cookie-crumbs" Brief proxy_requests::cookie_crumbs =>
        "cookies that HTTP/2 splits arrive as one header";
    "headers-of-identity" Brief proxy_requests::headers_of_identity =>
        "headers that say who the client is do not pass from untrusted peers";
    "trace" Brief proxy_requests::trace =>
        "TRACE does not reach the service";
    "refusals-in-html" Brief proxy_requests::refusals_in_html =>
        "a client that says `text/html;q=0` gets no HTML";
    "waiting-requests" Long proxy_load::waiting_requests =>
        "others keep half of their throughput beside 1 023 requests that wait";
    "waiting-memory-brief" Brief
        |context| waiting_memory::run_all(context, waiting_memory::BRIEF) =>
        "callers that fill the 24 MiB for requests that wait take at most 1.5 times as much";
    "waiting-memory" Long
        |context| waiting_memory::run_all(context, waiting_memory::LONG) =>
        "callers that fill the 48 MiB for requests that wait take at most 1.3 times as much";
    "slow-upstream" Long proxy_load::slow_upstream =>
        "a service that takes 5 s for an answer leaves the median of another one below twice its value";
    "closed-upstream-connections" Long proxy_load::closed_upstream_connections =>
        "8 000 requests to a service that closes connections between requests are answered";
    "reloads-without-authorization" Brief authorization::reloads_without_authorization =>
        "no reload opens a listener beyond loopback that asks for tokens";
    "empty-tokens" Brief authorization::empty_tokens =>
        "the SHA-256 of nothing admits nobody";
    "guessed-tokens" Brief authorization::guessed_tokens =>
        "a RESP connection gets answers to at most 100 guesses in 3 s";
    "unlogged-changes" Brief authorization::unlogged_changes =>
        "the log names the grant of each change and reports failed logins";
    "pipes-for-files" Long secrets::pipes_for_files =>
        "a pipe in place of a file does not hang the start";
    "huge-files" Brief secrets::huge_files =>
        "a file of 1 GiB in place of a password is not read whole";
    "resumed-sessions" Brief certificates::resumed_sessions =>
        "an expired client certificate does not come back by resuming a session";
    "renegotiation" Brief certificates::renegotiation =>
        "TLS 1.2 is not renegotiated";
    "file-modes" Brief disk::file_modes =>
        "files of the embedded store are for their owner only";
    "long-keys" Brief disk::long_keys =>
        "60 000 keys of 1 400 bytes take at most 64 MiB of disk and leave room for another namespace";
    "full-disk-with-sync" Long
        |context| disk::full_disk(context, "durability: sync") =>
        "a full disk is logged, ends nothing, and passes within 5 s";
    "full-disk-with-interval" Long
        |context| disk::full_disk(context, "durability: interval") =>
        "a full disk is logged, ends nothing, and passes within 5 s";
    "faults-of-the-redis-server" Long redis::faults_of_the_server =>
        "the link to Redis recovers within 5 s from each of 12 faults";
    "damaged-keys-in-redis" Brief redis::damaged_keys =>
        "a damaged key in Redis fails its own callers only";
    "endless-replies-of-redis" Long redis::endless_replies =>
        "replies of 1 GiB from Redis take at most 256 MiB";
    "redis-out-of-memory" Brief redis::servers_out_of_memory =>
        "a Redis server without memory is reported as store_unavailable";
    "shared-departures-brief" Brief departures::brief_run =>
        "800 callers that leave around their turn, over each protocol, hold nothing 1.5 s later";
    "shared-departures" Long departures::long_run =>
        "10 000 that leave in 20 s hold nothing 1.5 s later, and honest callers do 90 % of their work";
    "shared-tenants-brief" Brief
        |context| beside_misconduct(context, misconduct::TENANTS, misconduct::BRIEF) =>
        "callers with a new tenant for each request leave another namespace 90 % of its part";
    "shared-tenants" Long
        |context| beside_misconduct(context, misconduct::TENANTS, misconduct::LONG) =>
        "the same for half a minute each";
    "shared-impatience-brief" Brief
        |context| beside_misconduct(context, misconduct::IMPATIENCE, misconduct::BRIEF) =>
        "callers that do not wait, and those that do, leave another namespace its part";
    "shared-impatience" Long
        |context| beside_misconduct(context, misconduct::IMPATIENCE, misconduct::LONG) =>
        "the same for half a minute each";
    "shared-numbers-brief" Brief
        |context| beside_misconduct(context, misconduct::NUMBERS, misconduct::BRIEF) =>
        "no cost, attempt, time or failure of a caller takes more than 10 % of another's part";
    "shared-numbers" Long
        |context| beside_misconduct(context, misconduct::NUMBERS, misconduct::LONG) =>
        "the same for half a minute each";
    "shared-classes-brief" Brief shared_parts::promises::classes_brief =>
        "a flood of a higher class leaves a lower one what it is promised";
    "shared-classes" Long shared_parts::promises::classes_long =>
        "each promise within 10 %, by checks and proxy, with a fixed limit and `auto`";
    "shared-neighbour" Long
        |context| shared_parts::neighbour::run(context, "8") =>
        "minutes beside a namespace that does everything it may leave 90 % of a part, at twice the p99";
    "shared-neighbour-auto" Long
        |context| shared_parts::neighbour::run(context, "{ algorithm: vegas, initial: 8, min: 1, max: 64 }") =>
        "the same where the limit is found by `auto`";
    "hostile-neighbour-brief" Brief neighbour::brief_run =>
        "6 s beside a hostile namespace refuse the honest one nothing";
    "hostile-neighbour" Long neighbour::long_run =>
        "minutes beside a hostile namespace refuse the honest one nothing and at most double its p99";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_has_a_name_of_its_own() {
        let mut names: Vec<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ATTACKS.len());
    }
}
