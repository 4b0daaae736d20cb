//! Envoys: each decides by what a member has assigned to it, over a stream that stays open.
//!
//! The member's side is its engine, as in the daemon. [`EnvoyBucket`] has the rules of the other
//! side.

use core::task::{Context, Poll};

use tidegate_core::Reason;
use tidegate_engine::{Action, BucketAction, BucketUsage};

use super::{Event, Simulation};
use crate::fleet::arrival::Arrival;
use crate::fleet::envoy_bucket::{EnvoyBucket, EnvoyCounts, EnvoyFill, EnvoyOrder, REPORT_EVERY};
use crate::fleet::member::{ATTRIBUTE, KeyName, NAMESPACE};
use crate::fleet::observation::{Admitted, Attempt};
use crate::kit::MS;

/// How long messages between Envoys and members take.
const MESSAGE_TAKES: (u64, u64) = (MS / 5, MS);

/// How long after a response a member pings, to learn that it was taken.
const PING_AFTER: u64 = 100 * MS;

impl Simulation {
    /// A request arrives at an Envoy.
    pub(super) fn request_at_envoy(&mut self, arrival: &Arrival) {
        let (now, key) = (self.now, arrival.key);
        self.tally.offered(arrival, now);
        let peer = &mut self.envoys.all[arrival.member as usize];
        let bucket = peer.buckets.entry(key).or_insert_with(|| EnvoyBucket::new(0));
        let is_admitted = bucket.admits(now);
        let is_new = bucket.is_new();
        if is_admitted {
            self.tally.admitted(arrival, now);
            let member = self.member_of(arrival.member);
            let one = &self.members[member as usize];
            let (run, member_now) = (one.run, one.clock.at(now).as_nanos());
            let cost = arrival.cost.into();
            let attempt = Attempt { key, cost, made: arrival.at, is_first: true, is_steady: false };
            let admitted = Admitted { member, run, cost, source: None, member_now, attempt };
            self.watch.admitted(admitted, now, self.store.clock.at(now).as_nanos());
        } else {
            self.tally.refused(arrival, Reason::RateExceeded, now);
        }
        if is_new {
            self.report(arrival.member, Some(key));
        }
    }

    /// The member that an Envoy has its stream with.
    fn member_of(&self, envoy: u32) -> u32 {
        envoy % self.scenario.members
    }

    /// An Envoy reports all its buckets.
    pub(super) fn report_all(&mut self, envoy: u32) {
        self.queue.plan(self.now + REPORT_EVERY, Event::EnvoyReports { envoy });
        self.report(envoy, None);
    }

    /// An Envoy reports one bucket, or all of them.
    fn report(&mut self, envoy: u32, only: Option<u32>) {
        let now = self.now;
        let is_reached = self.members[self.member_of(envoy) as usize].engine.is_some();
        let peer = &mut self.envoys.all[envoy as usize];
        let known = peer
            .buckets
            .iter_mut()
            .filter(|(key, bucket)| bucket.is_known() && only.is_none_or(|only| only == **key));
        if !is_reached {
            return known.for_each(|(_, bucket)| bucket.lose_report(now));
        }
        let usages: Vec<_> = known.map(|(key, bucket)| (*key, bucket.report(now))).collect();
        // An Envoy whose buckets are all abandoned sends an empty report.
        if usages.is_empty() && peer.stream.is_none() {
            return;
        }
        let takes = self.envoys.chance.between(MESSAGE_TAKES.0, MESSAGE_TAKES.1);
        let at = peer.last_report_at.max(self.now + takes);
        peer.last_report_at = at;
        self.tally.envoys.iter_mut().for_each(|envoys| envoys.reports += 1);
        self.queue.plan(at, Event::ReportArrives { envoy, usages });
    }

    /// A member hears a report; with the first one the stream opens.
    pub(super) fn hear_report(&mut self, envoy: u32, usages: &[(u32, EnvoyCounts)]) {
        let member = &self.members[self.member_of(envoy) as usize];
        let Some(engine) = &member.engine else { return };
        let local = member.clock.at(self.now);
        let peer = &mut self.envoys.all[envoy as usize];
        if peer.stream.is_none() {
            peer.stream = engine.open_remote(NAMESPACE, format!("envoy-{envoy}").as_str(), local).ok();
        }
        let Some(stream) = &peer.stream else { return };
        let names: Vec<_> = usages.iter().map(|(key, _)| KeyName::from_key(*key)).collect();
        let ids: Vec<_> = names.iter().map(|name| [(ATTRIBUTE, name.as_str())]).collect();
        let usages: Vec<_> = usages
            .iter()
            .zip(&ids)
            .map(|((_, counts), id)| BucketUsage {
                attributes: id,
                allowed: counts.allowed,
                denied: counts.denied,
                elapsed: core::time::Duration::from_secs(counts.elapsed_s),
            })
            .collect();
        engine.report_remote(stream, &usages, local);
        self.poll_stream(envoy);
    }

    /// A member looks at a stream at the instant that the stream has asked for.
    pub(super) fn look_at_stream(&mut self, envoy: u32) {
        if self.envoys.all[envoy as usize].looks_at == self.now {
            self.poll_stream(envoy);
        }
    }

    /// Members look at the streams whose asks were answered.
    pub(super) fn poll_woken_streams(&mut self) {
        if self.envoys.all.is_empty() {
            return;
        }
        let woken = self.envoys.woken.take();
        for envoy in woken {
            self.poll_stream(envoy);
        }
    }

    fn poll_stream(&mut self, envoy: u32) {
        let home = self.member_of(envoy);
        let member = &self.members[home as usize];
        let peer = &mut self.envoys.all[envoy as usize];
        let (Some(engine), Some(stream)) = (&member.engine, &peer.stream) else { return };
        if peer.is_responding {
            return;
        }
        let local = member.clock.at(self.now);
        if let Poll::Ready(actions) = engine.poll_remote(stream, &Context::from_waker(&peer.waker), local) {
            let takes = self.envoys.chance.between(MESSAGE_TAKES.0, MESSAGE_TAKES.1);
            self.tally.envoys.iter_mut().for_each(|envoys| envoys.responses += 1);
            self.queue.plan(self.now + takes, Event::ResponseArrives { envoy, actions });
            peer.is_responding = true;
            self.send_asks(home);
            return;
        }
        let next = engine.next_look_remote(stream);
        peer.looks_at = next.map_or(u64::MAX, |next| member.clock.when(next).max(self.now + 1));
        if next.is_some() {
            self.queue.plan(peer.looks_at, Event::LooksAtStream { envoy });
        }
        self.send_asks(home);
    }

    /// A member learns that an Envoy has taken its last response.
    pub(super) fn learn_taken(&mut self, envoy: u32) {
        let member = &self.members[self.member_of(envoy) as usize];
        let peer = &mut self.envoys.all[envoy as usize];
        peer.is_responding = false;
        if let (Some(engine), Some(stream)) = (&member.engine, &peer.stream) {
            engine.taken_remote(stream, member.clock.at(self.now));
        }
        self.poll_stream(envoy);
    }

    /// An Envoy takes a response.
    pub(super) fn obey_response(&mut self, envoy: u32, actions: &[BucketAction]) {
        let takes = self.envoys.chance.between(MESSAGE_TAKES.0, MESSAGE_TAKES.1);
        self.queue.plan(self.now + PING_AFTER + takes, Event::ResponseIsTaken { envoy });
        let peer = &mut self.envoys.all[envoy as usize];
        for action in actions {
            let Some((_, value)) = action.bucket.first() else { continue };
            if let Some(bucket) = peer.buckets.get_mut(&KeyName::read(value.as_bytes())) {
                bucket.obey(order_of(action.action), self.now);
            }
        }
    }
}

fn order_of(action: Action) -> EnvoyOrder {
    let seconds = |span: core::time::Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
    match action {
        Action::Assign { max_tokens, tokens_per_fill, fill_interval, ttl } => {
            let fill = EnvoyFill { max_tokens, tokens_per_fill, interval_s: seconds(fill_interval) };
            EnvoyOrder::Fill(fill, seconds(ttl))
        }
        Action::Deny { ttl } => EnvoyOrder::Deny(seconds(ttl)),
        Action::Abandon => EnvoyOrder::Abandon,
    }
}
