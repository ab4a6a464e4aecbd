//! Messages (log output) of commands that serve on standard error, as text or JSON.

use std::fmt::{self, Write};
use std::io::{self, IsTerminal};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use miette::{Diagnostic, SourceCode};
use tamarisk_observe::date::Rfc3339;
use tamarisk_observe::panics;
use tamarisk_settings::ConfigError;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt as layer};

use crate::ending::{Ending, Errors};

/// Format and level of messages.
#[derive(Debug, Args)]
pub(crate) struct MessageOptions {
    /// Format of messages on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "human")]
    message_format: Format,
    /// Also report each request that is rejected or fails, and why
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text: time, level, message
    Human,
    /// One JSON object per line: time, level and message; stage and counts for overloads and failures
    Json,
}

impl MessageOptions {
    /// Starts writing the messages of this process.
    pub(crate) fn start(&self) {
        let level = if self.verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
        // What libraries say is of no use to an operator, unless it is a warning.
        let targets = Targets::new().with_default(LevelFilter::WARN).with_target("tamarisk", level);
        let layer = layer::layer().with_writer(io::stderr);
        let layer = match self.message_format {
            Format::Human => {
                let is_coloured = io::stderr().is_terminal();
                layer.with_ansi(is_coloured).event_format(Human).boxed()
            }
            Format::Json => layer
                .json()
                .flatten_event(true)
                .with_target(false)
                .with_current_span(false)
                .with_span_list(false)
                .with_timer(Clock)
                .boxed(),
        };
        // A second start, as in tests, leaves the first one as it is.
        let _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
        panics::log();
    }
}

impl MessageOptions {
    /// Reports an invalid file: each mistake with the source line as text, in one line as JSON.
    pub(crate) fn mistaken(&self, mistake: ConfigError) -> Ending {
        match self.message_format {
            Format::Human => Ending::mistaken(mistake),
            Format::Json => {
                for each in std::iter::once(&mistake as &dyn Diagnostic)
                    .chain(mistake.related().into_iter().flatten())
                {
                    tracing::error!("{}", in_one_line(each, mistake.source_code()));
                }
                Ending::Unsuccessful
            }
        }
    }

    /// Passes a command's result on; with JSON messages, an error becomes a message.
    pub(crate) fn told(&self, ended: anyhow::Result<Ending>) -> anyhow::Result<Ending> {
        match ended {
            Err(error) if self.message_format == Format::Json && !error.is::<clap::Error>() => {
                Errors::lines(&error).iter().for_each(|line| tracing::error!("{line}"));
                Ok(Ending::Unsuccessful)
            }
            ended => ended,
        }
    }
}

/// As in `protect.toml:3: unknown key "p9O": expected …; did you mean "p90"?`, or as in
/// `cannot read protect.toml: No such file or directory`.
fn in_one_line(mistake: &dyn Diagnostic, text: Option<&dyn SourceCode>) -> String {
    let label = mistake.labels().and_then(|mut labels| labels.next());
    let place = label.as_ref().and_then(|label| {
        let text = text?.read_span(label.inner(), 0, 0).ok()?;
        Some(format!("{}:{}: ", text.name()?, text.line() + 1))
    });
    let expected = label.as_ref().and_then(|label| label.label());
    let expected = expected.map(|expected| format!(": {expected}"));
    let cause = mistake.source().map(|cause| format!(": {cause}"));
    let help = mistake.help().map(|help| format!("; {help}"));
    [place, Some(mistake.to_string()), expected, cause, help].into_iter().flatten().collect()
}

/// The time in UTC, to the millisecond.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", Rfc3339(SystemTime::now()))
    }
}

/// Time, level and sentence; the values of an event are in its sentence.
struct Human;

impl<S, N> FormatEvent<S, N> for Human
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        let level = *event.metadata().level();
        Clock.format_time(&mut writer)?;
        if writer.has_ansi_escapes() {
            write!(writer, " \x1b[{}m{level:>5}\x1b[0m ", colour(level))?;
        } else {
            write!(writer, " {level:>5} ")?;
        }
        // What comes from outside cannot end the line or move the cursor.
        for character in sentence.0.chars() {
            match character.is_control() {
                true => write!(writer, "{}", character.escape_default())?,
                false => writer.write_char(character)?,
            }
        }
        writeln!(writer)
    }
}

fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        _ => 90,
    }
}

#[derive(Default)]
struct Sentence(String);

impl Visit for Sentence {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
