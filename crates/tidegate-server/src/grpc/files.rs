//! Requests of Envoy that the files of envoyproxy/ratelimit decide, and the answers as messages.

use tidegate_core::{Cost, Timestamp};
use tidegate_engine::Request;
use tidegate_policy::envoy::{self, Descriptor, DescriptorLimit};
use tidegate_policy::policy::claims::CLASS;
use tidegate_wire::envoy::{
    DescriptorStatus, HeaderValue, RateLimit, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    metadata,
};
use tidegate_wire::operation::WAIT_MS;
use tidegate_wire::{Fault, FaultCode};

use crate::api::operations::unwaiting_domain;
use crate::context::RequestScope;
use crate::envoy::envoy_files::CurrentFiles;
use crate::envoy::file_domains::{OfferedRequests, binding, is_over, retry_after};

/// The header that says when to come back, which the peer does not send.
const RETRY_AFTER: &str = "Retry-After";

impl RequestScope<'_> {
    /// Answers by `files`, whether or not they know the domain.
    pub(super) async fn by_files(
        &self,
        files: &CurrentFiles,
        request: &RateLimitRequest,
        now: Timestamp,
    ) -> Result<RateLimitResponse, Fault> {
        let domain = request.domain.as_str();
        let mut entries = request.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        if entries.any(|entry| entry.key == WAIT_MS) {
            return Err(unwaiting_domain(domain, WAIT_MS));
        }
        let malformed = |error| Fault::new(FaultCode::MalformedBody, error);
        let descriptors = request.descriptors.iter().map(descriptor);
        let descriptors = descriptors.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
        let mut resolved = files.resolve(domain, &descriptors, request.hits_addend).map_err(malformed)?;
        let offered = (0..descriptors.len()).filter(|at| !descriptors[*at].gives_back);
        let offered = offered.filter_map(|at| {
            let cost = Cost::new(resolved.hits_of(at))?;
            let request = Request::new(domain, descriptors[at].entries.as_slice()).cost(cost);
            Some(self.in_force.engine.offer(&request, now))
        });
        let offered: OfferedRequests = offered.collect();
        let offered = self.ask_files(&mut resolved, offered, now).await?;
        let mut answer = resolved.answer(now);
        let decisions = resolved.decisions(now);
        let refused = binding(&decisions).filter(|_| is_over(&answer));
        self.decided(offered, refused.map(|(reason, _)| reason));
        self.daemon.metrics.envoy_hits.decided(&answer);
        self.note_descriptors(files, domain, &descriptors, (&answer, &decisions), now);
        if files.settings().headers.retry_after
            && is_over(&answer)
            && let Some(seconds) = retry_after(&decisions, now)
        {
            answer.headers.push((RETRY_AFTER, seconds.to_string()));
        }
        Ok(message(answer))
    }
}

fn descriptor(one: &RateLimitDescriptor) -> Result<Descriptor<'_>, envoy::RequestError> {
    // The class is about the request, as a member of `/v1/check` would be, and no entry of a rule.
    let entries = one.entries.iter().filter(|entry| entry.key != CLASS);
    let entries = entries.map(|entry| (entry.key.as_str(), entry.value.as_str()));
    let mut descriptor = Descriptor::new(entries);
    let limit = one.limit.map(|limit| DescriptorLimit::new(limit.requests_per_unit, limit.unit));
    descriptor.limit = limit.transpose()?;
    descriptor.hits = one.hits_addend;
    descriptor.gives_back = one.is_negative_hits;
    Ok(descriptor)
}

fn message(answer: envoy::Answer<'_>) -> RateLimitResponse {
    let header =
        |(name, value): (&str, String)| HeaderValue { key: name.to_owned(), value, ..HeaderValue::default() };
    RateLimitResponse {
        overall_code: answer.overall_code as i32,
        statuses: answer.statuses.into_iter().map(status).collect(),
        response_headers_to_add: answer.headers.into_iter().map(header).collect(),
        dynamic_metadata: answer.dynamic_metadata.as_ref().and_then(metadata::structure),
        ..RateLimitResponse::default()
    }
}

fn status(status: envoy::Status) -> DescriptorStatus {
    DescriptorStatus {
        code: status.code as i32,
        current_limit: status.current_limit.map(|limit| RateLimit {
            name: limit.name,
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, envoy::Unit::number),
        }),
        limit_remaining: status.limit_remaining,
        duration_until_reset: status.duration_until_reset.map(metadata::seconds),
        quota: None,
    }
}
