//! Keys for tokens that change while the proxy runs.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate_policy::policy::proxy::{Jwt, Proxy, Trust};
use tidegate_test_support::TemporaryFolder;

use super::upstream::well;
use super::{route, to, world};

const OLD: &str = "an old secret of thirty-two bytes";
const NEW: &str = "a new secret of thirty-two bytes!";

/// A token that never ends in our time, signed with a shared secret.
fn token(secret: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", part(r#"{"alg":"HS256"}"#), part(r#"{"sub":"ada","exp":99999999999}"#));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes()));
    format!("authorization: Bearer {message}.{signature}\r\n")
}

async fn verifying(path: &Path, trust: fn(String) -> Trust) -> Proxy {
    let (server, _) = well().await;
    let mut route = route("parallel");
    let user = ("user".to_owned(), "jwt.sub".parse().unwrap());
    route.attributes = vec![user];
    let mut config = to(&[server], route);
    config.jwt = Some(Jwt::new(trust(path.to_str().unwrap().to_owned())));
    config
}

#[tokio::test(start_paused = true)]
async fn keys_that_change_are_taken_up_without_a_reload_and_broken_ones_leave_those_in_use() {
    for (is_set, trust) in [(false, Trust::SecretFile as fn(String) -> Trust), (true, Trust::JwksFile)] {
        let written = |secret: &str| {
            let key = URL_SAFE_NO_PAD.encode(secret);
            let set = format!(r#"{{"keys":[{{"kty":"oct","alg":"HS256","k":"{key}"}}]}}"#);
            if is_set { set } else { secret.to_owned() }
        };
        let folder = TemporaryFolder::new();
        let path = folder.path().join("keys");
        std::fs::write(&path, written(OLD)).unwrap();
        let world = world(verifying(&path, trust).await).await;
        let statuses = async || {
            // One after the other: the route lends a user one permit at a time.
            let old = world.through("/", &token(OLD)).await.status;
            world.settled().await;
            let new = world.through("/", &token(NEW)).await.status;
            world.settled().await;
            (old, new)
        };
        assert_eq!(statuses().await, (200, 401));
        std::fs::write(&path, written(NEW)).unwrap();
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(statuses().await, (401, 200));
        std::fs::write(&path, "short").unwrap();
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(statuses().await, (401, 200));
        std::fs::remove_file(&path).unwrap();
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(statuses().await, (401, 200));
    }
}
