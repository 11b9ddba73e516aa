//! The log: a line an event on stderr, for people or for programs, each with the run it is of.

use std::fmt;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::cli::args::LogFormat;
use crate::run;

/// Writes events in the form asked for.
#[derive(Debug)]
pub struct Lines(pub LogFormat);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match self.0 {
            LogFormat::Text => {
                write!(writer, "run={} ", run::id())?;
                Format::default().format_event(context, writer, event)
            }
            LogFormat::Json => writeln!(writer, "{}", Value::Object(members(event))),
        }
    }
}

/// Time, level, run, target and message, and the event's own fields.
fn members(event: &Event<'_>) -> Map<String, Value> {
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let Fields(mut members) = fields;
    let metadata = event.metadata();
    let time = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
    for (name, value) in [
        ("time", time.as_str()),
        ("level", metadata.level().as_str()),
        ("run", run::id()),
        ("target", metadata.target()),
    ] {
        members.insert(name.to_owned(), value.into());
    }
    members
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.0.insert(field.name().to_owned(), text.into());
    }
}
