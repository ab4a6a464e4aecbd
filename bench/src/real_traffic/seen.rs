//! What the clients saw, and the numbers that a situation is judged by.

use std::collections::BTreeMap;
use std::ops::Range;

/// A request and what became of it. Times are in seconds since the start.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    stream: usize,
    due: f64,
    answer: Option<Answer>,
}

impl Request {
    /// One without an answer yet.
    pub fn new(stream: usize, due: f64) -> Self {
        Self { stream, due, answer: None }
    }
}

/// An answer, of which the data may still be coming.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// When the first byte of its body came.
    pub first_data: Option<f64>,
    /// When it was complete.
    pub end: Option<f64>,
    /// When it broke off before that, or its client left.
    pub broken: Option<f64>,
}

/// All requests of a run.
#[derive(Clone, Debug)]
pub struct Seen {
    requests: Vec<Request>,
    seconds: f64,
}

impl Seen {
    /// Nothing so far, in a run of so many seconds.
    pub fn new(seconds: f64) -> Self {
        Self { requests: Vec::new(), seconds }
    }

    /// How long requests were sent.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Adds a request and returns its number.
    pub fn add(&mut self, request: Request) -> usize {
        self.requests.push(request);
        self.requests.len() - 1
    }

    /// Whether something of its answer has come.
    pub fn has_begun(&self, number: usize) -> bool {
        self.requests[number].answer.is_some()
    }

    /// Sets the answer of a request.
    pub fn note(&mut self, number: usize, answer: Answer) {
        self.requests[number].answer = Some(answer);
    }

    /// Nothing more comes of the answer of a request, if some of it has come.
    pub fn break_off(&mut self, number: usize, at: f64) {
        if let Some(answer) = &mut self.requests[number].answer {
            answer.broken = Some(at);
        }
    }

    /// Those of some streams.
    pub fn of(&self, streams: &[usize]) -> Part {
        let requests = self.requests.iter().filter(|request| streams.contains(&request.stream));
        Part { requests: requests.copied().collect(), seconds: 0.0..self.seconds }
    }
}

/// Some of the requests, and the time in which they were due.
#[derive(Clone, Debug)]
pub struct Part {
    requests: Vec<Request>,
    seconds: Range<f64>,
}

impl Part {
    /// Those of them that were due in this time.
    pub fn due_in(&self, seconds: Range<f64>) -> Self {
        let requests = self.requests.iter().filter(|request| seconds.contains(&request.due));
        Self { requests: requests.copied().collect(), seconds: seconds.clone() }
    }

    /// Share that was rejected, with 503.
    pub fn rejected(&self) -> f64 {
        self.with_status(503)
    }

    /// Share that got this status.
    pub fn with_status(&self, status: u16) -> f64 {
        self.share(|request| request.answer.is_some_and(|answer| answer.status == status))
    }

    /// Share that got no whole answer with 200, at any time.
    pub fn not_served(&self) -> f64 {
        1.0 - self.share(|request| latency(request).is_some())
    }

    /// Share that was served within so many seconds.
    pub fn in_time(&self, target: f64) -> f64 {
        self.share(|request| latency(request).is_some_and(|latency| latency <= target))
    }

    /// How many a second were served within so many seconds.
    pub fn goodput(&self, target: f64) -> f64 {
        self.in_time(target) * self.requests.len() as f64 / (self.seconds.end - self.seconds.start)
    }

    /// How many pages a second had all of their requests, which were due at once, served within so
    /// many seconds.
    pub fn whole_pages(&self, target: f64) -> f64 {
        let mut pages = BTreeMap::new();
        for request in &self.requests {
            let is_in_time = latency(request).is_some_and(|latency| latency <= target);
            *pages.entry(request.due.to_bits()).or_insert(true) &= is_in_time;
        }
        let whole = pages.values().filter(|is_whole| **is_whole).count();
        whole as f64 / (self.seconds.end - self.seconds.start)
    }

    /// How many a second were served, whenever they were due: by the time of their answers.
    pub fn served_in(&self, seconds: Range<f64>) -> f64 {
        let is_in = |request: &&Request| {
            latency(request).is_some_and(|latency| seconds.contains(&(request.due + latency)))
        };
        self.requests.iter().filter(is_in).count() as f64 / (seconds.end - seconds.start)
    }

    /// How many streams, in the mean, were under way in this time of those whose first data
    /// came within so many seconds.
    pub fn streams_in_time(&self, target: f64, within: Range<f64>) -> f64 {
        let busy = |request: &Request| {
            let answer = request.answer.filter(|answer| answer.status == 200)?;
            let first = answer.first_data.filter(|first| first - request.due <= target)?;
            let end = answer.end.or(answer.broken).unwrap_or(within.end).min(within.end);
            Some((end - first.max(within.start)).max(0.0))
        };
        self.requests.iter().filter_map(busy).sum::<f64>() / (within.end - within.start)
    }

    /// How many streams a second ended in this time of those whose first data came within so many
    /// seconds.
    pub fn streams_ended(&self, target: f64, within: Range<f64>) -> f64 {
        let has_ended = |request: &&Request| {
            request.answer.is_some_and(|answer| {
                answer.status == 200
                    && answer.first_data.is_some_and(|first| first - request.due <= target)
                    && answer.end.is_some_and(|end| within.contains(&end))
            })
        };
        let ended = self.requests.iter().filter(has_ended).count();
        ended as f64 / (within.end - within.start)
    }

    fn share(&self, is_such: impl Fn(&Request) -> bool) -> f64 {
        let such = self.requests.iter().filter(|request| is_such(request)).count();
        such as f64 / self.requests.len().max(1) as f64
    }
}

/// How long a whole answer with 200 took.
fn latency(request: &Request) -> Option<f64> {
    let answer = request.answer.filter(|answer| answer.status == 200)?;
    answer.end.map(|end| end - request.due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_breaks_off_is_under_way_until_then() {
        let streams = |broken: Option<f64>| {
            let mut seen = Seen::new(100.0);
            let number = seen.add(Request::new(0, 0.0));
            let begun = Answer { status: 200, first_data: Some(0.5), end: None, broken: None };
            seen.note(number, begun);
            broken.into_iter().for_each(|at| seen.break_off(number, at));
            seen.of(&[0]).streams_in_time(2.0, 0.0..100.0)
        };
        // 0.5 s and 99.5 s of 100 s.
        assert_eq!(streams(Some(1.0)), 0.005);
        assert_eq!(streams(None), 0.995);
    }

    #[test]
    fn what_breaks_off_before_any_answer_stays_without_one() {
        let mut seen = Seen::new(100.0);
        let number = seen.add(Request::new(0, 0.0));
        seen.break_off(number, 1.0);
        assert!(!seen.has_begun(number));
    }
}
