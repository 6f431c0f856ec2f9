// SPDX-License-Identifier: GPL-2.0

//! Enums of what ends a connection, with a list of their variants.

/// Defines an enum, and for tests `ALL`, the list of its variants, which can lack none.
///
/// A variant may carry a text that is not known before. In the list that is empty.
#[macro_export]
macro_rules! causes {
    (
        $(#[$of_enum:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident $(($text:ty))?,)*
        }
    ) => {
        $(#[$of_enum])*
        $visibility enum $name {
            $($(#[$of_variant])* $variant $(($text))?,)*
        }

        #[cfg(test)]
        impl $name {
            /// All variants.
            $visibility const ALL: &'static [Self] = &[
                $(Self::$variant $(({ const EMPTY: $text = c""; EMPTY }))?,)*
            ];
        }
    };
}
