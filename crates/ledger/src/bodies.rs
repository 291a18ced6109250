//! Claims of a source that keeps bodies beside its elements: each call reads the bodies as well.
//!
//! A body is read under the lease of its claim. Where that fails after the claim has run, the answer is that nothing is known
//! of the claim: it is looked for by its name, and its bodies are read then.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::claims::{
    Body, BodyAt, ClaimName, ClaimReply, ClaimRequest, Contents, Element, TakeOverReply, TakeOverRequest,
};
use crate::batch::BATCH_BYTES;
use crate::body::StatusWrite;
use crate::dead::DeadLetter;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::source::BodyStatus;
use delaybridge_link::{Conn, NoAnswer};

impl Ledger {
    /// Claims what is due, with the bodies.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn claim(&self, conn: &Conn, request: &ClaimRequest) -> Result<ClaimReply, StoreError> {
        // As many as there is room for, should bodies be as large as the last.
        let mean = self.body_size.load(Ordering::Relaxed);
        let most = request.most.min(request.bytes.checked_div(mean).unwrap_or(usize::MAX).max(1));
        let request = ClaimRequest { most, ..request.clone() };
        let mut reply = self.claims().claim(conn, &request).await?;
        if let ClaimReply::Claimed(claimed) = &mut reply {
            let unread =
                self.fetch(conn, &mut claimed.elements, request.bytes).await.map_err(|why| lost(conn, &why))?;
            claimed.more |= unread;
            self.note_reserved(conn, &mut claimed.elements).await?;
        }
        Ok(reply)
    }

    /// Takes over what is in a claim with a lease that is over, with the bodies.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn take_over(&self, conn: &Conn, request: &TakeOverRequest) -> Result<TakeOverReply, StoreError> {
        let mut reply = self.claims().take_over(conn, request).await?;
        if let TakeOverReply::Taken { elements, .. } = &mut reply {
            self.fetch(conn, elements, request.bytes).await.map_err(|why| lost(conn, &why))?;
            self.note_reserved(conn, elements).await?;
        }
        Ok(reply)
    }

    /// Writes the status of what was claimed. Without an answer it is not known what the bodies are now.
    async fn note_reserved(&self, conn: &Conn, elements: &mut [Element]) -> Result<(), StoreError> {
        match self.status() {
            Some(status) => status.write(conn, elements, StatusWrite::Reserved).await.map_err(|why| lost(conn, &why)),
            None => Ok(()),
        }
    }

    /// Writes the status of elements that go back, page by page.
    pub(super) async fn note_back(&self, conn: &Conn, mut elements: Vec<Element>) -> Result<(), StoreError> {
        let Some(status) = self.status() else { return Ok(()) };
        while !elements.is_empty() {
            self.fetch(conn, &mut elements, BATCH_BYTES).await?;
            status.write(conn, &mut elements, StatusWrite::Back).await?;
            // At least one was read.
            elements.retain(|element| matches!(element.body.as_deref(), Some(Body::NoRoom(_))));
        }
        Ok(())
    }

    /// Reads the contents of a claim, with the bodies.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn contents(&self, conn: &Conn, name: ClaimName) -> Result<Contents, StoreError> {
        let mut contents = self.claims().contents(conn, name).await?;
        self.fetch(conn, &mut contents.elements, BATCH_BYTES).await?;
        Ok(contents)
    }

    /// Reads the bodies of these elements, as far as there is room for them, and for one in any case: whether one was left because
    /// of its size.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn fetch(&self, conn: &Conn, elements: &mut [Element], room: usize) -> Result<bool, StoreError> {
        if self.source.bodies().is_none() {
            return Ok(false);
        }
        if let Some(mean) = self.claims().fetch(conn, elements, room).await? {
            self.body_size.store(mean, Ordering::Relaxed);
        }
        Ok(elements.iter().any(|element| matches!(element.body.as_deref(), Some(Body::NoRoom(_)))))
    }

    /// Returns whether this process has met a body, or could not be wrong about their place.
    pub fn has_met_bodies(&self) -> bool {
        self.source.bodies().is_some_and(|bodies| bodies.are_certain()) || self.body_size.load(Ordering::Relaxed) > 0
    }

    /// Returns the place that the body of this letter's element had, and the body.
    pub(super) fn body_of(&self, letter: &DeadLetter) -> Option<(BodyAt, Bytes)> {
        let bodies = self.source.bodies()?;
        let at = bodies.body_at(letter.bytes("element")?)?;
        Some((at, bodies.revived(letter.bytes("body")?.clone())))
    }

    fn status(&self) -> Option<&dyn BodyStatus> {
        self.source.bodies()?.status()
    }
}

/// Converts an error in reading bodies: the claim has run, but its bodies are not known.
fn lost(conn: &Conn, why: &StoreError) -> StoreError {
    let reason = NoAnswer::Broken(format!("read bodies: {why}"));
    StoreError::Unknown { address: conn.address().into(), reason }
}
