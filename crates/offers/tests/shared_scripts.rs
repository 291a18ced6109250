//! The scripts of the producers: one text for all languages.

use delaybridge_offers::Text;

#[test]
fn the_scripts_are_those_of_the_other_producers() {
    for text in Text::ALL {
        let path = format!("{}/../../clients/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), text.name());
        let shared = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"));
        assert_eq!(text.text(), shared, "copy {path} to crates/offers/lua");
    }
}
