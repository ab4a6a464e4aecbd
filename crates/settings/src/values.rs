//! Single values: what each may be, and how it is written. Each reader fails with a
//! [`Fault`] at the value.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

use tamarisk_control::{Priority, Ratio, Weight, parse_duration};
use toml::Spanned;
use toml::de::{DeString, DeValue};

use crate::mistakes::all;
use crate::section::{Fault, Value, nearest, wrong_type};

/// A string.
pub fn text<'a>(value: &'a Value<'a>) -> Result<&'a str, Fault> {
    value.get_ref().as_str().ok_or_else(|| wrong_type(value, "a string"))
}

/// A list of what `read` reads.
pub fn list<'a, T>(
    value: &'a Value<'a>,
    read: impl Fn(&'a Value<'a>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    match value.get_ref() {
        DeValue::Array(items) => all(items.iter().map(read)),
        _ => Err(wrong_type(value, "a list")),
    }
}

/// A string that `read` understands.
pub fn parsed<'a, T>(
    value: &'a Value<'a>,
    expected: &str,
    read: impl FnOnce(&'a str) -> Option<T>,
) -> Result<T, Fault> {
    let text = value.get_ref().as_str().ok_or_else(|| wrong_type(value, expected))?;
    let wrong =
        || Fault::new(value.span(), format!("{text:?} is invalid"), format!("expected {expected}"));
    read(text).ok_or_else(wrong)
}

/// A whole number from 0 to `most`.
pub fn number(value: &Value<'_>, expected: &str, most: u64) -> Result<u64, Fault> {
    let DeValue::Integer(integer) = value.get_ref() else {
        return Err(wrong_type(value, expected));
    };
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    number.filter(|number| *number <= most).ok_or_else(|| {
        let message = format!("{integer} is out of range");
        Fault::new(value.span(), message, format!("expected {expected}"))
    })
}

/// A whole number from 1 to a billion.
pub fn count(value: &Value<'_>) -> Result<NonZeroUsize, Fault> {
    let expected = "a whole number from 1 to 1000000000";
    let number = number(value, expected, 1_000_000_000)?;
    NonZeroUsize::new(number as usize).ok_or_else(|| {
        Fault::new(value.span(), "0 is out of range", format!("expected {expected}"))
    })
}

/// How important a class is: 0 goes first.
pub fn priority(value: &Value<'_>) -> Result<Priority, Fault> {
    let number = number(value, "a whole number from 0 (first) to 255 (last)", 255)?;
    Ok(Priority(number as u8))
}

/// The part of a class among those of its priority.
pub fn weight(value: &Value<'_>) -> Result<Weight, Fault> {
    let expected = "a whole number from 1 to 100";
    let number = number(value, expected, u64::from(Weight::MAX.get()))?;
    Weight::new(number as u8).map_err(|error| {
        Fault::new(value.span(), error.to_string(), format!("expected {expected}"))
    })
}

/// A time such as `"200ms"`, longer than none.
pub fn duration(value: &Value<'_>) -> Result<Duration, Fault> {
    time(value, "a time such as \"200ms\", \"1.5s\" or \"2m\"", parse_time)
}

/// A time such as `"20s"` since a beginning, or of what need not take any: `"0s"` is one.
pub fn instant(value: &Value<'_>) -> Result<Duration, Fault> {
    let parse = |text: &str| parse_duration(text).map_err(|error| error.to_string());
    time(value, "a time such as \"0s\", \"1.5s\" or \"2m\"", parse)
}

/// The time that `text` is, longer than none; the error says what is wrong with it.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() {
        return Err("the time must be longer than 0s".to_owned());
    }
    Ok(time)
}

fn time(
    value: &Value<'_>,
    expected: &str,
    parse: impl Fn(&str) -> Result<Duration, String>,
) -> Result<Duration, Fault> {
    let text = value.get_ref().as_str().ok_or_else(|| wrong_type(value, expected))?;
    parse(text).map_err(|message| Fault::new(value.span(), message, format!("expected {expected}")))
}

/// A finite number, whole or not.
pub fn float(value: &Value<'_>, expected: &str) -> Result<f64, Fault> {
    let number = match value.get_ref() {
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|whole| whole as f64)
        }
        _ => return Err(wrong_type(value, expected)),
    };
    number.filter(|number: &f64| number.is_finite()).ok_or_else(|| {
        Fault::new(value.span(), "number out of range", format!("expected {expected}"))
    })
}

/// Yes or no.
pub fn yes(value: &Value<'_>) -> Result<bool, Fault> {
    value.get_ref().as_bool().ok_or_else(|| wrong_type(value, "`true` or `false`"))
}

/// A number from 0 to 1.
pub fn ratio(value: &Value<'_>) -> Result<Ratio, Fault> {
    let expected = "a number from 0 to 1";
    let number = float(value, expected)?;
    Ratio::new(number).map_err(|_| {
        let message = format!("{number} is out of range");
        Fault::new(value.span(), message, format!("expected {expected}"))
    })
}

/// A size in bytes such as `"8KiB"`.
pub fn size(value: &Value<'_>) -> Result<u64, Fault> {
    parsed(value, "a size such as \"8KiB\", \"10MiB\" or \"500B\"", parse_size)
}

/// The number of bytes that `text` denotes: a decimal number and a unit, perhaps with a space
/// between them.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start() {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * unit;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// Whether `text` can be a name that operators give: it appears in metrics and on the status page.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

/// A name as [`is_name`] takes it.
pub fn name(value: &Value<'_>) -> Result<String, Fault> {
    parsed(value, "a name of letters, digits, \"-\", \"_\" and \".\"", |text| {
        is_name(text).then(|| text.to_owned())
    })
}

/// The key of a table of named things, as [`is_name`] takes it.
pub fn key_name(key: &Spanned<DeString<'_>>) -> Result<String, Fault> {
    let name: &str = key.get_ref();
    if is_name(name) {
        return Ok(name.to_owned());
    }
    let expected = "expected a name of letters, digits, \"-\", \"_\" and \".\"";
    Err(Fault::new(key.span(), format!("{name:?} is not a valid name"), expected))
}

/// The place among `names` of the one that is named; `kind` is what it is a name of.
pub fn one_of(value: &Value<'_>, kind: &str, names: &[&str]) -> Result<usize, Fault> {
    let name = text(value)?;
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| not_one_of(value.span(), kind, name, names))
}

/// That `names` of a `kind` do not have `name`, and which one was probably meant.
pub fn not_one_of(span: Range<usize>, kind: &str, name: &str, names: &[&str]) -> Fault {
    let message = format!("unknown {kind} {name:?}");
    let fault = Fault::new(span, message, format!("expected one of: {}", names.join(", ")));
    match nearest(name, names) {
        Some(similar) => fault.help(format!("did you mean {similar:?}?")),
        None => fault,
    }
}
