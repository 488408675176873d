//! Runs the examples with small inputs. All of their checks must pass.
#![allow(dead_code, reason = "the main functions of the examples are unused")]

#[path = "../../examples/contact_lists.rs"]
mod contact_lists;
#[path = "../../examples/crawler_urls.rs"]
mod crawler_urls;
#[path = "../../examples/ip_traceback.rs"]
mod ip_traceback;
#[path = "../../examples/one_hit_wonders.rs"]
mod one_hit_wonders;
#[path = "../../examples/spam_senders.rs"]
mod spam_senders;
#[path = "../../examples/summary_cache.rs"]
mod summary_cache;
#[path = "../../examples/user_names.rs"]
mod user_names;

macro_rules! ends_as_predicted {
    ($($example:ident),*) => {
        $(#[test]
        fn $example() {
            use filterblock_testkit::example::{Arguments, Checks};
            let mut checks = Checks::default();
            $example::run(&Arguments { file: None, count: 50_000 }, &mut checks).unwrap();
            assert_eq!(checks.failed, 0, "some results printed above are out of bounds");
        })*
    };
}

ends_as_predicted!(contact_lists, crawler_urls, ip_traceback, one_hit_wonders, spam_senders, summary_cache, user_names);
