//! What the engine is asked.

use tidegate::{Attributes, Class, Cost, Timestamp};
use tidegate_capacity::Access;

/// A request as a door describes it. Everything but the namespace and the attributes has a default.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The namespace whose limits apply.
    pub namespace: &'a str,
    /// What limits match on and count by.
    pub attributes: Attributes<'a>,
    /// Who pays; decides the cohort when the system sheds. Default: nobody, one cohort for all such requests.
    pub tenant: Option<&'a str>,
    /// What it weighs. Default 1.
    pub cost: Cost,
    /// How much it matters. Default [`Class::SheddablePlus`].
    pub class: Class,
    /// The feature it uses. Features are not decided on yet; the name is carried.
    pub feature: Option<&'a str>,
    /// The read or write of a partitioned table it makes, if any.
    pub access: Option<Access<'a>>,
    /// Which try this is, from 0. Carried for demand, which counts first tries only.
    pub attempt: u32,
    /// When the caller stops waiting. A request past its deadline is refused before anything is charged.
    pub deadline: Option<Timestamp>,
    /// A ticket from an earlier deferral. Carried; tickets are not issued yet.
    pub ticket: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// A request of cost 1 and the default class.
    pub fn new(namespace: &'a str, attributes: impl Into<Attributes<'a>>) -> Self {
        Self {
            namespace,
            attributes: attributes.into(),
            tenant: None,
            cost: Cost::ONE,
            class: Class::default(),
            feature: None,
            access: None,
            attempt: 0,
            deadline: None,
            ticket: None,
        }
    }

    /// The same request with this cost.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// The same request in this class.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The same request for this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: &'a str) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The same request with an access to a partitioned table.
    #[must_use]
    pub fn access(mut self, access: Access<'a>) -> Self {
        self.access = Some(access);
        self
    }

    /// The same request with this deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Timestamp) -> Self {
        self.deadline = Some(deadline);
        self
    }
}
