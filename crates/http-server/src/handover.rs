//! Jobs on their way to a client: whoever drops them before the client has them gives them back.
//!
//! A popped job is reserved. If its client is gone by the time the answer is ready, it would wait for its TTR without a consumer
//! at work on it. So the jobs travel with the answer: from the pop ([`HandedOut`]) into the body ([`ReplyBody`]), from
//! there, when the body is taken for writing, to the connection ([`Unflushed`]), which lets go of them when the last byte
//! was handed to the operating system. Dropped at any place before that, they are released at once. What is lost behind
//! that point comes back by its TTR.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::answers::AnswerRoom;
use super::feed::{BrokenOff, Feed};

/// Gives jobs back that no client has.
type GiveBack = Box<dyn FnOnce() + Send + Sync>;

/// Jobs that are reserved for a client and that it does not have yet. Dropping this gives them back.
pub struct HandedOut(Option<GiveBack>);

impl HandedOut {
    /// Creates a guard for jobs that `give_back` releases, unless they are handed over.
    pub fn new(give_back: impl FnOnce() + Send + Sync + 'static) -> HandedOut {
        HandedOut(Some(Box::new(give_back)))
    }

    /// Records that the client has the jobs.
    pub fn handed_over(mut self) {
        self.0 = None;
    }
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}

impl fmt::Debug for HandedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reserved")
    }
}

/// Jobs of one connection whose bytes are written, but perhaps not all handed to the operating system; and the room of these bytes.
#[derive(Clone, Debug, Default)]
pub struct Unflushed(Arc<Mutex<Vec<Written>>>);

/// The belongings of an answer that is written.
type Written = (Option<HandedOut>, Option<AnswerRoom>);

impl Unflushed {
    /// Hands over the jobs of everything that was written: it is on its way.
    pub fn flushed(&self) {
        let sent = std::mem::take(&mut *self.0.lock());
        sent.into_iter().filter_map(|(jobs, _room)| jobs).for_each(HandedOut::handed_over);
    }
}

/// The body of every answer.
#[derive(Debug)]
pub struct ReplyBody {
    data: Option<Bytes>,
    reserved: Option<HandedOut>,
    room: Option<AnswerRoom>,
    unflushed: Unflushed,
    feed: Option<Feed>,
}

impl ReplyBody {
    /// Creates a body with the jobs in it, on the connection of `unflushed`.
    pub fn new(data: Bytes, reserved: Option<HandedOut>, unflushed: Unflushed) -> ReplyBody {
        let mut body =
            ReplyBody { data: Some(data).filter(|data| !data.is_empty()), reserved, room: None, unflushed, feed: None };
        if body.data.is_none() {
            // A body without bytes is never asked for them: the head of the answer is all of it.
            body.written();
        }
        body
    }

    /// Records that the jobs are in what is written next. Hyper puts it into its buffer before it flushes again, and
    /// one task does both.
    fn written(&mut self) {
        let written = (self.reserved.take(), self.room.take());
        if written.0.is_some() || written.1.is_some() {
            self.unflushed.0.lock().push(written);
        }
    }

    /// Adds the room that its bytes take.
    pub fn in_room(self, room: Option<AnswerRoom>) -> ReplyBody {
        ReplyBody { room, ..self }
    }

    /// Adds a feed that follows the body.
    pub fn followed_by(self, feed: Option<Feed>) -> ReplyBody {
        ReplyBody { feed, ..self }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(data) = self.data.take() else {
            let Some(feed) = &mut self.feed else { return Poll::Ready(None) };
            return feed.poll_next(cx).map(|part| part.map(|part| part.map(Frame::data)));
        };
        self.written();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.feed.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.feed.is_some() {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::task::noop_waker;

    use super::*;

    fn reserved() -> (HandedOut, Arc<AtomicUsize>) {
        let given_back = Arc::new(AtomicUsize::new(0));
        let count = given_back.clone();
        let jobs = HandedOut::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (jobs, given_back)
    }

    fn take(body: &mut ReplyBody) {
        let waker = noop_waker();
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(&waker));
        assert!(matches!(frame, Poll::Ready(Some(Ok(_)))));
    }

    #[test]
    fn jobs_go_back_unless_their_bytes_have_left() {
        let body = |unflushed: &Unflushed| {
            let (jobs, given_back) = reserved();
            (ReplyBody::new(Bytes::from_static(b"job"), Some(jobs), unflushed.clone()), given_back)
        };
        let connection = Unflushed::default();

        let (never_written, given_back) = body(&connection);
        drop(never_written);
        assert_eq!(given_back.load(Ordering::Relaxed), 1);

        let (mut flushed, given_back) = body(&connection);
        take(&mut flushed);
        connection.flushed();
        drop(flushed);
        assert_eq!(given_back.load(Ordering::Relaxed), 0);

        let (mut lost, given_back) = body(&connection);
        take(&mut lost);
        drop((lost, connection));
        assert_eq!(given_back.load(Ordering::Relaxed), 1);

        // Without bytes there is nothing to take: its head says all.
        for (flushed, expected) in [(true, 0), (false, 1)] {
            let connection = Unflushed::default();
            let (jobs, given_back) = reserved();
            let empty = ReplyBody::new(Bytes::new(), Some(jobs), connection.clone());
            assert!(empty.is_end_stream());
            if flushed {
                connection.flushed();
            }
            drop((empty, connection));
            assert_eq!(given_back.load(Ordering::Relaxed), expected);
        }
    }
}
