//! The statements of the specification (`docs/spec/redisson-delayed-queue.md`) that a producer can be held to.

/// The number of a statement.
pub type Number = &'static str;

/// A statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Statement {
    /// The number.
    #[serde(rename = "statement")]
    pub number: Number,
    /// The statement, in short.
    pub says: &'static str,
}

macro_rules! statements {
    ($($name:ident $number:literal $says:literal)*) => {
        $(#[doc = $says] pub const $name: Number = $number;)*
        /// All, in the order of the specification.
        pub const STATEMENTS: &[Statement] = &[$(Statement { number: $name, says: $says }),*];
    };
}

statements! {
    K1 "K1" "the keys are made from NAME, and a NAME with `{` is taken as it is"
    K2 "K2" "no prefix of a client library is before the keys"
    K5 "K5" "no other key is written, the ready list neither, and none of Redisson's expires"
    K7 "K7" "a key of a wrong type is an error, and nothing is written"
    E1 "E1" "an element is its head, its ID, its length in little-endian order, and the payload"
    E2 "E2" "the layout is the current one, unless the producer is configured for the old one"
    E4 "E4" "ID is random, and no two offers have the same"
    E7 "E7" "with an empty payload, ID does not end with 43 01 or c3 01"
    E8 "E8" "a payload is not changed, one of 10 MB neither"
    E10 "E10" "codec `string`: the payload is the UTF-8 of the text"
    E11 "E11" "codec `json`: the payload is one JSON value"
    O1 "O1" "an element is in Z and in L, once, with the same bytes, from one script or MULTI"
    O2 "O2" "an offer is added to the end of L"
    O3 "O3" "the score is a whole number from 0 to 2^53"
    O4 "O4" "a negative delay is refused, a due time in the past is not"
    O5 "O5" "an offer whose element is in Z changes nothing, and answers with what is there"
    O6 "O6" "an offer with the caller's ID changes nothing within ten minutes, also after the element has left"
    O8 "O8" "equal payloads are different elements"
    O9 "O9" "a batch is one script or MULTI, in its order in L"
    O12 "O12" "an offer that is repeated with its ID after a failover is there once, at the new master"
    A1 "A1" "a new head is announced, by an offer or by a move"
    A2 "A2" "an announcement is the score in decimal digits"
    A3 "A3" "what is behind the head is not announced"
    C1 "C1" "a cancelled element leaves Z and L, in one script or MULTI"
    C2 "C2" "an entry of L whose element is not in Z stays"
    C3 "C3" "a cancel answers how many were scheduled, and 0 for what was not"
    C4 "C4" "a cancel by handle removes that element and no other"
    C5 "C5" "a cancel by value removes elements with this payload, at least one, and nothing else"
    M1 "M1" "a move changes the score and nothing else"
    M2 "M2" "what is not scheduled is not moved, and not brought back"
    M3 "M3" "the score of a move is as that of an offer, and a new head is announced"
    M4 "M4" "the handle that a move returns is the one to use from then on"
    T1 "T1" "clock `producer`: a delay is added to the producer's clock"
    T2 "T2" "clock `redis`: a delay is added to Redis's clock"
    T3 "T3" "a due time is written unchanged, whatever the clock"
    X3 "X3" "what is not an element is left alone"
}
