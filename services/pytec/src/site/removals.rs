//! Removals of pages: what is inside of their stages ends, and then their names are free.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tamarisk::Graph;
use tokio::sync::watch;

/// How long the events of a page that has been removed have to end. It bounds the removals too: pages
/// go once a second, and there are `pages_max` at most.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The removals that go on, each a task of its own: nobody waits for them but who wants the name.
#[derive(Clone)]
pub(super) struct Removals {
    graph: Arc<Graph>,
    /// The names of the stages.
    names: watch::Sender<BTreeSet<String>>,
}

impl Removals {
    pub(super) fn of(graph: &Arc<Graph>) -> Self {
        Self { graph: Arc::clone(graph), names: watch::Sender::default() }
    }

    /// Drains the stage of this name and takes it out of the graph.
    pub(super) fn start(&self, name: String) {
        self.names.send_modify(|names| {
            names.insert(name.clone());
        });
        let this = self.clone();
        tokio::spawn(async move {
            // An error means that another one has removed it.
            let _ = this.graph.remove(&name, TIME_MAX).await;
            this.names.send_modify(|names| {
                names.remove(&name);
            });
        });
    }

    /// Whether the stage of this name is still in the graph.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.borrow().contains(name)
    }

    /// Waits until it is not.
    pub(super) async fn end_of(&self, name: &str) {
        self.until(|names| !names.contains(name)).await;
    }

    /// Waits until there are none.
    pub(super) async fn end(&self) {
        self.until(BTreeSet::is_empty).await;
    }

    async fn until(&self, holds: impl FnMut(&BTreeSet<String>) -> bool) {
        let mut names = self.names.subscribe();
        // An error would mean that there is no sender, which this has.
        let _ = names.wait_for(holds).await;
    }
}
