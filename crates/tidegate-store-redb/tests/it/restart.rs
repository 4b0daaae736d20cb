//! What a restart finds.
