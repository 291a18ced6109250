//! The right that an operation needs.

use delaybridge_model::role::AccessRole;

/// The right that a caller of a daemon needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it shows nothing of the queues.
    Nothing,
    /// A token, unless the listener is called by its address: a page of another name may be pointed here.
    ToLook,
    /// A token, because it reads everything that there is.
    ToSearch,
    /// A viewer of any queue: the answer leaves out the queues that are not the caller's.
    ToSearchOwn,
    /// A reader, because it shows payloads.
    ToSee,
    /// An operator, because it changes something that can be changed back.
    ToOperate,
    /// An administrator, because it removes something for good, or concerns everything.
    ToAdminister,
}

impl Need {
    /// Returns the role that a token must have.
    pub fn role(self) -> Option<AccessRole> {
        match self {
            Need::Nothing => None,
            Need::ToLook | Need::ToSearch | Need::ToSearchOwn => Some(AccessRole::Viewer),
            Need::ToSee => Some(AccessRole::Reader),
            Need::ToOperate => Some(AccessRole::Operator),
            Need::ToAdminister => Some(AccessRole::Admin),
        }
    }
}
