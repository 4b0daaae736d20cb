//! The name of a type and the names of its fields, in the order of its declaration.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A struct as serde knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StructFields {
    /// Its name, which its definition in the schema has too.
    pub(super) name: &'static str,
    /// The names of its fields in the order in which it declares them.
    pub(super) fields: &'static [&'static str],
}

/// The fields of a struct; none if the type is no struct.
pub(super) fn fields_of<T: for<'de> Deserialize<'de>>() -> StructFields {
    let mut fields = StructFields::default();
    // The deserializer always fails: all that is wanted is what it was asked for.
    let _ = T::deserialize(Fields(&mut fields));
    fields
}

struct Fields<'a>(&'a mut StructFields);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only structs have fields"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = StructFields { name, fields };
        Err(de::Error::custom("the fields are known now"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
