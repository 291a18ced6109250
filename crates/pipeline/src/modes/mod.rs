//! Queues that do not deliver: [`shadow`] only shows what would be delivered, [`rescue`] moves overdue elements to the
//! ready list.

pub mod rescue;
pub mod shadow;
