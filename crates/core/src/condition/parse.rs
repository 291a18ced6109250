//! From the text of a condition to its test. The parser descends as deep as the condition may be.
//!
//! ```text
//! any   = all { "or" all }
//! all   = not { "and" not }
//! not   = "not" not | "(" any ")" | test
//! test  = FIELD | operand RELATION operand | FIELD "in" "[" literal { "," literal } "]"
//!       | "exists" "(" FIELD ")" | "starts_with" "(" FIELD "," TEXT ")"
//! ```

use super::expression::{Literal, Operand, Relation, Test};
use super::token::{ConditionError, DEEPEST, LONGEST, Lexeme, Lexemes, Mistake};
use crate::template::{Field, TemplateError};

pub(super) fn parse(text: &str) -> Result<Test, ConditionError> {
    let mut tokens = Lexemes::of(text);
    if text.len() > LONGEST {
        return Err(tokens.error(0, Mistake::Long));
    }
    let (at, next) = tokens.next()?;
    let mut parser = ConditionParser { tokens, next, at, depth: 0 };
    let test = parser.any()?;
    match parser.next {
        Lexeme::End => Ok(test),
        _ => Err(parser.expected("`and`, `or` or the end")),
    }
}

struct ConditionParser<'a> {
    tokens: Lexemes<'a>,
    next: Lexeme,
    /// Position of the next token, in bytes.
    at: usize,
    depth: usize,
}

impl ConditionParser<'_> {
    fn any(&mut self) -> Result<Test, ConditionError> {
        let mut tests = vec![self.all()?];
        while self.takes_word("or")? {
            tests.push(self.all()?);
        }
        Ok(one(tests, Test::Any))
    }

    fn all(&mut self) -> Result<Test, ConditionError> {
        let mut tests = vec![self.not()?];
        while self.takes_word("and")? {
            tests.push(self.not()?);
        }
        Ok(one(tests, Test::All))
    }

    fn not(&mut self) -> Result<Test, ConditionError> {
        let at = self.at;
        let is_not = self.takes_word("not")?;
        if !is_not && self.next != Lexeme::Open {
            return self.test();
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.tokens.error(at, Mistake::Deep));
        }
        let test = if is_not {
            Test::Not(Box::new(self.not()?))
        } else {
            self.step()?;
            let test = self.any()?;
            self.takes(&Lexeme::Close, "`)`")?;
            test
        };
        self.depth -= 1;
        Ok(test)
    }

    fn test(&mut self) -> Result<Test, ConditionError> {
        if self.takes_word("exists")? {
            self.takes(&Lexeme::Open, "`(`")?;
            let field = self.field()?;
            self.takes(&Lexeme::Close, "`)`")?;
            return Ok(Test::Exists(field));
        }
        if self.takes_word("starts_with")? {
            self.takes(&Lexeme::Open, "`(`")?;
            let field = self.text_field()?;
            self.takes(&Lexeme::Comma, "`,`")?;
            let Lexeme::Text(prefix) = self.next.clone() else { return Err(self.expected("a text in quotes")) };
            self.step()?;
            self.takes(&Lexeme::Close, "`)`")?;
            return Ok(Test::StartsWith { field, prefix });
        }
        let left_at = self.at;
        let left = self.operand()?;
        if let Lexeme::Relation(relation) = self.next {
            let at = self.at;
            self.step()?;
            let right = self.operand()?;
            return match mistake(&left, relation, &right) {
                Some(mistake) => Err(self.tokens.error(at, Mistake::Constant(mistake))),
                None => Ok(Test::Compare { left, relation, right }),
            };
        }
        let Operand::Field(field) = left else { return Err(self.expected("a relation, as `==`,")) };
        if self.takes_word("in")? {
            return Ok(Test::In { field, list: self.list()? });
        }
        match field {
            Field::Payload(_) => Ok(Test::Is(field)),
            _ => {
                let mistake = Mistake::Constant("the field is never `true`: compare it with something");
                Err(self.tokens.error(left_at, mistake))
            }
        }
    }

    fn list(&mut self) -> Result<Vec<Literal>, ConditionError> {
        self.takes(&Lexeme::OpenList, "`[`")?;
        let mut list = Vec::new();
        loop {
            match self.operand()? {
                Operand::Literal(literal) => list.push(literal),
                Operand::Field(_) => return Err(self.expected("a list of texts and numbers, without fields,")),
            }
            if self.next != Lexeme::Comma {
                break;
            }
            self.step()?;
        }
        self.takes(&Lexeme::CloseList, "`,` or `]`")?;
        Ok(list)
    }

    fn operand(&mut self) -> Result<Operand, ConditionError> {
        let literal = match &self.next {
            Lexeme::Text(text) => Literal::Text(text.clone()),
            Lexeme::Number(digits) => Literal::Number(digits.clone()),
            Lexeme::Word(word) => match word.as_str() {
                "true" => Literal::Flag(true),
                "false" => Literal::Flag(false),
                "null" => Literal::Null,
                _ => return Ok(Operand::Field(self.field()?)),
            },
            _ => return Err(self.expected("a field, a text or a number")),
        };
        self.step()?;
        Ok(Operand::Literal(literal))
    }

    fn field(&mut self) -> Result<Field, ConditionError> {
        let Lexeme::Word(name) = &self.next else { return Err(self.expected("a field")) };
        let field = match Field::named(name) {
            Ok(Field::Attempt) => Err(Mistake::Attempt),
            Ok(field) => Ok(field),
            Err(TemplateError::EmptyStep { .. }) => {
                Err(Mistake::Expected { expected: "a name behind each point", found: self.next.shown() })
            }
            Err(_) => Err(Mistake::UnknownField(name.clone())),
        };
        let field = field.map_err(|mistake| self.tokens.error(self.at, mistake))?;
        self.step()?;
        Ok(field)
    }

    fn text_field(&mut self) -> Result<Field, ConditionError> {
        let at = self.at;
        match self.field()? {
            Field::DueMs => Err(self.tokens.error(at, Mistake::Constant("`due_ms` is a number, and no text"))),
            field => Ok(field),
        }
    }

    fn step(&mut self) -> Result<(), ConditionError> {
        (self.at, self.next) = self.tokens.next()?;
        Ok(())
    }

    fn takes(&mut self, token: &Lexeme, expected: &'static str) -> Result<(), ConditionError> {
        if self.next == *token { self.step() } else { Err(self.expected(expected)) }
    }

    /// Returns whether this word was next.
    fn takes_word(&mut self, word: &str) -> Result<bool, ConditionError> {
        let is_next = matches!(&self.next, Lexeme::Word(next) if next == word);
        if is_next {
            self.step()?;
        }
        Ok(is_next)
    }

    fn expected(&self, expected: &'static str) -> ConditionError {
        self.tokens.error(self.at, Mistake::Expected { expected, found: self.next.shown() })
    }
}

fn one(mut tests: Vec<Test>, several: fn(Vec<Test>) -> Test) -> Test {
    match tests.pop() {
        Some(test) if tests.is_empty() => test,
        last => {
            tests.extend(last);
            several(tests)
        }
    }
}

/// Returns the types that an operand can have; `None` of a field of the payload, which can have any.
fn kind(operand: &Operand) -> Option<&'static str> {
    Some(match operand {
        Operand::Field(Field::Payload(_)) => return None,
        Operand::Field(Field::DueMs | Field::Attempt) | Operand::Literal(Literal::Number(_)) => "number",
        Operand::Field(Field::Id | Field::Queue | Field::Topic | Field::Input(_))
        | Operand::Literal(Literal::Text(_)) => "text",
        Operand::Literal(Literal::Flag(_)) => "flag",
        Operand::Literal(Literal::Null) => "null",
    })
}

/// Returns why a comparison has the same result for all elements.
fn mistake(left: &Operand, relation: Relation, right: &Operand) -> Option<&'static str> {
    if let (Operand::Literal(_), Operand::Literal(_)) = (left, right) {
        return Some("the comparison names no field");
    }
    if let (Some(left), Some(right)) = (kind(left), kind(right))
        && left != right
    {
        return Some("the two are of different types for every element; texts have quotes, numbers have none");
    }
    let orders = !matches!(relation, Relation::Equal | Relation::Unequal);
    let is_orderless = |operand| matches!(kind(operand), Some("flag" | "null"));
    (orders && (is_orderless(left) || is_orderless(right)))
        .then_some("`true`, `false` and `null` have no order: use `==`")
}
