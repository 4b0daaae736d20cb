//! An error with its causes, for people.

use core::error::Error;

/// An error with all its causes on one line, the outermost first: `a: b: c`.
///
/// The errors of these crates tell a cause in [`Error::source`] alone, so that programs that print
/// the whole chain tell it once. This function is for those that print one line.
///
/// ```
/// # use std::fmt;
/// # use tidegate_core::error_chain;
/// # #[derive(Debug)]
/// # struct Unreadable(std::io::Error);
/// # impl fmt::Display for Unreadable {
/// #     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("the file cannot be read") }
/// # }
/// # impl std::error::Error for Unreadable {
/// #     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> { Some(&self.0) }
/// # }
/// let error = Unreadable(std::io::Error::other("disk on fire"));
/// assert_eq!(error_chain(&error), "the file cannot be read: disk on fire");
/// ```
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some libraries tell a cause in the message too.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
