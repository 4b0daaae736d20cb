//! `Debug` for types of which only some fields can or should be shown.

/// Implements `Debug` for a type with the named fields, and `..` for all others: `Driver { link }`.
/// A field of a field is named by its path: `Driver { link: 0.link }`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    (@value $this:ident $field:ident) => { &$this.$field };
    (@value $this:ident $field:ident $($path:tt).+) => { &$this.$($path).+ };
    (
        $type:ident $(<$($parameter:ident $(: $bound:path)?),+>)?
        { $($field:ident $(: $($path:tt).+)?),* }
    ) => {
        impl $(<$($parameter $(: $bound)?),+>)? ::core::fmt::Debug for $type $(<$($parameter),+>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), $crate::debug_fields!(@value self $field $($($path).+)?)))*
                    .finish_non_exhaustive()
            }
        }
    };
}
