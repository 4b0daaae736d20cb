//! The designs that are compared, as a world takes them.

use tidegate_sim::overload::OverloadDesign;

use super::rival::Rival;
use super::rival_control::RivalControl;

/// All designs, in order: the rivals, and the engine of the product.
pub const DESIGNS: [OverloadDesign; Rival::ALL.len() + 1] = {
    let mut designs = [OverloadDesign::TIDEGATE; Rival::ALL.len() + 1];
    let mut place = 0;
    while place < Rival::ALL.len() {
        designs[place] = Rival::ALL[place].design();
        place += 1;
    }
    designs
};

impl Rival {
    /// The design, as a world takes it.
    pub const fn design(self) -> OverloadDesign {
        let (name, description) = self.words();
        OverloadDesign {
            name,
            description,
            place: self as usize,
            is_on_timelines: matches!(self, Self::CoDel | Self::Dagor | Self::StrictPriority),
            control: |design, services| Ok(Box::new(RivalControl::new(Self::ALL[design.place], services))),
        }
    }
}
