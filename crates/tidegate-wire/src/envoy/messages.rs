//! The generated messages, in modules that are named as their packages are.

#![allow(
    clippy::pedantic,
    missing_docs,
    reason = "what is generated is as its generator makes it; the modules are parts of the names of packages"
)]

pub mod envoy {
    pub mod config {
        pub mod core {
            pub mod v3 {
                include!("generated/envoy.config.core.v3.rs");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    include!("generated/envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
    }
    pub mod service {
        pub mod rate_limit_quota {
            pub mod v3 {
                include!("generated/envoy.service.rate_limit_quota.v3.rs");
            }
        }
        pub mod ratelimit {
            pub mod v3 {
                include!("generated/envoy.service.ratelimit.v3.rs");
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            include!("generated/envoy.type.v3.rs");
        }
    }
}
