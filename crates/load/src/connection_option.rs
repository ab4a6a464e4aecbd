//! The options that a `Connection` field lists [RFC9110 §7.6.1].

/// Whether `value` names `option`.
pub(crate) fn names(value: &[u8], option: &str) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|listed| listed.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_a_list_and_not_in_other_words() {
        for value in ["close", "Close", "x, close", "x ,\tCLOSE , y"] {
            assert!(names(value.as_bytes(), "close"), "{value}");
        }
        for value in ["", "x", "closed", "x-close", "clo se"] {
            assert!(!names(value.as_bytes(), "close"), "{value}");
        }
    }
}
