//! `GET /v1/blocks`: the keys that are blocked, as far as this member knows.

use core::cmp::Reverse;

use http::StatusCode;
use tidegate_engine::{BlockCause, BlockReport};
use tidegate_net::reply::{self, Reply};
use tidegate_wire::Fault;
use tidegate_wire::blocks::{BlockBody, BlocksBody};
use tidegate_wire::retry_after::millis_up;

use crate::api::parameters::Accepted;
use crate::api::route::Route;
use crate::context::RequestScope;

/// The parameters of the route.
const BLOCKS: Accepted =
    Accepted { route: "/v1/blocks", once: &["namespace", "limit", "n"], repeated: &["key"] };

/// The route.
pub(crate) const ROUTES: &[Route] = &[Route::get("/v1/blocks", "The blocks in force", |call| {
    Box::pin(async move { call.scope.blocks(call.query()) })
})
.answers("BlocksBody")
.query(BLOCKS)];

/// The default and the largest number of listed blocks.
const BLOCKS_DEFAULT: usize = 100;
const BLOCKS_MAX: usize = 1000;

impl RequestScope<'_> {
    pub(crate) fn blocks(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = BLOCKS.read(query)?;
        let (namespace, limit) = (parameters.get("namespace"), parameters.get("limit"));
        let (key, n) = (parameters.pairs("key")?, parameters.number("n", BLOCKS_DEFAULT, BLOCKS_MAX)?);
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        let is_selected = |block: &BlockReport| {
            let has = |name: &str, value: &str| {
                block.scope.iter().any(|(known, known_value)| known == name && known_value == value)
            };
            namespace.is_none_or(|wanted| wanted == block.namespace)
                && limit.is_none_or(|wanted| wanted == block.limit)
                && key.iter().all(|(name, value)| has(name, value))
        };
        let mut blocks = engine.blocks(now);
        blocks.retain(is_selected);
        if let Some(namespace) = namespace.filter(|_| blocks.is_empty()) {
            self.check_selection(namespace, limit)?;
        }
        blocks.sort_unstable_by(|one, other| {
            let rank = |block: &BlockReport| Reverse(block.until);
            let name =
                |block: &BlockReport| (block.namespace.clone(), block.limit.clone(), block.scope.clone());
            rank(one).cmp(&rank(other)).then_with(|| name(one).cmp(&name(other)))
        });
        let more = blocks.len().saturating_sub(n);
        blocks.truncate(n);
        let body = |block: BlockReport| BlockBody {
            namespace: block.namespace,
            limit: block.limit,
            key: block.scope.into_iter().collect(),
            until: block.until.to_whole_millis().to_string(),
            remaining_ms: millis_up(block.until.saturating_since(now)),
            why: match block.cause {
                BlockCause::Operation => "operation",
                BlockCause::Refusal => "refusal",
            }
            .to_owned(),
            seen_at: block.seen_at.to_whole_millis().to_string(),
        };
        let blocks = blocks.into_iter().map(body).collect();
        Ok(reply::json(StatusCode::OK, &BlocksBody { blocks, more, unlisted: engine.blocks_unlisted() }))
    }
}
