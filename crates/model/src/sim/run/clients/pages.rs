//! Pages of a run: requests that came at once, and are of use only together.

use tamarisk_control::ClassId;

/// A page that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// That of its first call, whose target the whole is judged by.
    class: ClassId,
    /// In nanoseconds.
    came: u64,
    /// Calls that have not ended.
    open: u32,
    /// Every call that has ended was answered.
    is_whole: bool,
}

/// All that are open, in reused slots: no more than there are requests.
#[derive(Debug, Default)]
pub(in crate::sim::run) struct Pages {
    slots: Vec<Page>,
    free: Vec<u32>,
}

/// A page whose last call has ended.
pub(in crate::sim::run) struct EndedPage {
    pub(in crate::sim::run) class: ClassId,
    /// In nanoseconds.
    pub(in crate::sim::run) came: u64,
    pub(in crate::sim::run) is_whole: bool,
}

impl Pages {
    /// A page of this class and so many calls comes: its number, which its last call frees.
    pub(in crate::sim::run) fn begin(&mut self, class: ClassId, now: u64, calls: u32) -> u32 {
        let page = Page { class, came: now, open: calls, is_whole: true };
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = page;
            return number;
        }
        self.slots.push(page);
        self.slots.len() as u32 - 1
    }

    /// A call has ended for good: its page, if it was the last one.
    pub(in crate::sim::run) fn end_call(
        &mut self,
        number: u32,
        is_answered: bool,
    ) -> Option<EndedPage> {
        let page = &mut self.slots[number as usize];
        page.open -= 1;
        page.is_whole &= is_answered;
        if page.open > 0 {
            return None;
        }
        self.free.push(number);
        Some(EndedPage { class: page.class, came: page.came, is_whole: page.is_whole })
    }
}
