//! Reload on SIGHUP: applies a configuration that was read again, and reports what changed.

use tamarisk_service::Reloaded;
use tamarisk_settings::ConfigError;

use super::counted;
use crate::messages::MessageOptions;

/// What `read` has found; if that is nothing to take over, everything stays as it is.
pub(crate) fn read_again_or_say_why<O>(
    messages: &MessageOptions,
    read: anyhow::Result<Result<O, ConfigError>>,
) -> Option<O> {
    match read {
        Ok(Ok(options)) => return Some(options),
        Ok(Err(mistake)) => {
            let why = match &mistake {
                ConfigError::Unreadable { source, .. } => format!("{mistake}: {source}"),
                ConfigError::Invalid(_) => format!("the file is invalid: {mistake}"),
            };
            messages.mistaken(mistake);
            tracing::error!("Configuration not reloaded: {why}");
        }
        Err(error) => tracing::error!("Configuration not reloaded: {error:#}"),
    }
    None
}

/// Says what came of taking it over, certificates too if there are any.
pub(crate) fn say(taken_over: Result<Reloaded, impl Into<anyhow::Error>>) {
    match taken_over {
        Ok(reloaded) => {
            if reloaded.has_read_certificates {
                tracing::info!("Certificates reloaded.");
            }
            say_changes(&reloaded);
        }
        Err(error) => tracing::error!("Configuration not reloaded: {:#}", error.into()),
    }
}

fn say_changes(reloaded: &Reloaded) {
    let changed = reloaded.in_words(&reloaded.changed);
    let needs_restart = reloaded.in_words(&reloaded.needs_restart);
    let cure = cure(&reloaded.needs_restart);
    let count = reloaded.needs_restart.len();
    match (reloaded.changed.is_empty(), count) {
        (true, 0) => tracing::info!("Configuration reloaded; nothing changed."),
        (false, 0) => tracing::info!("Configuration reloaded; changed: {changed}."),
        (true, _) => {
            let what = counted(count, "change");
            let need = if count == 1 { "needs" } else { "need" };
            tracing::warn!(
                "Configuration reloaded, except for {what} that {need} a restart ({cure}): \
                 {needs_restart}."
            );
        }
        (false, _) => {
            tracing::info!("Configuration reloaded; changed: {changed}.");
            tracing::warn!("Unchanged until a restart ({cure}): {needs_restart}.");
        }
    }
}

/// How to restart. Another process gets the sockets of this one, and so its address.
fn cure(needs_restart: &[String]) -> String {
    match needs_restart.iter().any(|what| what == "listen") {
        true => "stop and start the service for another `listen`".to_owned(),
        false => format!("`kill -USR2 {}` loses no request", std::process::id()),
    }
}
