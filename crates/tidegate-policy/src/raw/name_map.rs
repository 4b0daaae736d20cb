//! Values by name.

use core::fmt;
use core::marker::PhantomData;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The entries of a map in the order of their names.
///
/// A list and not a `BTreeMap`, which is compiled anew for each kind of value: a sixth of the code
/// of this crate was that.
#[derive(Clone, Debug)]
pub(crate) struct NameMap<T>(Vec<(String, T)>);

impl<T> NameMap<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    pub(crate) fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.into_iter().map(|(name, _)| name)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.into_iter().map(|(_, value)| value)
    }

    /// Where `name` is, or where it belongs. Names mostly come in order.
    fn place(&self, name: &str) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if **last < *name => Err(self.0.len()),
            _ => self.0.binary_search_by(|(other, _)| (**other).cmp(name)),
        }
    }

    /// The last value of a name counts.
    fn insert(&mut self, name: String, value: T) {
        match self.place(&name) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (name, value)),
        }
    }
}

impl<T> Default for NameMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> IntoIterator for NameMap<T> {
    type Item = (String, T);
    type IntoIter = std::vec::IntoIter<(String, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// An entry as it is lent.
type Lent<'a, T> = fn(&'a (String, T)) -> (&'a String, &'a T);

impl<'a, T> IntoIterator for &'a NameMap<T> {
    type Item = (&'a String, &'a T);
    type IntoIter = core::iter::Map<core::slice::Iter<'a, (String, T)>, Lent<'a, T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

/// An entry whose value may be changed.
type LentMut<'a, T> = fn(&'a mut (String, T)) -> (&'a String, &'a mut T);

impl<'a, T> IntoIterator for &'a mut NameMap<T> {
    type Item = (&'a String, &'a mut T);
    type IntoIter = core::iter::Map<core::slice::IterMut<'a, (String, T)>, LentMut<'a, T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut().map(|(name, value)| (&*name, value))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NameMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NameMapVisitor(PhantomData))
    }
}

struct NameMapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NameMapVisitor<T> {
    type Value = NameMap<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<NameMap<T>, A::Error> {
        let mut map = NameMap::default();
        while let Some(name) = entries.next_key()? {
            map.insert(name, entries.next_value()?);
        }
        Ok(map)
    }
}

#[cfg(test)]
impl<T: JsonSchema> JsonSchema for NameMap<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        std::collections::BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        std::collections::BTreeMap::<String, T>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::NameMap;

    #[test]
    fn entries_are_in_the_order_of_their_names_and_found_by_them() {
        let map: NameMap<u8> = serde_json::from_str(r#"{"b": 2, "c": 3, "a": 1, "b": 4}"#).unwrap();
        let all: Vec<_> = map.keys().map(String::as_str).zip(map.values().copied()).collect();
        assert_eq!(all, [("a", 1), ("b", 4), ("c", 3)]);
        assert_eq!((map.get("c"), map.get("d"), map.len()), (Some(&3), None, 3));
        assert!(map.contains_key("a") && !map.is_empty());
    }
}
