//! Responses to requests whose page was rejected or could not be loaded.

use std::net::IpAddr;
use std::time::SystemTime;

use tamarisk_observe::RequestId;
use tamarisk_observe::access_log::{Admission, Entry, Names};
use tamarisk_observe::status::{Rejection, Rejections};

use crate::cache::outcome::NotNow;

/// A request for a page that is not in memory.
pub(crate) struct PageAsked {
    pub(crate) client: IpAddr,
    pub(crate) id: RequestId,
    pub(crate) names: Names,
    /// Where rejections are kept to be shown.
    pub(crate) rejections: Rejections,
}

impl PageAsked {
    /// Tells why there is no page: to the line about the request, and if the stage said so, to
    /// whoever looks at the latest rejections.
    pub(crate) fn rejected(self, why: &NotNow, entry: Option<&mut Entry>) {
        let Self { client, id, names, rejections } = self;
        let &NotNow { outcome, reason, .. } = why;
        if let Some(entry) = entry {
            entry.set_admission(Admission::new(names.clone(), id)).rejected(outcome, reason);
        }
        if matches!(outcome, "rejected" | "dropped") {
            let (at, Names { route, class, stage }) = (SystemTime::now(), names);
            rejections.push(Rejection { at, client, route, stage, class, reason, id });
        }
    }
}
