//! What is the same for many queues, as one: the first few are named, the others counted. Pure.

use std::collections::HashMap;
use std::hash::Hash;

/// Things with the same key that are shown one by one, and names that are shown of more.
const FEW: usize = 3;

/// Puts those together that are more than a few with the same key, at the place of the first. The others are alone.
pub(super) fn alike<T: Copy, K: Eq + Hash>(things: &[T], key: impl Fn(T) -> K) -> Vec<Vec<T>> {
    let mut counts = HashMap::new();
    for thing in things {
        *counts.entry(key(*thing)).or_insert(0) += 1;
    }
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut places = HashMap::new();
    for thing in things {
        let key = key(*thing);
        match places.get(&key).copied().and_then(|place: usize| groups.get_mut(place)) {
            Some(group) => group.push(*thing),
            None => {
                if counts.get(&key).is_some_and(|count| *count > FEW) {
                    places.insert(key, groups.len());
                }
                groups.push(vec![*thing]);
            }
        }
    }
    groups
}

/// `a, b, c and 97 more`.
pub(super) fn first_few(names: &[&str]) -> String {
    let shown = names.iter().take(FEW).copied().collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{shown} and {} more", names.len() - FEW) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_three_are_together_at_the_place_of_the_first() {
        let things = ["a1", "b1", "a2", "c1", "b2", "a3", "a4", "b3"];
        let groups = alike(&things, |thing| &thing[..1]);
        let shown: Vec<_> = groups.iter().map(|group| group.join(" ")).collect();
        assert_eq!(shown, ["a1 a2 a3 a4", "b1", "c1", "b2", "b3"]);
    }

    #[test]
    fn names_are_counted_beyond_the_third() {
        for (names, expected) in
            [(&["a"][..], "a"), (&["a", "b", "c"], "a, b, c"), (&["a", "b", "c", "d", "e"], "a, b, c and 2 more")]
        {
            assert_eq!(first_few(names), expected);
        }
    }
}
