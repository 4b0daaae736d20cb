//! A daemon that was started without a store takes no quota that a store would have to keep.

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

const RATE: &str = "  api: { limits: [{ name: quick, rate: 3/m, burst: 3 }] }\n";

const QUOTA: &str = "  api: { limits: [{ name: daily, calendar: { limit: 5, unit: day, zone: UTC } }] }\n";

fn shop(unit: &str) -> String {
    format!(
        "domain: shop\ndescriptors: [{{ key: user, rate_limit: {{ unit: {unit}, requests_per_unit: 2 }} }}]\n"
    )
}

fn expected(quota: &str, place: &str) -> String {
    format!(
        "{quota} is a quota, of an hour or longer, and this daemon was started without a store to keep it in; restart the \
         daemon, which then keeps quotas in {place} (`store.path`), or set `store: {{ kind: memory }}`, with which a restart \
         forgets them"
    )
}

#[tokio::test]
async fn a_reload_that_brings_the_first_quota_is_refused_until_it_says_kind_memory() {
    let mut daemon = RestartableDaemon::start(Kept::Unnamed, RATE, START).await;
    assert_eq!(daemon.check("{}").await, (200, Some(2)));
    let error = daemon.reload(QUOTA).await.unwrap();
    assert_eq!(error, expected("limit \"daily\" of namespace \"api\"", "./tidegate-data"));
    assert_eq!(daemon.check("{}").await, (200, Some(1)), "the policy in force stays");
    let data = daemon.folder.path().join("data");
    daemon.kept = Kept::Files;
    let error = daemon.reload(QUOTA).await.unwrap();
    assert_eq!(error, expected("limit \"daily\" of namespace \"api\"", data.to_str().unwrap()));
    assert!(!data.exists());
    daemon.kept = Kept::Memory;
    assert_eq!(daemon.reload(QUOTA).await, None);
    assert_eq!(daemon.check("{}").await, (200, Some(4)));
    daemon.kept = Kept::Unnamed;
    assert_eq!(daemon.reload(RATE).await, None, "a policy without a quota is always taken over");
}

#[tokio::test]
async fn a_reload_whose_envoy_files_bring_the_first_quota_is_refused() {
    let mut daemon = RestartableDaemon::start(Kept::Unnamed, RATE, START).await;
    let file = daemon.folder.path().join("shop.yaml");
    let policy = format!("{RATE}envoy_ratelimit: {{ path: {} }}\n", file.display());
    std::fs::write(&file, shop("day")).unwrap();
    let error = daemon.reload(&policy).await.unwrap();
    assert_eq!(error, expected("limit \"shop.user\" of envoy_ratelimit", "./tidegate-data"));
    std::fs::write(&file, shop("minute")).unwrap();
    assert_eq!(daemon.reload(&format!("{policy}# again\n")).await, None);
    // In another file, which the policy in force does not name: a late look at its files would
    // refuse the quota.
    let yearly = daemon.folder.path().join("yearly.yaml");
    std::fs::write(&yearly, shop("year")).unwrap();
    daemon.kept = Kept::Memory;
    let policy = format!("{RATE}envoy_ratelimit: {{ path: {} }}\n", yearly.display());
    assert_eq!(daemon.reload(&policy).await, None);
}

#[tokio::test]
async fn a_daemon_with_a_store_takes_over_every_quota() {
    let mut daemon = RestartableDaemon::start(Kept::Files, RATE, START).await;
    assert_eq!(daemon.reload(QUOTA).await, None);
    assert_eq!(daemon.check("{}").await, (200, Some(4)));
    daemon.restart().await;
    assert_eq!(daemon.check("{}").await, (200, Some(3)));
}
