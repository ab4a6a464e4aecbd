//! What is said of a request for a page that is not in memory: in the access log, and on the status
//! page if it was rejected.

use std::net::IpAddr;
use std::time::SystemTime;

use tamarisk_observe::RequestId;
use tamarisk_observe::access_log::{Admission, Entry, Names};
use tamarisk_observe::status::{Rejection, Rejections};

use crate::cache::outcome::{NotNow, Waited};

/// A request for a page that is not in memory.
pub(crate) struct PageAsked {
    pub(crate) client: IpAddr,
    pub(crate) id: RequestId,
    pub(crate) names: Names,
    /// Where rejections are kept to be shown.
    pub(crate) rejections: Rejections,
}

impl PageAsked {
    /// Tells the line about the request how long that has waited for the stage, if it has.
    pub(crate) fn answered(self, waited: Option<Waited>, entry: Option<&mut Entry>) {
        let (Some(waited), Some(entry)) = (waited, entry) else { return };
        let admission = entry.set_admission(Admission::new(self.names, self.id));
        match waited {
            Waited::ForStage { queued, read } => {
                admission.queued(queued);
                admission.answered(false, read);
            }
            // Nothing of it is in the accounts of the stage.
            Waited::ForOthers(waited) => admission.queued(waited),
        }
    }

    /// Tells why there is no page: to the line about the request, and if the stage said so, to
    /// the list of the latest rejections.
    pub(crate) fn rejected(self, why: NotNow, entry: Option<&mut Entry>) {
        let Self { client, id, names, rejections } = self;
        let (outcome, reason) = (why.outcome(), why.reason());
        if let Some(entry) = entry {
            entry.set_admission(Admission::new(names.clone(), id)).rejected(outcome, reason);
        }
        if matches!(outcome, "rejected" | "dropped") {
            let (at, Names { route, class, stage }) = (SystemTime::now(), names);
            rejections.push(Rejection { at, client, route, stage, class, reason, id });
        }
    }
}
