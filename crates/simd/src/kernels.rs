//! Defines a macro that compiles functions for every instruction set.

/// Generates a table of function pointers, and compiles the functions for every instruction set.
///
/// ```text
/// kernels! {
///     /// Documents the table.
///     struct Kernels[K: Trait];                        // or Kernels[] for functions without a type parameter
///     |simd|                                           // the name of the instruction set's `Simd` in the bodies
///     fn may_contain(line: &[u8; 64], hash: u64) -> bool { K::may_contain(simd, line, hash) }
/// }
/// ```
/// - `Kernels::new::<K>(isa)`, a private function, returns the table of an instruction set. Calls
///   do not check the instruction set again, because a check in front of each query would cost
///   time.
/// - `kernels.may_contain(line, hash)` is one indirect call. Keep a table by value: behind a
///   reference, each call would load one pointer more.
///
/// A function that a body calls should be `#[inline(always)]`. Otherwise the compiler may build it
/// without the vector instructions. The fields of the table are private to the module that invokes
/// the macro, and the module never writes them.
#[macro_export]
macro_rules! kernels {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $table:ident $generics:tt;
        |$simd:ident|
        $($(#[$fn_meta:meta])* fn $name:ident($($argument:ident: $type:ty),+) $(-> $output:ty)? $body:block)+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        $visibility struct $table {
            $($name: unsafe fn($($type),+) $(-> $output)?,)+
        }

        #[expect(unsafe_code, reason = "the functions behind the pointers need processor features")]
        impl $table {
            $crate::kernels! {
                @new $generics $simd { $(fn $name($($argument: $type),+) $(-> $output)? $body)+ }
            }

            $(
                $(#[$fn_meta])*
                #[inline(always)]
                $visibility fn $name(self, $($argument: $type),+) $(-> $output)? {
                    // SAFETY: the functions are safe apart from the processor features that they
                    // need. Only `new` fills a table. It takes the functions of an instruction set
                    // only if it is given a value that proves that the processor has that
                    // instruction set.
                    unsafe { (self.$name)($($argument),+) }
                }
            )+
        }
    };
    (@new [$($kind:ident: $bound:ident)?] $simd:ident $functions:tt) => {
        fn new$(<$kind: $bound>)?(isa: $crate::Isa) -> Self {
            match isa {
                $crate::Isa::Portable(_) => {
                    $crate::kernels!(@table [] $crate::Portable, [$($kind: $bound)?] $simd $functions)
                }
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx2(_) => {
                    $crate::kernels!(
                        @table
                        [#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]]
                        $crate::Avx2::here(), [$($kind: $bound)?] $simd $functions
                    )
                }
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx512(_) => {
                    $crate::kernels!(
                        @table
                        [#[target_feature(
                            enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,bmi1,bmi2,popcnt"
                        )]]
                        $crate::Avx512::here(), [$($kind: $bound)?] $simd $functions
                    )
                }
                #[cfg(target_arch = "aarch64")]
                $crate::Isa::Neon(_) => {
                    $crate::kernels!(
                        @table
                        [#[target_feature(enable = "neon")]]
                        $crate::Neon::here(), [$($kind: $bound)?] $simd $functions
                    )
                }
            }
        }
    };
    (
        @table $attribute:tt $token:expr, $generics:tt $simd:ident
        { $(fn $name:ident($($argument:ident: $type:ty),+) $(-> $output:ty)? $body:block)+ }
    ) => {{
        $(
            $crate::kernels! {
                @function $attribute $token, $generics $simd
                fn $name($($argument: $type),+) $(-> $output)? $body
            }
        )+
        Self { $($name: $crate::kernels!(@name $generics $name)),+ }
    }};
    (
        @function [$($attribute:tt)*] $token:expr, [$($kind:ident: $bound:ident)?] $simd:ident
        fn $name:ident($($argument:ident: $type:ty),+) $(-> $output:ty)? $body:block
    ) => {
        $($attribute)*
        fn $name$(<$kind: $bound>)?($($argument: $type),+) $(-> $output)? {
            let $simd = $token;
            $body
        }
    };
    (@name [$($kind:ident: $bound:ident)?] $name:ident) => {
        $name$(::<$kind>)?
    };
}
