//! The destination of an element in a sink, as everything outside of its kind sees it.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

use delaybridge_core::message::{Class, Failure};

/// An address in a sink of one kind, its templates filled: a topic, a list, a path. `Display` names it for a person.
pub trait SinkAddress: DynEq + fmt::Debug + fmt::Display + Send + Sync {
    /// Returns the failure-domain key: elements whose addresses in a sink have equal keys fail together. Its parts are what the
    /// templates of [`Target::choosing`](crate::Target::choosing) have filled, in their order.
    fn lane(&self) -> [&str; 2];

    /// Returns the filled destination keys, by their names under `to:`; those of properties are behind a dot. Secrets
    /// are left out.
    fn fields(&self) -> Vec<(String, Bytes)>;

    /// Returns whether its messages have headers in which other programs look for a trace.
    fn carries_traces(&self) -> bool {
        false
    }

    /// Returns the key whose messages the destination keeps in their order.
    fn record_key(&self) -> Option<&[u8]> {
        None
    }
}

/// Equality of values whose types are not known; implemented by every type that has it.
pub trait DynEq: Any {
    /// Returns whether the other value is of the same type, and equal.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: PartialEq + 'static> DynEq for T {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

/// The destination of an element. Clones share it: one that is the same for all elements is made once.
#[derive(Clone)]
pub struct Destination(Arc<dyn SinkAddress>);

impl Destination {
    /// Returns the address in a sink of the named kind.
    ///
    /// # Errors
    /// The element was routed to a sink of another kind. The configuration check refuses that, so it is a defect, and
    /// nothing can be delivered until it is fixed.
    pub fn of_kind<T: SinkAddress>(&self, kind: &str) -> Result<&T, Failure> {
        let address: &dyn Any = &*self.0;
        address.downcast_ref().ok_or_else(|| {
            let text = format!("deliver to sink of kind {kind}: it has no {self}");
            Failure::new(Class::TargetPermanent, "wrong_destination", text)
        })
    }
}

impl<T: SinkAddress> From<T> for Destination {
    fn from(address: T) -> Destination {
        Destination(Arc::new(address))
    }
}

impl Deref for Destination {
    type Target = dyn SinkAddress;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Destination {
    fn eq(&self, other: &Destination) -> bool {
        let other: &dyn Any = &*other.0;
        self.0.equals(other)
    }
}

impl Eq for Destination {}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
