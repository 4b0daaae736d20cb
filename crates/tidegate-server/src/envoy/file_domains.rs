//! Decisions by a domain of envoyproxy/ratelimit's files: the files name the counters to charge,
//! the engine charges them, and the files make the answer.
//!
//! Envoy sends descriptors. `/v1/check` and `/v1/authorize` have attributes instead: every path of
//! the domain's tree from its root to a rule, all of whose entries are among the attributes, is one
//! descriptor. The counters are the same.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::refusal::ScopeValues;
use tidegate_core::{Algorithm, Cost, Reason, Refusal, RequestOutcome, Retry, Text, Timestamp, Violated};
use tidegate_engine::{LimitReport, OfferedRequest, Request, numbers_in_words};
use tidegate_net::reply::Reply;
use tidegate_policy::envoy::{Answer, Ask, Code, Descriptor, DescriptorDecision, RequestError, Resolved};
use tidegate_wire::answer::PreviewedCounter;
use tidegate_wire::retry_after::{millis_up, seconds};
use tidegate_wire::{Fault, FaultCode};

use crate::admitted_charges::AdmittedCharges;
use crate::api::terms::Terms;
use crate::context::RequestScope;
use crate::envoy::carried_keys::Hashes;
use crate::envoy::envoy_files::CurrentFiles;
use crate::metrics::OVERRIDE;
use crate::protocol::Protocol;
use crate::records::decisions::Asked;

/// The requests of one call, which are offered to the meter until the files have decided.
pub(crate) type OfferedRequests = SmallVec<[OfferedRequest; 1]>;

/// A request over HTTP to a domain of the files.
pub(crate) struct DomainCheck {
    files: Arc<CurrentFiles>,
    domain: String,
    attributes: Vec<(String, String)>,
    cost: Cost,
    is_peek: bool,
    terms: Terms,
}

impl DomainCheck {
    /// The request, as `terms` say to answer it. The error is for the sender: files have no tables
    /// to access.
    pub(crate) fn new(
        files: Arc<CurrentFiles>,
        request: &Request<'_>,
        is_peek: bool,
        terms: Terms,
    ) -> Result<Self, Fault> {
        if let Some(access) = request.access {
            let what = format!("domain \"{}\" has no table \"{}\"", request.namespace, access.table);
            return Err(Fault::new(FaultCode::UnknownTable, what).fix("leave `access` out"));
        }
        let attributes = request.attributes.iter();
        Ok(Self {
            files,
            domain: request.namespace.to_owned(),
            attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            cost: request.cost,
            is_peek,
            terms,
        })
    }
}

impl RequestScope<'_> {
    /// The files, if one of them speaks of this domain and the policy has no namespace of that
    /// name.
    pub(crate) fn files_of(&self, domain: &str) -> Option<Arc<CurrentFiles>> {
        let files = self.in_force.config.envoy_ratelimit.as_ref()?.get();
        (files.has_domain(domain) && self.in_force.engine.limits(domain).is_err()).then_some(files)
    }

    /// The error of a protocol that does not serve domains of files, if this is one.
    pub(crate) fn refuse_domain(&self, domain: &str) -> Result<(), Fault> {
        if self.files_of(domain).is_none() {
            return Ok(());
        }
        let what = format!("\"{domain}\" is a domain of `envoy_ratelimit` files, which are not served here");
        let fix = "ask Envoy's rate limit service, /json, /v1/check or /v1/authorize";
        Err(Fault::new(FaultCode::NotAvailable, what).fix(fix))
    }

    /// Answers a request that has attributes.
    pub(crate) async fn check_domain(&self, check: DomainCheck) -> Result<Reply, Fault> {
        let DomainCheck { files, domain, attributes, cost, is_peek, terms } = check;
        let pairs: Vec<(&str, &str)> =
            attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = Request::new(&domain, pairs.as_slice()).cost(cost);
        let asked = Asked::borrowed(&request, terms.style.protocol());
        let series = || files.series(&self.daemon.metrics.limits);
        let descriptors = descriptors_of(&files, &domain, &pairs, cost, is_peek)?;
        let offered = (!is_peek).then(|| self.in_force.engine.offer(&request, terms.now));
        let offered = offered.into_iter().collect();
        if descriptors.is_empty() {
            self.decided(offered, None);
            if !is_peek {
                self.note_reports(series(), &asked, &[], terms.now);
            }
            return Ok(self.admitted(&domain, None, AdmittedCharges::default(), terms));
        }
        let mut resolved = files.resolve(&domain, &descriptors, 0).map_err(malformed)?;
        let offered = self.ask_files(&mut resolved, offered, terms.now).await?;
        let answer = resolved.answer(terms.now);
        let decisions = resolved.decisions(terms.now);
        let refusal = is_over(&answer).then(|| refusal_of(&domain, &descriptors, &decisions));
        self.decided(offered, refusal.as_ref().map(Refusal::reason));
        if !is_peek {
            self.daemon.metrics.envoy_hits.decided(&answer);
            match &refusal {
                Some(refusal) => self.note_refusal(series(), &asked, refusal, terms.now),
                None => self.note_reports(series(), &asked, &reports_of(&decisions), terms.now),
            }
        }
        if let Some(refusal) = &refusal {
            return Ok(self.refused(refusal, terms));
        }
        let limits = enforced_reports_of(&decisions);
        Ok(self.admitted(
            &domain,
            None,
            AdmittedCharges { limits: &limits, ..AdmittedCharges::default() },
            terms,
        ))
    }

    /// Charges the counters that the files name, until the answer is ready. The outcome of the
    /// requests that were offered depends on the answer, so they are returned; after an error they
    /// are decided.
    pub(crate) async fn ask_files(
        &self,
        resolved: &mut Resolved<'_>,
        offered: OfferedRequests,
        now: Timestamp,
    ) -> Result<OfferedRequests, Fault> {
        let asked = self.ask_counters(resolved, now).await;
        match asked {
            Ok(()) => Ok(offered),
            Err(fault) => {
                let is_away = fault.code == FaultCode::StoreUnavailable;
                let outcome = if is_away { RequestOutcome::Unavailable } else { RequestOutcome::Failed };
                offered.into_iter().for_each(|one| one.decide(outcome, self.daemon.clock.now()));
                Err(fault)
            }
        }
    }

    /// Counts requests that the files have admitted, or refused for this reason.
    pub(crate) fn decided(&self, offered: OfferedRequests, refused_for: Option<Reason>) {
        let outcome = refused_for.map_or(RequestOutcome::Admitted, RequestOutcome::of_refusal);
        offered.into_iter().for_each(|one| one.decide(outcome, self.daemon.clock.now()));
    }

    /// [`RequestScope::ask_files`] without requests that are offered.
    pub(crate) async fn ask_counters(
        &self,
        resolved: &mut Resolved<'_>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let (engine, domain) = (&self.in_force.engine, resolved.domain());
        engine.join(domain);
        while let Some(ask) = resolved.ask() {
            let statuses = match ask {
                Ask::Carry { charging, limits } => {
                    let hashes = Hashes::from_limits(&limits);
                    let limits = hashes.within(limits);
                    let carried = engine.carry_offered(&Request::new(domain, ()), &limits, charging, now);
                    Box::pin(self.complete(carried)).await?.limits
                }
                Ask::GiveBack { limits } => {
                    let hashes = Hashes::from_limits(&limits);
                    for limit in hashes.within(limits) {
                        Box::pin(self.complete(engine.refund_carried(domain, &limit, now))).await?;
                    }
                    SmallVec::default()
                }
                _ => return Err(Fault::new(FaultCode::Internal, "the files ask what nobody can answer")),
            };
            resolved.told(&statuses);
        }
        Ok(())
    }

    /// Forgets what is used by the counters of a request to a domain, of one rule or of all; how
    /// many were in use.
    pub(crate) async fn reset_domain(
        &self,
        files: &CurrentFiles,
        request: &Request<'_>,
        rule: Option<&str>,
        now: Timestamp,
    ) -> Result<usize, Fault> {
        let domain = request.namespace;
        let pairs: Vec<(&str, &str)> = request.attributes.iter().collect();
        let mut descriptors = descriptors_of(files, domain, &pairs, request.cost, true)?;
        if let Some(name) = rule {
            has_rule(files, domain, name)?;
            let decisions = self.peek_domain(files, domain, &descriptors, now).await?;
            let named = |at: usize| {
                decisions.iter().any(|one| one.rule.as_deref() == Some(name) && one.descriptor == at)
            };
            let all = descriptors.into_iter().enumerate();
            descriptors = all.filter(|(at, _)| named(*at)).map(|(_, one)| one).collect();
        }
        if descriptors.is_empty() {
            return Ok(0);
        }
        let (engine, mut in_use) = (&self.in_force.engine, 0);
        let mut resolved = files.resolve(domain, &descriptors, 0).map_err(malformed)?;
        while let Some(Ask::Carry { charging, limits }) = resolved.ask() {
            let hashes = Hashes::from_limits(&limits);
            let limits = hashes.within(limits);
            for limit in &limits {
                in_use += usize::from(self.complete(engine.reset_carried(domain, limit, now)).await?);
            }
            let carried = engine.carry_offered(&Request::new(domain, ()), &limits, charging, now);
            resolved.told(&Box::pin(self.complete(carried)).await?.limits);
        }
        Ok(in_use)
    }

    /// The counters that [`RequestScope::reset_domain`] would forget.
    pub(crate) async fn counters_of_domain(
        &self,
        files: &CurrentFiles,
        request: &Request<'_>,
        rule: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<PreviewedCounter>, Fault> {
        let domain = request.namespace;
        let pairs: Vec<(&str, &str)> = request.attributes.iter().collect();
        let descriptors = descriptors_of(files, domain, &pairs, request.cost, true)?;
        if let Some(name) = rule {
            has_rule(files, domain, name)?;
        }
        let met = self.peek_domain(files, domain, &descriptors, now).await?.into_iter();
        let named = met.filter(|one| one.rule.is_some() && (rule.is_none() || one.rule.as_deref() == rule));
        Ok(named
            .map(|one| PreviewedCounter {
                limit: one.rule.unwrap_or_default(),
                key: descriptors[one.descriptor]
                    .entries
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect(),
                numbers: one.algorithm.as_ref().map_or_else(|| one.limit.to_string(), numbers_in_words),
                counts_over_ms: one.algorithm.as_ref().and_then(Algorithm::counts_over).map(millis_up),
            })
            .collect())
    }

    /// The rules that descriptors meet.
    async fn peek_domain(
        &self,
        files: &CurrentFiles,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        now: Timestamp,
    ) -> Result<Vec<MetRule>, Fault> {
        if descriptors.is_empty() {
            return Ok(Vec::new());
        }
        let mut resolved = files.resolve(domain, descriptors, 0).map_err(malformed)?;
        self.ask_counters(&mut resolved, now).await?;
        let decisions = resolved.decisions(now);
        let met = decisions.iter().map(|one| MetRule {
            rule: one.rule.map(str::to_owned),
            descriptor: one.descriptor,
            limit: one.limit,
            algorithm: one.algorithm.cloned(),
        });
        Ok(met.collect())
    }

    /// Counts the decision about each descriptor of a request of Envoy, and logs it if decisions
    /// are logged.
    pub(crate) fn note_descriptors(
        &self,
        files: &CurrentFiles,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        (answer, decisions): (&Answer<'_>, &[DescriptorDecision<'_>]),
        now: Timestamp,
    ) {
        let (is_over, series) = (is_over(answer), files.series(&self.daemon.metrics.limits));
        for (at, descriptor) in descriptors.iter().enumerate() {
            let decision = decisions.iter().find(|one| one.descriptor == at);
            let hits = decision.map_or(descriptor.hits, |one| Some(one.hits));
            if descriptor.gives_back || hits == Some(0) {
                continue;
            }
            let cost = hits.and_then(Cost::new).unwrap_or_default();
            let request = Request::new(domain, descriptor.entries.as_slice()).cost(cost);
            let asked = Asked::borrowed(&request, Protocol::Rls);
            let of_limit = decision.map_or(&[][..], core::slice::from_ref);
            let refuses = decision.is_some_and(|one| one.refusal.is_some() && !one.is_shadow);
            if is_over && refuses {
                self.note_refusal(series, &asked, &refusal_of(domain, descriptors, of_limit), now);
            } else if !is_over {
                self.note_reports(series, &asked, &reports_of(of_limit), now);
            }
        }
    }
}

/// A rule that a descriptor meets.
struct MetRule {
    rule: Option<String>,
    descriptor: usize,
    limit: u64,
    algorithm: Option<Algorithm>,
}

fn has_rule(files: &CurrentFiles, domain: &str, name: &str) -> Result<(), Fault> {
    if files.rules_of(domain).into_iter().flatten().any(|rule| rule.name == name) {
        return Ok(());
    }
    let what = format!("domain \"{domain}\" has no rule \"{name}\"");
    let fix = "leave `limit` out, or use a name that `tidegate limits` lists";
    Err(Fault::new(FaultCode::UnknownLimit, what).fix(fix))
}

/// The descriptors of a request that has attributes, each of this cost.
pub(crate) fn descriptors_of<'a>(
    files: &CurrentFiles,
    domain: &str,
    attributes: &[(&'a str, &'a str)],
    cost: Cost,
    is_peek: bool,
) -> Result<Vec<Descriptor<'a>>, Fault> {
    let mut descriptors = files.descriptors(domain, attributes).map_err(malformed)?;
    for descriptor in &mut descriptors {
        (descriptor.hits, descriptor.peeks) = (Some(cost.units()), is_peek);
    }
    Ok(descriptors)
}

/// The fault of a request that the files cannot take.
pub(crate) fn malformed(error: RequestError) -> Fault {
    Fault::new(FaultCode::MalformedBody, error).field("attributes")
}

/// Whether the request is refused.
pub(crate) fn is_over(answer: &Answer<'_>) -> bool {
    answer.overall_code == Code::OverLimit
}

/// The refusal by the descriptors that are over their limits, the one that binds longest first.
fn refusal_of(domain: &str, descriptors: &[Descriptor<'_>], decisions: &[DescriptorDecision<'_>]) -> Refusal {
    let over = decisions.iter().filter(|one| !one.is_shadow).filter_map(|one| Some((one, one.refusal?)));
    let mut over: SmallVec<[_; 2]> = over.collect();
    over.sort_by(|(_, (_, one)), (_, (_, other))| Retry::longest_first(*one, *other));
    let mut violated = over.iter().map(|(one, (reason, retry))| Violated {
        name: Text::from(name_of(one)),
        reason: *reason,
        retry: *retry,
        limit: one.limit,
        remaining: one.remaining,
        window: one.window,
    });
    let first = violated.next().expect("a request is refused by some descriptor");
    let scope = over.first().map(|(one, _)| &descriptors[one.descriptor].entries);
    let scope: ScopeValues =
        scope.into_iter().flatten().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect();
    let mut refusal = Refusal::new(domain, scope, first);
    refusal.violated.extend(violated);
    refusal
}

/// Why these decisions refuse a request and when it has room again, by the one that binds longest.
pub(crate) fn binding(decisions: &[DescriptorDecision<'_>]) -> Option<(Reason, Retry)> {
    let refusing = decisions.iter().filter(|one| !one.is_shadow).filter_map(|one| one.refusal);
    refusing.min_by(|(_, one), (_, other)| Retry::longest_first(*one, *other))
}

/// The seconds after which a request that these decisions refuse has room again; `None` if it never
/// has.
pub(crate) fn retry_after(decisions: &[DescriptorDecision<'_>], now: Timestamp) -> Option<u64> {
    binding(decisions).and_then(|(_, retry)| seconds(retry, now))
}

/// The reports of all limits.
fn reports_of(decisions: &[DescriptorDecision<'_>]) -> Vec<LimitReport> {
    decisions.iter().map(report_of).collect()
}

/// The reports of the limits that callers should heed: those of rules in shadow mode are left out.
fn enforced_reports_of(decisions: &[DescriptorDecision<'_>]) -> Vec<LimitReport> {
    decisions.iter().filter(|one| !one.is_shadow).map(report_of).collect()
}

fn report_of(one: &DescriptorDecision<'_>) -> LimitReport {
    let mut report = LimitReport::new(name_of(one), one.limit, one.remaining, one.reset_at);
    report.window = one.window;
    // Also for a rule in quota mode, which refuses only together with all others.
    report.shadow_refused = one.refusal.is_some();
    report
}

fn name_of(one: &DescriptorDecision<'_>) -> String {
    one.rule.unwrap_or(OVERRIDE).to_owned()
}
