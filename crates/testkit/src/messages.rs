/// Checks that each error of a table has the given message, that the message says what to do next,
/// and that the table has every variant.
#[macro_export]
macro_rules! check_messages {
    ($error:ident { $($variant:ident),* $(,)? } $table:expr) => {{
        // If an error gets a new variant, this function does not compile until the list names the
        // variant. Then the test fails until the table has a message for the variant.
        fn name(error: &$error) -> &'static str {
            match error { $($error::$variant { .. } => stringify!($variant),)* }
        }
        let mut missing = std::collections::BTreeSet::from([$(stringify!($variant)),*]);
        for (error, message) in $table {
            missing.remove(name(&error));
            assert_eq!(error.to_string(), message);
            let next = message.rsplit_once("; ").map_or("", |(_, next)| next);
            assert!(next.split(' ').count() > 1, "the message must say after its last semicolon what to do next: {message}");
        }
        assert!(missing.is_empty(), "the table has no message for {missing:?}");
    }};
}
