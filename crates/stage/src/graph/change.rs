//! Changes of a graph while it runs: stages are looked up, added, replaced and removed
//! [Welsh02 §5.3.2].

use std::sync::Arc;
use std::time::Duration;

use super::node::ErasedNode;
use super::{Graph, GraphError, InvalidStageCount, Node};
use crate::observe::DrainReport;
use crate::observe::Phase;
use crate::stage::{ReplaceError, Stage};

impl Graph {
    /// The stage of this name, for events of type `E`. Handlers that look stages up while they run
    /// hold the graph by a [`Weak`](std::sync::Weak) reference: a graph lives until its last owner
    /// drops it, and its stages own their handlers.
    ///
    /// # Errors
    /// [`GraphError::NotFound`] with the names that there are, or [`GraphError::OtherEvents`] with
    /// the type of its events.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_stage::{Context, Graph, Request, Stage};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = Graph::new();
    /// graph.add(&Stage::builder("greet").handler(async |name: String, _: Context| Ok(format!("Hello, {name}")))?)?;
    ///
    /// let greet = graph.stage::<Request<String, String>>("greet")?.sink();
    /// assert_eq!(greet.call("Ann".to_owned()).await?, "Hello, Ann");
    ///
    /// // The new handler serves what is queued and what comes; sinks lead to it.
    /// graph.replace(Stage::builder("greet").handler(async |name: String, _: Context| Ok(format!("Ahoi, {name}")))?)?;
    /// assert_eq!(greet.call("Ann".to_owned()).await?, "Ahoi, Ann");
    ///
    /// assert!(graph.remove("greet", Duration::from_secs(1)).await?.is_clean());
    /// let error = greet.call("Ann".to_owned()).await.unwrap_err();
    /// assert_eq!(error.to_string(), "rejected: the stage is closed");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stage<E: Send + 'static>(&self, name: &str) -> Result<Node<E>, GraphError> {
        let node = Arc::clone(self.topology.lock().named(name)?);
        Node::of(node)
    }

    /// Takes in a stage that runs already, under its own name. It is closed with the graph.
    ///
    /// # Errors
    /// [`GraphError::Duplicate`] if its name is taken, [`GraphError::Closed`] if it drains or is closed,
    /// [`GraphError::Law`] if the graph has a law and
    /// as many stages as that can govern.
    pub fn add<E: Send + 'static>(&self, stage: &Stage<E>) -> Result<Node<E>, GraphError> {
        if stage.observe().phase != Phase::Open {
            return Err(GraphError::Closed { stage: stage.name().to_owned() });
        }
        let node = Node::running(stage.clone());
        let mut topology = self.topology.lock();
        if let Some(global_law) = &self.global_law {
            InvalidStageCount::check(topology.nodes.len() + 1)
                .map_err(|reason| GraphError::Law { reason: reason.to_string() })?;
            topology.insert(node.declared())?;
            node.declared().set_global_law(global_law);
        } else {
            topology.insert(node.declared())?;
        }
        Ok(node)
    }

    /// Replaces the running stage that has the name of `new` by it. What is queued stays queued and
    /// is served by the new handler, events that run end in the old one; accounts, sinks and edges go
    /// on. Handlers, laws, targets, where times are measured from, workers, batching factor and queue
    /// capacity are those of `new` from here on, and `new` itself is closed. So no event is lost or
    /// handled twice, senders notice nothing, and there are never two queues of one name, of which one
    /// would have to be drained.
    ///
    /// # Errors
    /// [`GraphError::NotFound`] or [`GraphError::OtherEvents`] as for [`stage`](Self::stage);
    /// [`GraphError::Replace`] if `new` has other classes, another queue order, another clock or other
    /// bounds on resources, or has been sent to. Then nothing changes, and `new` stays as it is too.
    pub fn replace<E: Send + 'static>(&self, new: Stage<E>) -> Result<(), GraphError> {
        let node = self.stage::<E>(new.name())?;
        let replaced = match node.stage() {
            Some(stage) => stage.take_over(&new),
            None => Err(ReplaceError::NotStarted),
        };
        replaced.map_err(|reason| GraphError::Replace { stage: new.name().to_owned(), reason })?;
        new.close();
        Ok(())
    }

    /// Drains the stage of this name and takes it out with its edges. From the start of the drain on
    /// its senders get a rejection, [`Reason::Draining`](tamarisk_control::Reason::Draining) and then
    /// [`Reason::Closed`](tamarisk_control::Reason::Closed), also those that wait for room. What is
    /// inside is finished within `timeout`; what is not is dropped or terminated, and its callers
    /// are told. Only then is the name free.
    ///
    /// A handler of the stage must not wait for this: it is what is waited for, until `timeout`.
    /// Dropped before it is done, this leaves a stage that drains; a second call goes on with it.
    ///
    /// # Errors
    /// [`GraphError::NotFound`].
    pub async fn remove(&self, name: &str, timeout: Duration) -> Result<DrainReport, GraphError> {
        let node: Arc<dyn ErasedNode> = Arc::clone(self.topology.lock().named(name)?);
        let report = node.drain(timeout).await;
        let removed = self.topology.lock().remove(node.id());
        drop(removed);
        if let Some(global_law) = &self.global_law {
            global_law.law().stages_changed();
        }
        Ok(report)
    }
}
