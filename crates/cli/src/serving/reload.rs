//! Reload on SIGHUP: applies a configuration that was read again, and reports what changed.

use tamarisk_service::Reloaded;
use tamarisk_settings::ConfigError;

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
            match reloaded.in_words(&reloaded.changed) {
                nothing if nothing.is_empty() => {
                    tracing::info!("Configuration reloaded; nothing changed.");
                }
                changed => tracing::info!("Configuration reloaded; changed: {changed}."),
            }
            let needs_restart = reloaded.in_words(&reloaded.needs_restart);
            if !needs_restart.is_empty() {
                tracing::warn!("Needs a restart to take effect: {needs_restart}.");
            }
        }
        Err(error) => tracing::error!("Configuration not reloaded: {:#}", error.into()),
    }
}
