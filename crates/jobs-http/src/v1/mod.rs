//! Our own API. Each handler reads what the client said, makes one call on the queue, and answers.

pub mod add;
pub mod change;
pub mod dead;
pub mod errors;
pub mod jobs;
pub mod limits;
pub mod pop;
pub mod recurring;
pub mod settle;
pub mod settle_many;
pub mod shapes;
pub mod topics;
