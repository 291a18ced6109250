//! The Java classes of payloads.

use redisson_codecs::{ClassProblem, ClassSpec, Classes, Content};

use crate::tables::{ClassKeys, class, top};
use delaybridge_settings::Settings;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;

/// A class, and the places of its parts.
struct ClassDraft {
    spec: ClassSpec,
    spot: Spot,
    fields: Vec<Spot>,
}

/// Returns all classes; none if something is wrong with them, which is reported.
pub(super) fn read(top: &Section<'_>) -> Classes {
    let rule = |name: &str| {
        if name.is_empty() || name.contains(char::is_whitespace) {
            Err("write the full name of the class, as in `com.example.Order`")
        } else {
            Ok(())
        }
    };
    let sections = top.named_by(&top::CLASSES, &rule).into_iter();
    let (specs, places): (Vec<_>, Vec<_>) = sections
        .filter_map(|(name, section)| one(name, &section))
        .map(|ClassDraft { spec, spot, fields }| (spec, (spot, fields)))
        .unzip();
    Classes::new(specs).unwrap_or_else(|errors| {
        for error in errors {
            let (spot, fields) = &places[error.class];
            let spot = error.field.and_then(|field| fields.get(field)).unwrap_or(spot);
            top.cx.report.problem(spot, error.to_string(), help(&error.problem));
        }
        Classes::default()
    })
}

fn help(problem: &ClassProblem) -> &'static str {
    match problem {
        ClassProblem::Unknown(_) => {
            "declare it under `classes`, with `abstract: true` if it is an interface; classes have their package in the name"
        }
        ClassProblem::NotAType(_) => "write a type as in Java: `long`, `java.util.List<com.example.Line>`, `byte[]`",
        ClassProblem::NotACollection(_) => {
            "write `java.util.ArrayList`, `java.util.TreeSet`, `java.util.HashMap` or `java.util.TreeMap`"
        }
        ClassProblem::Id => "write the number that `kryo.register` has given, 9 or more",
        _ => "remove one of the two",
    }
}

fn one(name: String, section: &Section<'_>) -> Option<ClassDraft> {
    let report = &section.cx.report;
    let keys = ClassKeys::of(section);
    let spots = keys.fields.iter().map(|(_, scalar)| scalar.spot.clone()).collect();
    let fields: Vec<_> = keys.fields.into_iter().map(|(name, scalar)| (name, scalar.value)).collect();
    let variables = keys.variables.iter().map(|group| group.split_whitespace().map(str::to_owned).collect()).collect();
    let kinds = [section.has(&class::FIELDS), section.has(&class::CONSTANTS), keys.like.is_some(), keys.is_abstract];
    if kinds.iter().filter(|is| **is).count() != 1 {
        let message = "a class has one of `fields`, `constants`, `like` and `abstract: true`";
        report.problem(&section.spot, message, "`tools/KryoClasses.java` prints the classes as Kryo writes them");
        return None;
    }
    if keys.record && !section.has(&class::FIELDS) {
        report.problem(&section.spot(&class::RECORD), "a record has `fields`", "write them, or remove `record`");
    }
    let content = match keys.like {
        _ if keys.is_abstract => Content::Abstract,
        Some(like) => Content::Like(like),
        None if section.has(&class::CONSTANTS) => Content::Constants(keys.constants),
        None if keys.record => Content::Record(fields),
        None => Content::Fields(fields),
    };
    Some(ClassDraft {
        spec: ClassSpec { name, content, is_final: keys.is_final, variables, id: keys.id },
        spot: section.spot.clone(),
        fields: spots,
    })
}
