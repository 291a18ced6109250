//! Tests of an element: what a condition is compiled to.

use std::cmp::Ordering;

use super::number;
use crate::template::{Field, FieldValue, Filler};

#[derive(Debug)]
pub(super) enum Test {
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    Compare {
        left: Operand,
        relation: Relation,
        right: Operand,
    },
    In {
        field: Field,
        list: Vec<Literal>,
    },
    StartsWith {
        field: Field,
        prefix: String,
    },
    Exists(Field),
    /// The field is `true`.
    Is(Field),
}

#[derive(Debug)]
pub(super) enum Operand {
    Field(Field),
    Literal(Literal),
}

/// A value that the condition itself has. Numbers keep their digits.
#[derive(Debug)]
pub(super) enum Literal {
    Text(String),
    Number(String),
    Flag(bool),
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Test {
    pub(super) fn holds(&self, element: &Filler<'_>) -> bool {
        match self {
            Test::All(tests) => tests.iter().all(|test| test.holds(element)),
            Test::Any(tests) => tests.iter().any(|test| test.holds(element)),
            Test::Not(test) => !test.holds(element),
            Test::Compare { left, relation, right } => {
                let left = left.value(element);
                let right = right.value(element);
                left.zip(right).is_some_and(|(left, right)| relation.holds(&left, &right))
            }
            Test::In { field, list } => field.value(element).is_some_and(|value| {
                list.iter().any(|literal| compare(&value, &literal.value()) == Some(Ordering::Equal))
            }),
            Test::StartsWith { field, prefix } => {
                matches!(field.value(element), Some(FieldValue::Text(text)) if text.starts_with(prefix.as_str()))
            }
            Test::Exists(field) => field.value(element).is_some(),
            Test::Is(field) => field.value(element) == Some(FieldValue::Flag(true)),
        }
    }

    /// Returns whether any field of the test is one of these.
    pub(super) fn names(&self, wanted: &dyn Fn(&Field) -> bool) -> bool {
        match self {
            Test::All(tests) | Test::Any(tests) => tests.iter().any(|test| test.names(wanted)),
            Test::Not(test) => test.names(wanted),
            Test::Compare { left, right, .. } => {
                [left, right].into_iter().any(|operand| matches!(operand, Operand::Field(field) if wanted(field)))
            }
            Test::In { field, .. } | Test::StartsWith { field, .. } | Test::Exists(field) | Test::Is(field) => {
                wanted(field)
            }
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, element: &Filler<'a>) -> Option<FieldValue<'a>> {
        match self {
            Operand::Field(field) => field.value(element),
            Operand::Literal(literal) => Some(literal.value()),
        }
    }
}

impl Literal {
    fn value(&self) -> FieldValue<'_> {
        match self {
            Literal::Text(text) => FieldValue::Text(text.into()),
            Literal::Number(digits) => FieldValue::Number(digits.into()),
            Literal::Flag(flag) => FieldValue::Flag(*flag),
            Literal::Null => FieldValue::Null,
        }
    }
}

impl Relation {
    /// Returns whether the relation holds for these values. Flags and nulls are in no order.
    fn holds(self, left: &FieldValue<'_>, right: &FieldValue<'_>) -> bool {
        let order = compare(left, right);
        match self {
            Relation::Equal => order == Some(Ordering::Equal),
            Relation::Unequal => order != Some(Ordering::Equal),
            _ if matches!(left, FieldValue::Flag(_) | FieldValue::Null) => false,
            Relation::Less => order == Some(Ordering::Less),
            Relation::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Relation::Greater => order == Some(Ordering::Greater),
            Relation::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// Returns the order of two values of one type; `None` if they are of different types, nested, or unequal flags. Texts
/// are in the order of their code points.
fn compare(left: &FieldValue<'_>, right: &FieldValue<'_>) -> Option<Ordering> {
    match (left, right) {
        (FieldValue::Text(left), FieldValue::Text(right)) => Some(left.cmp(right)),
        (FieldValue::Number(left), FieldValue::Number(right)) => Some(number::compare(left, right)),
        (FieldValue::Flag(left), FieldValue::Flag(right)) => (left == right).then_some(Ordering::Equal),
        (FieldValue::Null, FieldValue::Null) => Some(Ordering::Equal),
        _ => None,
    }
}

impl Relation {
    pub(super) const ALL: [(&str, Relation); 6] = [
        // The longer ones first.
        ("==", Relation::Equal),
        ("!=", Relation::Unequal),
        ("<=", Relation::AtMost),
        (">=", Relation::AtLeast),
        ("<", Relation::Less),
        (">", Relation::Greater),
    ];

    pub(super) fn sign(self) -> &'static str {
        Relation::ALL.iter().find(|(_, relation)| *relation == self).map_or("", |(sign, _)| sign)
    }
}
