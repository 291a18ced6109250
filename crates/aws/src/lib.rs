//! Logins to AWS: who asks, and the proof of it.
//!
//! `chain` finds the credentials where AWS's own tools find them, `login` keeps and renews them, `sts` asks for those of a role.
//! `sign` makes the proof of a request, or a URL that is its own proof (Signature Version 4); `token` such a URL as MSK takes it.
//! `hosts` has the names of the services, `xml` reads the answers of those that speak no JSON.

mod chain;
mod credentials;
mod hosts;
mod login;
mod questions;
mod sign;
pub mod spec;
mod sts;
mod token;
mod variables;
mod xml;

pub use credentials::{AwsCredentials, unix_now};
pub use hosts::{host_of, is_region, region_of_host};
pub use login::AwsLogin;
pub use sign::AwsSigner;
pub use spec::AwsLoginSpec;
pub use token::msk_token;
pub use variables::AwsVariables;
pub use xml::XmlElement;
