use std::fmt::Write as _;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, NarratableReportHandler};
use tamarisk_settings::ConfigError;

/// That `mistake`, and each that is related to it, is shown at one place in `text`, with what was expected
/// there.
///
/// # Panics
/// If it is not.
pub(super) fn is_shown(mistake: &ConfigError, text: &str) {
    let related = mistake.related().into_iter().flatten();
    for mistake in std::iter::once(mistake as &dyn Diagnostic).chain(related) {
        let mut labels = 0;
        for label in mistake.labels().into_iter().flatten() {
            let place = label.offset()..label.offset() + label.len();
            assert!(text.get(place.clone()).is_some(), "{place:?} of {}: {mistake}", text.len());
            assert!(label.label().is_some_and(|expected| !expected.is_empty()));
            labels += 1;
        }
        assert_eq!(labels, 1, "{mistake}");
    }

    let mut shown = String::new();
    let graphical = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    graphical.render_report(&mut shown, mistake).expect("a string takes all text");
    NarratableReportHandler::new()
        .render_report(&mut shown, mistake)
        .expect("a string takes all text");
    write!(shown, "{mistake}").expect("a string takes all text");
    assert!(!shown.contains("Failed to read contents"), "{shown}");
}
