//! The Java classes of payloads.

use redisson_codecs::{ClassProblem, ClassSpec, Classes, Content};

use crate::tables::{class, top};
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;

/// A class, and the places of its parts.
struct ClassDraft {
    spec: ClassSpec,
    spot: Spot,
    fields: Vec<Spot>,
}

/// All classes; none if something is wrong with them, which is reported.
pub(super) fn read(top: &Section<'_>) -> Classes {
    let rule = |name: &str| match name.is_empty() || name.contains(char::is_whitespace) {
        true => Err("write the full name of the class, as in `com.example.Order`"),
        false => Ok(()),
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
    let written = section.scalars(&class::FIELDS);
    let spots = written.iter().map(|(_, scalar)| scalar.spot.clone()).collect();
    let fields: Vec<_> = written.into_iter().map(|(name, scalar)| (name, scalar.value)).collect();
    let texts = |key| section.texts(key).into_iter().map(|scalar| scalar.value);
    let constants: Vec<_> =
        if section.has(&class::CONSTANTS) { texts(&class::CONSTANTS).collect() } else { Vec::new() };
    let like = section.text(&class::LIKE);
    let is = |key| section.flag(key).unwrap_or_default();
    let (is_record, is_abstract, is_final) = (is(&class::RECORD), is(&class::ABSTRACT), is(&class::FINAL));
    let variables = if section.has(&class::VARIABLES) { texts(&class::VARIABLES).collect() } else { Vec::new() };
    let variables = variables.iter().map(|group: &String| group.split_whitespace().map(str::to_owned).collect());
    let variables = variables.collect();
    let id = section.has(&class::ID).then(|| section.count(&class::ID)).flatten();
    let kinds = [section.has(&class::FIELDS), section.has(&class::CONSTANTS), like.is_some(), is_abstract];
    if kinds.iter().filter(|is| **is).count() != 1 {
        let message = "a class has one of `fields`, `constants`, `like` and `abstract: true`";
        report.problem(&section.spot, message, "`tools/KryoClasses.java` prints the classes as Kryo writes them");
        return None;
    }
    if is_record && !section.has(&class::FIELDS) {
        report.problem(&section.spot(&class::RECORD), "a record has `fields`", "write them, or remove `record`");
    }
    let content = match like {
        _ if is_abstract => Content::Abstract,
        Some(like) => Content::Like(like.value),
        None if section.has(&class::CONSTANTS) => Content::Constants(constants),
        None if is_record => Content::Record(fields),
        None => Content::Fields(fields),
    };
    let id = id.and_then(|id| u32::try_from(id).ok());
    Some(ClassDraft {
        spec: ClassSpec { name, content, is_final, variables, id },
        spot: section.spot.clone(),
        fields: spots,
    })
}
