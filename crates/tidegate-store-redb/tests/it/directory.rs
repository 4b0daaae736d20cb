//! Directories that are missing, in use, or hold something else.
