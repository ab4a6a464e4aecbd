//! Hosts, against a search through all names.

use super::first_line;
use crate::site::host::{HostName, Hosts};

/// Of the hosts whose names the lines of `input` after the first are, that one is found for
/// the first line which a plain search finds.
///
/// # Panics
/// If it is not.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (asked, lines) = first_line(text);
    let named = |line: &str| line.split(' ').filter_map(HostName::of).collect::<Vec<_>>();
    let hosts: Vec<Vec<HostName>> = lines.lines().map(named).collect();
    let found = Hosts::new(hosts.iter().map(Vec::as_slice).zip(0..));
    assert_eq!(found.find(Some(asked)).copied(), plain(asked, &hosts), "{asked:?} of {hosts:?}");
    let default = hosts.iter().position(Vec::is_empty);
    assert_eq!(found.find(None).copied(), default, "{hosts:?}");
    for name in hosts.iter().flatten() {
        let (HostName::Exactly(text) | HostName::Below(text)) = name;
        assert!(!text.is_empty() && !text.contains(['@', '/', '*', ' ']), "{name:?}");
        assert_eq!(*text, text.to_ascii_lowercase());
    }
}

fn plain(asked: &str, hosts: &[Vec<HostName>]) -> Option<usize> {
    let name = asked.to_ascii_lowercase();
    let without_digits = name.trim_end_matches(|character: char| character.is_ascii_digit());
    let name = without_digits.strip_suffix(':').unwrap_or(&name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is = |host: &HostName| matches!(host, HostName::Exactly(other) if other == name);
    let is_above = |host: &HostName| match host {
        HostName::Exactly(_) => false,
        HostName::Below(domain) => {
            let first = name.strip_suffix(domain.as_str()).and_then(|rest| rest.strip_suffix('.'));
            first.is_some_and(|first| !first.is_empty() && !first.contains('.'))
        }
    };
    let with = |fits: &dyn Fn(&HostName) -> bool| hosts.iter().position(|all| all.iter().any(fits));
    with(&is).or_else(|| with(&is_above)).or_else(|| hosts.iter().position(Vec::is_empty))
}
