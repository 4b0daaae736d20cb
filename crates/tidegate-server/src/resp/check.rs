//! `TG.CHECK` and `TG.RELEASE`: the limits of the policy over RESP, and the replies of errors.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_core::{Cost, RefusalView, Timestamp};
use tidegate_driver::UntoldPermit;
use tidegate_engine::{Decision, Outcome, Permit, PermitId, Progress, Request, Step};
use tidegate_net::connections::{AnswerDelivery, ConnectionActivity};
use tidegate_wire::headers::{ShownFeature, ShownTicket};
use tidegate_wire::operation::{WAIT_MS, wait_of_attribute};
use tidegate_wire::pairs::Pairs;
use tidegate_wire::problem::Sentence;
use tidegate_wire::problem_details::details_of;
use tidegate_wire::ratelimit::tightest;
use tidegate_wire::resp::Replies;
use tidegate_wire::retry_after::millis_of;
use tidegate_wire::text::{Text, shortened};
use tidegate_wire::{Fault, FaultCode};

use super::throttle::number;
use crate::admin::access_explanation::access_units;
use crate::admitted_charges::AdmittedCharges;
use crate::api::operations::allowances;
use crate::authorization::Caller;
use crate::claims::OwnClaims;
use crate::context::RequestScope;
use crate::decide::permit_delivery;
use crate::engine_fault::engine_fault;
use crate::protocol::Protocol;
use crate::records::decisions::Asked;

/// How many bytes of a name an error shows.
const SHOWN_BYTES: usize = 64;

/// The arguments of a check.
struct Check<'a> {
    namespace: &'a str,
    /// `None` if the request does not say it.
    cost: Option<Cost>,
    /// Whether it only looks, with `COST 0`.
    is_peek: bool,
    /// Whether it will end with `TG.RELEASE`, so that it may take a place of a resource.
    is_released: bool,
    /// How long it waits at most.
    wait: Duration,
    attributes: Pairs<'a>,
}

impl<'a> Check<'a> {
    fn read(arguments: &'a [Cow<'a, [u8]>]) -> Result<Self, Fault> {
        let malformed = |detail: String| Fault::new(FaultCode::MalformedBody, detail);
        let [_, namespace, rest @ ..] = arguments else {
            return Err(malformed("TG.CHECK names no namespace".to_owned()));
        };
        let namespace = text("the namespace", namespace)?;
        let (cost, is_peek, rest) = match rest {
            [option, units, rest @ ..] if option.eq_ignore_ascii_case(b"COST") => {
                let cost = Cost::new(number("COST", units).map_err(malformed)?);
                (cost.or(Some(Cost::ONE)), cost.is_none(), rest)
            }
            _ => (None, false, rest),
        };
        // Attributes come in pairs: before an even number of words, RELEASE is the option, and with
        // an odd number the name of an attribute.
        let (is_released, rest) = match rest {
            [option, pairs @ ..] if option.eq_ignore_ascii_case(b"RELEASE") && pairs.len() % 2 == 0 => {
                (true, pairs)
            }
            _ => (false, rest),
        };
        let mut attributes = Pairs::default();
        for pair in rest.chunks(2) {
            let [name, value] = pair else {
                let name = shown(&pair[0]);
                let detail = format!("attribute \"{name}\" has no value; write attributes as name value");
                return Err(malformed(detail));
            };
            let name = text("the name of an attribute", name)?;
            let value = core::str::from_utf8(value).map_err(|_| {
                not_text(&format!("the value of attribute \"{}\"", shortened(name, SHOWN_BYTES)), value)
            })?;
            let pushed = attributes.push(Text(name.into()), Text(value.into()));
            pushed.map_err(|error| malformed(error.to_string()))?;
        }
        let wait = attributes.get(WAIT_MS).map(|millis| wait_of_attribute(millis, is_peek)).transpose()?;
        let wait = wait.unwrap_or_default();
        Ok(Self { namespace, cost, is_peek, is_released, wait, attributes })
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}

fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, Fault> {
    core::str::from_utf8(bytes).map_err(|_| not_text(what, bytes))
}

fn not_text(what: &str, bytes: &[u8]) -> Fault {
    let detail = format!("{what}, \"{}\", is not UTF-8; send text, or a hash in digits", shown(bytes));
    Fault::new(FaultCode::MalformedBody, detail)
}

impl RequestScope<'_> {
    /// Answers `TG.CHECK`: whether that took time, as a call of the store and a wait do, and the
    /// delivery of a reply that names a permit, or for which the client has waited.
    ///
    /// It may wait on the connection `line`; without one it does not.
    pub(super) async fn check_over_resp(
        &self,
        caller: &Caller,
        arguments: &[Cow<'_, [u8]>],
        line: Option<&ConnectionActivity>,
        now: Timestamp,
        replies: &mut Replies<'_>,
    ) -> Result<(bool, Option<AnswerDelivery>), Fault> {
        let check = Check::read(arguments)?;
        self.refuse_domain(check.namespace)?;
        let pairs = self.bounded(&check.attributes)?;
        let own = OwnClaims::default();
        let mut request = self.request_of(check.namespace, &pairs, check.cost, own, caller)?;
        let planes = &self.in_force.config.planes;
        planes.add_words(&mut request, |name| check.attributes.get(name), caller)?;
        request.end_known = check.is_released;
        let line = line.filter(|_| !check.wait.is_zero());
        if let Some(line) = line {
            let wait = planes.bounded_wait(check.wait, request.resource, request.class);
            self.let_wait(&mut request, wait, line, 0, now);
        }
        let engine = &self.in_force.engine;
        if check.is_peek {
            let (peek, was_asked) = match engine.peek(&request, now) {
                Ok(Progress::Done(peek)) => (peek, false),
                begun => (Box::pin(self.complete(begun)).await?, true),
            };
            if let Some(refusal) = &peek.refusal {
                write_refusal(&refusal.view(), now, replies);
            } else {
                // A level that is only shown is not told.
                let told = peek.feature.as_ref().filter(|feature| !feature.is_shadow);
                let feature = told.map(|feature| ShownFeature::new(&*feature.name, &*feature.level));
                let charged = AdmittedCharges {
                    limits: &peek.limits,
                    access: peek.access.map(access_units),
                    feature: feature.as_ref(),
                    is_shadow_feature: false,
                };
                self.write_admission(check.namespace, None, charged, now, replies);
            }
            return Ok((was_asked, None));
        }
        let mut was_asked = false;
        let decision = match engine.admit(&request, now) {
            Ok(Step::Decided(decision)) => decision,
            Ok(Step::Ask(pending)) => {
                was_asked = true;
                let _held = line.map(ConnectionActivity::hold);
                Box::pin(self.daemon.driver.drive(pending).decided()).await.decision
            }
            Err(error) => return Err(self.request_fault(&error, now)),
        };
        let has_waited = line.is_some() && was_asked;
        // Waits count from the answer.
        let asked_at = now;
        let now = if has_waited { self.daemon.clock.now() } else { now };
        let Some(permit) = self.permit_over_resp(&request, decision, (asked_at, now), replies) else {
            return Ok((was_asked, None));
        };
        let limits = self.note_admitted(&Asked::borrowed(&request, Protocol::Resp), &permit, asked_at);
        let access = engine.access_charge(&permit, 0, now).map(access_units);
        let feature = self.shown_feature(&permit);
        let charged =
            AdmittedCharges { limits: &limits, access, feature: feature.as_ref(), is_shadow_feature: false };
        let mut untold = None;
        let mut of_charge = None;
        if permit.must_be_settled() {
            let expires = self.permit_expiry(&permit, now);
            let kept = engine.keep(permit, expires, now).map_err(|error| engine_fault(&error, now))?;
            untold = Some(match kept {
                Progress::Done(id) => self.daemon.driver.untold(id),
                asking @ Progress::Ask(_) => {
                    was_asked = true;
                    let kept = Box::pin(self.daemon.driver.keep(asking)).await;
                    kept.map_err(|error| engine_fault(&error, self.daemon.clock.now()))?
                }
            });
        } else if has_waited {
            of_charge = Some(self.charge_delivery(permit, drop));
        }
        let id = untold.as_ref().map(UntoldPermit::id);
        self.write_admission(check.namespace, id, charged, now, replies);
        let owner = engine.owner(check.namespace);
        let of_permit = untold.map(|untold| permit_delivery(untold).watching_resets(owner));
        let of_permit = of_permit.map(|one| if has_waited { one.after_wait() } else { one });
        Ok((was_asked, of_permit.or(of_charge)))
    }

    /// The permit of an admitted request. A refusal of a request of `asked_at` is counted and
    /// answered; it is only put together for a line of a log.
    fn permit_over_resp(
        &self,
        request: &Request<'_>,
        decision: Decision<'_>,
        (asked_at, now): (Timestamp, Timestamp),
        replies: &mut Replies<'_>,
    ) -> Option<Permit> {
        match decision {
            Decision::Admit(permit) => Some(permit),
            Decision::Refuse(refused) => {
                let asked = Asked::borrowed(request, Protocol::Resp);
                let (series, view) = (&self.in_force.metrics, refused.view());
                self.note_refusal_view(series, &asked, (&view, || refused.read()), asked_at);
                write_refusal(&view, now, replies);
                None
            }
        }
    }

    fn write_admission(
        &self,
        namespace: &str,
        permit: Option<PermitId>,
        AdmittedCharges { limits, access, feature, .. }: AdmittedCharges<'_>,
        now: Timestamp,
        replies: &mut Replies<'_>,
    ) {
        let enforced = self.enforced(namespace, limits);
        let remaining = tightest(allowances(&enforced, now)).map(|one| one.remaining);
        let pairs = usize::from(access.is_some()) + usize::from(feature.is_some());
        replies.map(2 + usize::from(permit.is_some()) + 2 * pairs);
        replies.bulks_as_written("$8\r\ndecision\r\n$5\r\nadmit\r\n$9\r\nremaining\r\n");
        write_number(remaining, replies);
        if let Some(access) = access {
            replies.bulk("units");
            replies.bulk(access.units.to_string());
            replies.bulk("units_left");
            replies.bulk(access.left.to_string());
        }
        write_feature(feature, replies);
        if let Some(permit) = permit {
            replies.bulk("permit");
            replies.bulk(permit.to_string());
        }
    }

    /// Answers `TG.RELEASE`.
    pub(super) async fn release_over_resp(&self, permit: &[u8], now: Timestamp) -> Result<(), Fault> {
        let permit = text("the permit", permit)?;
        let id: PermitId = permit.parse().map_err(|error| Fault::new(FaultCode::MalformedBody, error))?;
        let settled = self.in_force.engine.settle_kept(id, Outcome::Succeeded, now);
        self.finish(settled.map_err(|error| engine_fault(&error, now))?).await
    }
}

fn write_refusal(refusal: &RefusalView<'_>, now: Timestamp, replies: &mut Replies<'_>) {
    let retry = millis_of(refusal, now);
    let details = details_of(refusal);
    let feature = ShownFeature::from_refusal(refusal.details);
    let ticket = ShownTicket::from_refusal(refusal.details);
    let optional = usize::from(details.is_some())
        + 2 * usize::from(feature.is_some())
        + 3 * usize::from(ticket.is_some());
    replies.map(6 + optional);
    replies.bulks_as_written("$8\r\ndecision\r\n$6\r\nrefuse\r\n$6\r\nreason\r\n");
    replies.bulk(refusal.reason.as_str());
    replies.bulks_as_written("$5\r\nlimit\r\n");
    replies.bulk(refusal.name);
    replies.bulks_as_written("$9\r\nremaining\r\n");
    write_number(Some(refusal.remaining), replies);
    replies.bulks_as_written("$14\r\nretry_after_ms\r\n");
    write_number(retry, replies);
    replies.bulks_as_written("$6\r\ndetail\r\n");
    replies.bulk_written(|out| Sentence { refusal, now }.write_to(out));
    if let Some((name, details)) = details {
        replies.bulk(name);
        replies.bulk(details.to_string());
    }
    write_feature(feature.as_ref(), replies);
    if let Some(ShownTicket { text, not_before, expires }) = &ticket {
        for text in ["ticket", text, "not_before", not_before, "expires", expires] {
            replies.bulk(text);
        }
    }
}

/// The name of a feature and its level, two pairs.
fn write_feature(feature: Option<&ShownFeature<'_>>, replies: &mut Replies<'_>) {
    if let Some(ShownFeature { name, level }) = feature {
        for text in ["feature", name, "feature_level", level] {
            replies.bulk(text);
        }
    }
}

fn write_number(number: Option<u64>, replies: &mut Replies<'_>) {
    match number {
        Some(number) => replies.integer(i64::try_from(number).unwrap_or(i64::MAX)),
        None => replies.null(),
    }
}
