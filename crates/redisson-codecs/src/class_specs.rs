//! The declarations of an application's classes, and their validation.

use std::collections::HashMap;
use std::sync::Arc;

use crate::classes::{self, Base, Body, Classes, Field, Inner, Kind, Own, Primitive, Type, Written};
use crate::kryo5::class::Class;
use crate::kryo5::form::Form;

/// A class as an application declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSpec {
    /// The name, with its package: `com.example.Order`, `com.example.Order$Line`.
    pub name: String,
    /// The content of its objects.
    pub content: Content,
    /// Whether the class is final.
    pub is_final: bool,
    /// Groups of equal type variables: for each type variable of the class and of its superclasses, the variables that
    /// always have the same type: `["com.example.Box#T", "com.example.Base#E"]`.
    pub variables: Vec<Vec<String>>,
    /// The number that Kryo writes instead of the name, if the application has registered the class.
    pub id: Option<u32>,
}

/// The content of a class's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The fields with their types, in the order in which Kryo writes them.
    Fields(Vec<(String, String)>),
    /// The components of a record, which Kryo writes in another way.
    Record(Vec<(String, String)>),
    /// The constants of an enum, in the order of declaration.
    Constants(Vec<String>),
    /// The content of a JDK class that it extends: a list or a map.
    Like(String),
    /// An interface or an abstract class, which has no objects.
    Abstract,
}

/// A problem of a declared class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct ClassError {
    /// The index of the class in the list.
    pub class: usize,
    /// The index of the field in the class.
    pub field: Option<usize>,
    /// The problem.
    pub problem: ClassProblem,
}

/// The kinds of problems of declared classes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassProblem {
    /// Two classes have the same name, or the same id.
    #[error("the class is declared twice")]
    Twice,
    /// The id is one of Kryo's own.
    #[error("ids up to 8 are those of numbers and text")]
    Id,
    /// A text is not a type.
    #[error("`{0}` is not a Java type")]
    NotAType(String),
    /// A class is neither declared nor of the JDK.
    #[error("class `{0}` is not declared")]
    Unknown(String),
    /// A class is not a collection that another one can be like.
    #[error("`{0}` is not a list, set or map of the JDK")]
    NotACollection(String),
}

impl Classes {
    /// Validates the classes, and their references to each other.
    ///
    /// # Errors
    /// Returns all problems.
    pub fn new(specs: Vec<ClassSpec>) -> Result<Classes, Vec<ClassError>> {
        if specs.is_empty() { Ok(Classes::default()) } else { read(specs).map(|inner| Classes(Some(Arc::new(inner)))) }
    }
}

/// Validates the classes, and adds those of the JDK that are written as objects with fields.
fn read(specs: Vec<ClassSpec>) -> Result<Inner, Vec<ClassError>> {
    let of_jdk = classes::of_jdk().into_iter().filter(|own| specs.iter().all(|spec| spec.name != *own.name));
    let of_jdk: Vec<_> = of_jdk.collect();
    let mut errors = Vec::new();
    let mut places = HashMap::new();
    let mut ids = HashMap::new();
    for (class, spec) in specs.iter().enumerate() {
        let mut wrong = |problem| errors.push(ClassError { class, field: None, problem });
        if places.insert(Arc::from(spec.name.as_str()), class).is_some() {
            wrong(ClassProblem::Twice);
        }
        match spec.id {
            Some(..=8) => wrong(ClassProblem::Id),
            Some(id) if ids.insert(id.into(), class).is_some() => wrong(ClassProblem::Twice),
            _ => {}
        }
    }
    places.extend(of_jdk.iter().enumerate().map(|(place, own)| (own.name.clone(), specs.len() + place)));
    // Types are looked up by name only, so the names are collected first.
    let named = Classes(Some(Arc::new(Inner { places, ids, classes: Vec::new() })));
    let read = |(class, spec): (usize, ClassSpec)| own(&named, class, spec, &mut errors);
    let classes: Vec<Own> = specs.into_iter().enumerate().map(read).chain(of_jdk).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let Inner { places, ids, .. } = named.inner();
    Ok(Inner { places: places.clone(), ids: ids.clone(), classes })
}

fn own(named: &Classes, class: usize, spec: ClassSpec, errors: &mut Vec<ClassError>) -> Own {
    let own_variables = spec.variables.iter().filter(|group| {
        let owner = group.first().and_then(|variable| variable.split_once('#'));
        owner.is_some_and(|(owner, _)| owner == spec.name)
    });
    let own_variables = own_variables.count();
    let mut fields = |fields: Vec<(String, String)>| {
        let read = |(place, (name, text)): (usize, (String, String))| match kind(named, &text) {
            Ok(kind) => Some(Field { name, kind }),
            Err(problem) => {
                errors.push(ClassError { class, field: Some(place), problem });
                None
            }
        };
        fields.into_iter().enumerate().filter_map(read).collect()
    };
    let atomic = Form::named(&spec.name).filter(|form| form.is_atomic());
    let body = match (spec.content, atomic) {
        (Content::Fields(_), Some(form)) => Body::Atomic(form, Written::AsFields),
        (Content::Like(name), Some(form)) if name == spec.name => Body::Atomic(form, Written::BySerializer),
        (content, _) => match content {
            Content::Fields(list) => Body::Fields(fields(list)),
            Content::Record(list) => Body::Record(fields(list)),
            Content::Constants(names) => Body::Constants(names),
            Content::Abstract => Body::Abstract,
            Content::Like(name) => match Classes::default().named(&name).filter(Class::is_collection) {
                Some(class) => Body::Like(class),
                None => {
                    errors.push(ClassError { class, field: None, problem: ClassProblem::NotACollection(name) });
                    Body::Abstract
                }
            },
        },
    };
    let variables = spec.variables.into_iter().map(|group| group.into_iter().map(Arc::from).collect());
    Own { name: spec.name.into(), body, is_final: spec.is_final, variables: variables.collect(), own_variables }
}

fn kind(named: &Classes, text: &str) -> Result<Kind, ClassProblem> {
    let primitive = match text.trim() {
        "boolean" => Primitive::Boolean,
        "byte" => Primitive::Byte,
        "char" => Primitive::Char,
        "short" => Primitive::Short,
        "int" => Primitive::Int,
        "long" => Primitive::Long,
        "float" => Primitive::Float,
        "double" => Primitive::Double,
        text => {
            let not_a_type = || ClassProblem::NotAType(text.to_owned());
            let mut parser = Parser { named, rest: text, depth: 0 };
            let found = parser.parse().map_err(|problem| problem.unwrap_or_else(not_a_type))?;
            return if parser.rest.is_empty() { Ok(Kind::Object(Arc::new(found))) } else { Err(not_a_type()) };
        }
    };
    Ok(Kind::Primitive(primitive))
}

/// A parser of types in Java's syntax: `java.util.Map<java.lang.String, com.example.Item[]>`.
struct Parser<'a> {
    named: &'a Classes,
    rest: &'a str,
    depth: usize,
}

/// Maximum nesting of type arguments: Java has no limit, and real classes need a few.
const DEEPEST: usize = 32;

impl<'a> Parser<'a> {
    /// Parses one type. An error without a problem is one of syntax.
    fn parse(&mut self) -> Result<Type, Option<ClassProblem>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(None);
        }
        let name = self.name();
        let arguments = if self.take("<") { Some(self.arguments()?) } else { None };
        let mut dimensions = 0;
        while self.take("[]") {
            dimensions += 1;
        }
        self.depth -= 1;
        if name.is_empty() || dimensions > 255 {
            return Err(None);
        }
        if name.contains('#') {
            let base = Base::Variable { name: name.into(), array: dimensions > 0 };
            return if dimensions > 1 { Err(None) } else { Ok(Type { base, arguments }) };
        }
        let full = match (dimensions, letter(name)) {
            (0, Some(_)) => return Err(None),
            (0, None) => name.to_owned(),
            (_, Some(letter)) => format!("{}{letter}", "[".repeat(dimensions)),
            (_, None) => format!("{}L{name};", "[".repeat(dimensions)),
        };
        let class = self.named.declared(&full);
        let class = class.ok_or_else(|| Some(ClassProblem::Unknown(name.to_owned())))?;
        Ok(Type { base: Base::Class(class), arguments })
    }

    fn arguments(&mut self) -> Result<Vec<Arc<Type>>, Option<ClassProblem>> {
        let mut found = Vec::new();
        loop {
            found.push(Arc::new(self.parse()?));
            match (self.take(","), self.take(">")) {
                (true, _) => {}
                (false, true) => return Ok(found),
                (false, false) => return Err(None),
            }
        }
    }

    fn name(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(['<', '>', ',', '[', ']', ' ']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        self.rest = rest;
        name
    }

    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn letter(primitive: &str) -> Option<char> {
    Some(match primitive {
        "boolean" => 'Z',
        "byte" => 'B',
        "char" => 'C',
        "short" => 'S',
        "int" => 'I',
        "long" => 'J',
        "float" => 'F',
        "double" => 'D',
        _ => return None,
    })
}
