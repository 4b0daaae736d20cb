//! The designs that are compared, as a world takes them.

use tidegate_sim::overload::{AdmissionControl, ControlledServices, OverloadDesign, OverloadScenarioError};

use super::rival::Rival;
use super::rival_control::RivalControl;

/// All designs, in order: the rivals, and the engine of the product.
pub const DESIGNS: [OverloadDesign; 11] = [
    Rival::NoControl.design(),
    Rival::BoundedFifo.design(),
    Rival::FifoExpiry.design(),
    Rival::CoDel.design(),
    Rival::CoDelLifo.design(),
    Rival::Dagor.design(),
    Rival::StrictPriority.design(),
    Rival::Aimd.design(),
    Rival::Gradient2.design(),
    Rival::PiRejector.design(),
    OverloadDesign::TIDEGATE,
];

/// Makes the control of services.
type ControlMaker = fn(&ControlledServices) -> Result<Box<dyn AdmissionControl>, OverloadScenarioError>;

impl Rival {
    /// The design, as a world takes it.
    pub const fn design(self) -> OverloadDesign {
        OverloadDesign {
            name: self.name(),
            description: self.description(),
            place: self as usize,
            is_on_timelines: matches!(self, Self::CoDel | Self::Dagor | Self::StrictPriority),
            control: self.control(),
        }
    }

    const fn control(self) -> ControlMaker {
        match self {
            Self::NoControl => |services| Ok(Box::new(RivalControl::new(Self::NoControl, services))),
            Self::BoundedFifo => |services| Ok(Box::new(RivalControl::new(Self::BoundedFifo, services))),
            Self::FifoExpiry => |services| Ok(Box::new(RivalControl::new(Self::FifoExpiry, services))),
            Self::CoDel => |services| Ok(Box::new(RivalControl::new(Self::CoDel, services))),
            Self::CoDelLifo => |services| Ok(Box::new(RivalControl::new(Self::CoDelLifo, services))),
            Self::Dagor => |services| Ok(Box::new(RivalControl::new(Self::Dagor, services))),
            Self::StrictPriority => {
                |services| Ok(Box::new(RivalControl::new(Self::StrictPriority, services)))
            }
            Self::Aimd => |services| Ok(Box::new(RivalControl::new(Self::Aimd, services))),
            Self::Gradient2 => |services| Ok(Box::new(RivalControl::new(Self::Gradient2, services))),
            Self::PiRejector => |services| Ok(Box::new(RivalControl::new(Self::PiRejector, services))),
        }
    }
}
