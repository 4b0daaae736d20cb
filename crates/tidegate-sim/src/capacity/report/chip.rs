//! The chip of a design, as it stands in HTML.

use crate::capacity::design::Design;

pub(super) fn chip(design: Design) -> String {
    let letters = design.letters();
    format!("<span class=\"chip b{letters}\" title=\"{}\">{letters}</span>", design.title())
}
