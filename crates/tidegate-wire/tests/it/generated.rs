//! The messages of `proto/`, generated and compared with what is committed.
//!
//! Building Tidegate generates nothing, so it needs no compiler of protocol buffers. This test is
//! the generator: after a change of `proto/`, run it with `TIDEGATE_BLESS=1`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protox::prost::Message;

const FILES: [&str; 2] =
    ["envoy/service/ratelimit/v3/rls.proto", "envoy/service/rate_limit_quota/v3/rlqs.proto"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every generated file by its path, with its content.
fn generated() -> BTreeMap<PathBuf, Vec<u8>> {
    let set = protox::compile(FILES, [here().join("proto")]).unwrap();
    let mut files = BTreeMap::new();
    // Callers of reflection at run time get the messages without the comments.
    let mut described = set.clone();
    for file in &mut described.file {
        file.source_code_info = None;
    }
    let within = here().join("src/envoy/generated");
    files.insert(within.join("descriptors.bin"), described.encode_to_vec());
    let mut config = prost_build::Config::new();
    // The body of an answer is made and written once for each call.
    config.bytes([".envoy.service.ratelimit.v3.RateLimitResponse.raw_body"]);
    // A bucket is one however its attributes are ordered, and has the same bytes each time.
    config.btree_map([".envoy.service.rate_limit_quota.v3.BucketId.bucket"]);
    let module = |file: &str| prost_build::Module::from_protobuf_package_name(file);
    let requests = set.file.into_iter().map(|file| (module(file.package()), file));
    for (module, code) in config.generate(requests.collect()).unwrap() {
        // The messages of protocol buffers themselves come with the library.
        if module.parts().next() == Some("envoy") {
            let name = module.to_file_name_or("none").replace("r#", "");
            files.insert(within.join(name), code.into_bytes());
        }
    }
    files
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test, and not the crate, reads the committed files")]
fn the_generated_messages_are_those_of_the_sources() {
    let is_blessed = std::env::var("TIDEGATE_BLESS").is_ok_and(|value| value == "1");
    for (path, content) in generated() {
        if is_blessed {
            std::fs::write(&path, &content).unwrap();
        }
        let committed = std::fs::read(&path).unwrap_or_default();
        assert!(
            committed == content,
            "{} is not what proto/ says; run this test with TIDEGATE_BLESS=1",
            path.display()
        );
    }
}
