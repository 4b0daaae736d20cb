//! The chip of a design, as it stands in HTML.

use crate::overload::design::OverloadDesign;

pub(super) fn design_chip(design: OverloadDesign) -> String {
    format!("<span class=\"chip b{}\">{}</span>", design.place, design.name)
}
