//! The types that type arguments stand for, by the rules of Kryo's `DefaultGenerics`.
//!
//! The rules are followed exactly, because they decide whether a class is in the payload.

use std::sync::Arc;

use super::class::Class;
use crate::classes::{Base, Own, Type};

#[derive(Default)]
pub(super) struct Generics {
    /// The types of the surrounding fields, lists and maps, each with Kryo's depth at which it was pushed.
    types: Vec<(Arc<Type>, usize)>,
    /// The type variables of the surrounding objects, with their classes.
    variables: Vec<(Arc<str>, Class)>,
}

impl Generics {
    pub(super) fn push(&mut self, of: Arc<Type>, depth: usize) {
        self.types.push((of, depth));
    }

    /// Removes the last type, unless it belongs to an outer object.
    pub(super) fn pop(&mut self, depth: usize) {
        self.types.pop_if(|(_, pushed)| *pushed >= depth);
    }

    /// Returns the arguments of the surrounding type, if it belongs to the object at this depth.
    pub(super) fn next(&self, depth: usize) -> Option<Vec<Arc<Type>>> {
        let (of, pushed) = self.types.last()?;
        let arguments = of.arguments.as_ref()?;
        (*pushed + 1 == depth).then(|| arguments.clone())
    }

    pub(super) fn resolve(&self, of: &Type) -> Option<Class> {
        match &of.base {
            Base::Class(class) => Some(class.clone()),
            Base::Variable { name, .. } => {
                let found = self.variables.iter().rev().find(|(variable, _)| variable == name);
                found.map(|(_, class)| class.clone())
            }
        }
    }

    /// Binds the type variables of a class; returns the number of bindings before.
    pub(super) fn enter(&mut self, class: &Own, arguments: &[Arc<Type>]) -> usize {
        let before = self.variables.len();
        let groups = &class.variables;
        if class.own_variables > arguments.len() || arguments.len() > groups.len() {
            return before;
        }
        let flat: Vec<&Arc<str>> = groups.iter().flatten().collect();
        let mut at = 0;
        for (argument, group) in arguments.iter().zip(groups) {
            // As in Kryo: an unknown argument does not advance the position among the variables.
            let Some(class) = self.resolve(argument) else { continue };
            for variable in flat.iter().skip(at).take(group.len()) {
                self.variables.push(((*variable).clone(), class.clone()));
            }
            at += group.len();
        }
        before
    }

    pub(super) fn leave(&mut self, before: usize) {
        self.variables.truncate(before);
    }
}
