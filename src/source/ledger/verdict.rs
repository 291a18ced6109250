//! What is to become of a claimed entry, in the words of the settle script.

use bytes::Bytes;

use super::entry::Header;
use crate::link::Side;

/// The move that ends a claim, or (progress) that notes what has been reached so far.
#[derive(Debug, Clone)]
pub enum Move {
    /// Every sink has confirmed: removed.
    Confirm,
    /// To the retry zset, due this long after the script runs.
    Retry {
        /// Header of the entry that waits.
        header: Header,
        /// Milliseconds from now by Redis's clock.
        delay_ms: u64,
    },
    /// Back, uncounted, in the order it had: to the retry zset at its due time, even a past one.
    Release {
        /// Header of the entry that waits.
        header: Header,
        /// Milliseconds since the epoch.
        at_ms: i64,
    },
    /// Some sinks have confirmed: noted, the lease runs on.
    Progress {
        /// Header with the sinks confirmed so far.
        header: Header,
    },
    /// To the dead stream.
    Dead {
        /// Fields and values of the dead letter.
        fields: Vec<(&'static str, Bytes)>,
    },
    /// Removed and pushed to the destination list in one script: exactly once.
    Push {
        /// End of the list.
        side: Side,
        /// What is pushed.
        body: Bytes,
    },
}

/// What the settle script answers for one move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Done. The lease may have been over, but no other claim had taken over.
    Done,
    /// It had been done before: the answer to a resend.
    Already,
    /// The entry is not the caller's any more; nothing was changed (R3).
    NotMine,
    /// The destination of a push is not a list; nothing was changed.
    WrongType,
}

impl Answer {
    pub(super) fn of(letter: u8) -> Option<Answer> {
        match letter {
            b'y' => Some(Answer::Done),
            b'a' => Some(Answer::Already),
            b'n' => Some(Answer::NotMine),
            b'w' => Some(Answer::WrongType),
            _ => None,
        }
    }
}

/// Bytes that a move adds to the arguments of a settle script, its member included.
pub(super) fn size(member: &Bytes, step: &Move) -> usize {
    member.len()
        + match step {
            Move::Dead { fields } => fields.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Move::Push { body, .. } => body.len(),
            _ => 128,
        }
}

/// Appends the arguments of one move.
pub(super) fn arguments(member: &Bytes, step: &Move, args: &mut Vec<Bytes>) {
    let word = |text: &'static str| Bytes::from_static(text.as_bytes());
    let number = |n: i64| Bytes::from(n.to_string());
    match step {
        Move::Confirm => args.extend([word("c"), member.clone()]),
        Move::Retry { header, delay_ms } => args.extend([
            word("t"),
            member.clone(),
            header.encode().into(),
            number(i64::try_from(*delay_ms).unwrap_or(i64::MAX)),
        ]),
        Move::Release { header, at_ms } => {
            args.extend([word("r"), member.clone(), header.encode().into(), number(*at_ms)]);
        }
        Move::Progress { header } => args.extend([word("p"), member.clone(), header.encode().into()]),
        Move::Dead { fields } => {
            args.extend([word("d"), member.clone(), number(2 * fields.len() as i64)]);
            for (name, value) in fields {
                args.extend([word(name), value.clone()]);
            }
        }
        Move::Push { side, body } => {
            let side = if *side == Side::Left { "l" } else { "r" };
            args.extend([word("x"), member.clone(), word(side), body.clone()]);
        }
    }
}
