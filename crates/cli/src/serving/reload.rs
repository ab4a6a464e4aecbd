//! Reload on SIGHUP: applies a configuration that was read again, and reports what changed.

use tamarisk_service::Reloaded;
use tamarisk_settings::ConfigError;

use crate::messages::MessageOptions;

/// Takes over what `read` has found, by `apply`, and says what came of it; if it cannot be taken
/// over, everything stays as it is. Certificates, if there are any, are taken over too.
pub(crate) fn reload<O, E: Into<anyhow::Error>>(
    messages: &MessageOptions,
    read: anyhow::Result<Result<O, ConfigError>>,
    apply: impl FnOnce(&O) -> Result<Reloaded, E>,
) {
    let options = match read {
        Ok(Ok(options)) => options,
        Ok(Err(mistake)) => {
            let why = match &mistake {
                ConfigError::Unreadable { source, .. } => format!("{mistake}: {source}"),
                ConfigError::Invalid(_) => format!("the file is invalid: {mistake}"),
            };
            messages.mistaken(mistake);
            tracing::error!("Configuration not reloaded: {why}");
            return;
        }
        Err(error) => {
            tracing::error!("Configuration not reloaded: {error:#}");
            return;
        }
    };
    match apply(&options) {
        Ok(Reloaded { changed, needs_restart, has_read_certificates }) => {
            if has_read_certificates {
                tracing::info!("Certificates reloaded.");
            }
            match changed.as_slice() {
                [] => tracing::info!("Configuration reloaded; nothing changed."),
                changed => {
                    tracing::info!("Configuration reloaded; changed: {}.", changed.join(", "));
                }
            }
            if !needs_restart.is_empty() {
                tracing::warn!("Needs a restart to take effect: {}.", needs_restart.join(", "));
            }
        }
        Err(error) => tracing::error!("Configuration not reloaded: {:#}", error.into()),
    }
}
