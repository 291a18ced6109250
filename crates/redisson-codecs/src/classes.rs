//! The classes of an application, whose layout Kryo 5 does not write.
//!
//! Kryo's `FieldSerializer` writes the fields of an object in the order of their names, without the names, and without
//! the class of a field whose class is final. So a reader must know the fields with their types, and which classes are
//! final.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::kryo5::class::Class;
use crate::kryo5::form::{self, Form};

/// The declared classes, validated. Cheap to clone, and to have none.
#[derive(Clone, Debug, Default)]
pub struct Classes(pub(crate) Option<Arc<Inner>>);

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) places: HashMap<Arc<str>, usize>,
    pub(crate) ids: HashMap<u64, usize>,
    pub(crate) classes: Vec<Own>,
}

/// A declared class.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) name: Arc<str>,
    pub(crate) body: Body,
    pub(crate) is_final: bool,
    /// Type variables in groups that share one type.
    pub(crate) variables: Vec<Vec<Arc<str>>>,
    /// Number of groups that start with a variable of the class itself.
    pub(crate) own_variables: usize,
}

#[derive(Debug)]
pub(crate) enum Body {
    Fields(Vec<Field>),
    Record(Vec<Field>),
    Constants(Vec<String>),
    Like(Class),
    /// `AtomicInteger` and its like in one of its two forms.
    Atomic(Form, Written),
    Abstract,
}

/// The two forms of `AtomicInteger` and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Redisson up to 3.45.1: an object with a field.
    AsFields,
    /// Redisson from 3.46.0 on: by a serializer.
    BySerializer,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Primitive(Primitive),
    Object(Arc<Type>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    Boolean,
    Byte,
    Char,
    Short,
    Int,
    Long,
    Float,
    Double,
}

/// A type with its arguments: `List<String>`.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) base: Base,
    pub(crate) arguments: Option<Vec<Arc<Type>>>,
}

#[derive(Debug)]
pub(crate) enum Base {
    Class(Class),
    /// A type variable, or an array of it.
    Variable {
        name: Arc<str>,
        array: bool,
    },
}

impl Classes {
    pub(crate) fn inner(&self) -> &Inner {
        static OF_JDK: LazyLock<Inner> = LazyLock::new(|| {
            let classes = Vec::from(of_jdk());
            let places = classes.iter().enumerate().map(|(place, own)| (own.name.clone(), place)).collect();
            Inner { places, ids: HashMap::new(), classes }
        });
        self.0.as_deref().unwrap_or_else(|| &OF_JDK)
    }

    /// Returns whether the application has declared no class.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the index of a class. An enum constant with a body is a class of its own, named after the enum with a
    /// number.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        let find = |name: &str| self.inner().places.get(name).copied();
        find(name).or_else(|| {
            let (outer, number) = name.rsplit_once('$')?;
            let place = find(outer).filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))?;
            matches!(self.inner().classes.get(place)?.body, Body::Constants(_)).then_some(place)
        })
    }

    pub(crate) fn registered(&self, id: u64) -> Option<Class> {
        self.inner().ids.get(&id).map(|&place| Class::Own(place))
    }

    pub(crate) fn at(&self, place: usize) -> &Own {
        &self.inner().classes[place]
    }

    pub(crate) fn named(&self, name: &str) -> Option<Class> {
        if let Some(elements) = name.strip_prefix('[') {
            return self.array_of(elements);
        }
        if let Some(place) = self.place(name) {
            return Some(Class::Own(place));
        }
        Form::named(name).map(Class::Known).or_else(|| form::constants(name).map(Class::Constants))
    }

    /// Returns the class as the type of a field or of array elements, where any class name of the JDK is allowed.
    pub(crate) fn declared(&self, name: &str) -> Option<Class> {
        self.named(name).or_else(|| is_of_jdk(name).then_some(Class::Open))
    }

    fn array_of(&self, elements: &str) -> Option<Class> {
        let primitive = match elements {
            "B" => Form::Bytes,
            "Z" => Form::Booleans,
            "C" => Form::Characters,
            "S" => Form::Shorts,
            "I" => Form::Integers,
            "J" => Form::Longs,
            "F" => Form::Floats,
            "D" => Form::Doubles,
            _ => {
                let inner = match elements.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
                    Some(name) => self.declared(name)?,
                    None => self.array_of(elements.strip_prefix('[')?)?,
                };
                return Some(Class::Array(Arc::new(inner)));
            }
        };
        Some(Class::Known(primitive))
    }

    /// Returns whether a class is final, so that a field or an element of this type is written without its class.
    pub(crate) fn is_final(&self, class: &Class) -> bool {
        match class {
            Class::Known(form) => form.is_final(),
            Class::Constants(_) => true,
            Class::Own(place) => self.at(*place).is_final,
            Class::Array(elements) => self.is_final(elements),
            Class::Open => false,
        }
    }

    /// Returns whether the objects of a class can be referred to; boxed numbers and enums never are.
    pub(crate) fn is_referable(&self, class: &Class) -> bool {
        match class {
            Class::Known(form) => !form.is_boxed(),
            Class::Constants(_) => false,
            Class::Own(place) => match &self.at(*place).body {
                Body::Constants(_) => false,
                Body::Like(class) => self.is_referable(class),
                Body::Fields(_) | Body::Record(_) | Body::Atomic(..) | Body::Abstract => true,
            },
            Class::Array(_) | Class::Open => true,
        }
    }

    /// Returns whether a null of a class has a form of its own.
    pub(crate) fn has_null(&self, class: &Class) -> bool {
        match class {
            Class::Known(form) => form.has_null(),
            Class::Constants(_) | Class::Array(_) => true,
            Class::Own(place) => match &self.at(*place).body {
                Body::Constants(_) => true,
                Body::Like(class) => self.has_null(class),
                Body::Fields(_) | Body::Record(_) | Body::Atomic(..) | Body::Abstract => false,
            },
            Class::Open => false,
        }
    }
}

/// Returns the classes of the JDK that are written as objects with fields: the entries of maps, `SimpleEntry`,
/// `SimpleImmutableEntry`, and what `Map.entry` returns.
pub(crate) fn of_jdk() -> [Own; 3] {
    let entry = |name: &str, is_final| {
        let variable = |letter| Arc::<str>::from(format!("{name}#{letter}"));
        let field = |field: &str, letter| {
            let base = Base::Variable { name: variable(letter), array: false };
            Field { name: field.to_owned(), kind: Kind::Object(Arc::new(Type { base, arguments: None })) }
        };
        Own {
            name: name.into(),
            body: Body::Fields(vec![field("key", 'K'), field("value", 'V')]),
            is_final,
            variables: vec![vec![variable('K')], vec![variable('V')]],
            own_variables: 2,
        }
    };
    [
        entry("java.util.AbstractMap$SimpleEntry", false),
        entry("java.util.AbstractMap$SimpleImmutableEntry", false),
        entry("java.util.KeyValueHolder", true),
    ]
}

/// Returns whether a class is of the JDK. Unknown ones count as open types: unknown final classes are rare, and can be
/// declared.
fn is_of_jdk(name: &str) -> bool {
    name.starts_with("java.") || name.starts_with("javax.")
}
