//! A real site on a real port, asked with raw requests and with curl.

mod answers;
mod cached;
mod long_pages;

use std::path::PathBuf;
use std::time::Duration;

use crate::support::{Answer, Folder, ask};
use tamarisk_control::Target;
use tamarisk_haboob::{Options, Running, SiteOptions, start};

/// A folder of its own for each test, and a server for its `public`.
struct Web {
    folder: Folder,
    running: Running,
}

impl Web {
    async fn new(files: &[(&str, &[u8])]) -> Self {
        Self::with(files, |_| {}).await
    }

    async fn with(files: &[(&str, &[u8])], change: impl FnOnce(&mut SiteOptions)) -> Self {
        let folder =
            Folder::with(files.iter().map(|(name, content)| (format!("public/{name}"), *content)));
        let target = Target::p90(Duration::from_secs(1)).unwrap();
        let mut site = SiteOptions::new(folder.join("public"), target);
        change(&mut site);
        let running = start(Options::new("127.0.0.1:0".parse().unwrap(), site)).await.unwrap();
        Self { folder, running }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("public").join(name)
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    async fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        ask(self.running.local_addr(), "test", method, path, fields).await
    }

    fn files_read(&self) -> u64 {
        self.running.site().observe()[0].total().offered
    }
}
