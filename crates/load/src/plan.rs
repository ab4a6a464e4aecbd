//! The plan of a run: requests, schedule, limits, all checked before it starts.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rand::RngExt;

use crate::groups::Groups;
use crate::population::Population;
use crate::request::RequestForm;
use crate::url::WeightedUrl;
use crate::workload::{ClosedLoop, OpenLoop, Workload};

/// Intervals in the time series of one run, at most: two days of seconds, some
/// tens of megabytes.
const INTERVALS_MAX: u128 = 200_000;

/// URLs of one run, at most: they take some hundreds of megabytes.
const URLS_MAX: usize = 1_000_000;

/// Connections of a thread, at least, where nobody says how many threads there are. Each thread has
/// connections of its own: with few, all of one thread's are often in use while others' are idle.
const CONNECTIONS_PER_THREAD_MIN: usize = 16;

/// A valid plan of a run. Built by [`Plan::builder`], executed by [`run`](crate::run()).
#[derive(Clone, Debug)]
pub struct Plan {
    urls: Vec<WeightedUrl>,
    /// For each of them, the sum of the weights up to it.
    weights: Vec<u64>,
    form: RequestForm,
    workload: Workload,
    population: Option<Arc<dyn Population>>,
    groups: Groups,
    settings: Settings,
}

/// Collects the parts of a [`Plan`]; every setting has a default.
#[derive(Clone, Debug)]
pub struct PlanBuilder {
    urls: Vec<WeightedUrl>,
    workload: Workload,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    population: Option<Arc<dyn Population>>,
    /// On how many threads, if that was stated.
    threads: Option<usize>,
    settings: Settings,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) requests_per_connection: Option<NonZeroU32>,
    pub(crate) timeout: Duration,
    pub(crate) target: Option<Duration>,
    pub(crate) interval: Duration,
    pub(crate) drain: Duration,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

/// Why the parts do not make a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlan {
    /// There is nothing to ask for.
    #[error("a URL is missing")]
    NoUrl,
    /// There are more URLs than a run can choose from.
    #[error("too many URLs ({0}): a run takes at most 1,000,000")]
    Urls(usize),
    /// Two URLs name different servers; a run loads one.
    #[error("`{0}` and `{1}` are different servers; a run loads one")]
    Servers(String, String),
    /// The interval of the time series is shorter than 10 ms.
    #[error("an interval of {0:?} is too short: the shortest is 10ms")]
    Interval(Duration),
    /// The time series would grow too long.
    #[error("a run of {0:?} has more than 200,000 intervals of {1:?}: choose a longer interval")]
    Intervals(Duration, Duration),
    /// The timeout is zero.
    #[error("the timeout must be longer than 0s")]
    Timeout,
    /// A user would send again without waiting at all.
    #[error("the time until a user sends again must be longer than 0s")]
    Resend,
    /// Users who read their answers ask for one thing at a time, and wait.
    #[error("emulated users need a closed loop in which a user waits for each answer")]
    Population,
    /// There are no connections to send on.
    #[error("the number of connections must be 1 or more")]
    Connections,
    /// No threads to run on, or more than 1024.
    #[error("the number of threads ({0}) must be 1 to 1024")]
    Threads(usize),
}

impl Plan {
    /// A plan for `workload` on `urls`, with GET requests, ten seconds of
    /// patience, connections kept alive, a time series by the second, a second of
    /// drain, threads for half of the machine's cores, and seed 0.
    pub fn builder(workload: Workload, urls: Vec<WeightedUrl>) -> PlanBuilder {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        PlanBuilder {
            urls,
            workload,
            method: Method::GET,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            population: None,
            threads: None,
            settings: Settings {
                requests_per_connection: None,
                timeout: Duration::from_secs(10),
                target: None,
                interval: Duration::from_secs(1),
                drain: Duration::from_secs(1),
                threads: cores.div_ceil(2),
                seed: 0,
            },
        }
    }

    /// What requests are sent to.
    pub fn urls(&self) -> &[WeightedUrl] {
        &self.urls
    }

    /// Who sends them.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The response time that counts as good, if one was given.
    pub fn target(&self) -> Option<Duration> {
        self.settings.target
    }

    /// What an answer is judged by: the target of its type of request, if it has one of its own.
    pub(crate) fn target_of(&self, group: Option<usize>) -> Option<Duration> {
        group.and_then(|group| self.groups.target_of(group)).or(self.settings.target)
    }

    /// Users who decide for themselves what they ask for.
    pub(crate) fn population(&self) -> Option<&dyn Population> {
        self.population.as_deref()
    }

    /// What results are told apart by.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// What fixes the random choices of a run.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What all requests have in common.
    pub(crate) fn form(&self) -> &RequestForm {
        &self.form
    }

    /// The path of one of the URLs, chosen by weight.
    pub(crate) fn path(&self, random: &mut impl rand::Rng) -> &PathAndQuery {
        if let [only] = self.urls.as_slice() {
            return only.path();
        }
        let sum = self.weights.last().expect("a plan has a URL");
        let draw = random.random_range(0..*sum);
        self.urls[self.weights.partition_point(|weights| *weights <= draw)].path()
    }
}

impl PlanBuilder {
    /// The method of all requests.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// A header of all requests; a `Host` replaces the one made from the URL. How long the
    /// body is, a `Content-Length` does not change; a `Transfer-Encoding` sends it as one chunk.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// The body of all requests.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Users who decide by each answer what they ask for next, in the place of requests for the
    /// URLs: of those, the first says which server is meant.
    pub fn population(mut self, population: Arc<dyn Population>) -> Self {
        self.population = Some(population);
        self
    }

    /// After how many requests a connection is closed and another opened; a
    /// user of the Web made 5 [Welsh02 §6.1.3]. Without it, connections stay
    /// open for as long as the server likes.
    pub fn requests_per_connection(mut self, requests: NonZeroU32) -> Self {
        self.settings.requests_per_connection = Some(requests);
        self
    }

    /// How long a user waits for a full answer, connecting included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Answers within this latency are good ones. Without it, all are.
    pub fn target(mut self, target: Duration) -> Self {
        self.settings.target = Some(target);
        self
    }

    /// The interval of the time series, 10 ms at least.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval;
        self
    }

    /// How long requests under way at the end of the schedule may still take;
    /// those that take longer are reported as unfinished.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// On how many threads the generator runs. Without it, on half of the machine's cores, but on
    /// one for every 16 connections of an open loop at most.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Fixes the random choices: arrivals, and which of several URLs is asked for.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// The plan.
    ///
    /// # Errors
    /// [`InvalidPlan`] if a part is missing or out of range.
    pub fn build(self) -> Result<Plan, InvalidPlan> {
        let Self { urls, workload, method, headers, body, population, threads, mut settings } =
            self;
        let first = urls.first().ok_or(InvalidPlan::NoUrl)?;
        if let Some(other) = urls.iter().find(|url| url.authority() != first.authority()) {
            return Err(InvalidPlan::Servers(first.to_string(), other.to_string()));
        }
        if urls.len() > URLS_MAX {
            return Err(InvalidPlan::Urls(urls.len()));
        }
        if settings.interval < Duration::from_millis(10) {
            return Err(InvalidPlan::Interval(settings.interval));
        }
        let duration = workload.schedule().duration() + settings.drain;
        if duration.as_nanos() / settings.interval.as_nanos() >= INTERVALS_MAX {
            return Err(InvalidPlan::Intervals(duration, settings.interval));
        }
        if settings.timeout.is_zero() {
            return Err(InvalidPlan::Timeout);
        }
        if let Workload::Closed(ClosedLoop { resend: Some(Duration::ZERO), .. }) = workload {
            return Err(InvalidPlan::Resend);
        }
        let waits = matches!(workload, Workload::Closed(ClosedLoop { resend: None, .. }));
        if population.is_some() && !waits {
            return Err(InvalidPlan::Population);
        }
        let connections = match workload {
            Workload::Open(OpenLoop { connections_max, .. }) => connections_max,
            Workload::Closed(_) => None,
        };
        if connections == Some(0) {
            return Err(InvalidPlan::Connections);
        }
        let wanted = threads.unwrap_or(settings.threads);
        if !(1..=1024).contains(&wanted) {
            return Err(InvalidPlan::Threads(wanted));
        }
        settings.threads = threads_for(connections, threads, settings.threads);
        let form = RequestForm::new(first, method, &headers, body);
        let running_sum = |sum: &mut u64, url: &WeightedUrl| {
            *sum += u64::from(url.weight());
            Some(*sum)
        };
        let weights = urls.iter().scan(0, running_sum).collect();
        let groups = population.as_deref().map(Groups::of).unwrap_or_default();
        Ok(Plan { urls, weights, form, workload, population, groups, settings })
    }
}

/// How many threads share so many connections, if their number is bounded: `stated`, or `default`.
fn threads_for(connections: Option<usize>, stated: Option<usize>, default: usize) -> usize {
    // A thread without a connection could send none of its share.
    let each_min = if stated.is_some() { 1 } else { CONNECTIONS_PER_THREAD_MIN };
    let threads_max = connections.map_or(usize::MAX, |all| all.div_ceil(each_min));
    stated.unwrap_or(default).min(threads_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RetryAfter, Schedule, Spacing, Spread};
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn builder(urls: &[&str]) -> PlanBuilder {
        let workload = Workload::Closed(ClosedLoop {
            users: Schedule::new(1.0, vec![], None).unwrap(),
            think: Duration::ZERO,
            after_reject: Duration::ZERO,
            retry_after: RetryAfter::Ignore,
            spread: Spread::default(),
            resend: None,
        });
        Plan::builder(workload, urls.iter().map(|url| url.parse().unwrap()).collect())
    }

    #[test]
    fn urls_are_asked_for_in_proportion_to_their_weights() {
        let plan = builder(&["9=http://h/often", "http://h/seldom"]).build().unwrap();
        let mut random = StdRng::seed_from_u64(1);
        let often = (0..10_000).filter(|_| plan.path(&mut random) == "/often");
        // 9,000 expected with a standard deviation of 30.
        assert!(often.count().abs_diff(9_000) < 150);
    }

    #[test]
    fn every_one_of_many_urls_is_asked_for() {
        let urls: Vec<_> = (0..100).map(|number| format!("3=http://h/{number}")).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let plan = builder(&urls).build().unwrap();
        let mut random = StdRng::seed_from_u64(1);
        let mut asked = [0_u32; 100];
        for _ in 0..10_000 {
            let path = plan.path(&mut random).as_str()[1..].parse::<usize>().unwrap();
            asked[path] += 1;
        }
        // 100 each expected with a standard deviation of 10.
        assert!(asked.iter().all(|count| (50..150).contains(count)), "{asked:?}");
    }

    #[test]
    fn each_thread_has_a_connection() {
        let plan = |connections| {
            let workload = Workload::Open(OpenLoop {
                rate: Schedule::new(1.0, vec![], None).unwrap(),
                spacing: Spacing::Constant,
                connections_max: Some(connections),
            });
            Plan::builder(workload, vec!["http://h/".parse().unwrap()]).threads(4).build()
        };
        assert_eq!(plan(0).unwrap_err(), InvalidPlan::Connections);
        assert_eq!(plan(3).unwrap().settings().threads, 3);
        assert_eq!(plan(30).unwrap().settings().threads, 4);
    }

    #[test]
    fn few_connections_stay_together_unless_a_number_of_threads_is_stated() {
        let unstated = |connections| threads_for(connections, None, 8);
        assert_eq!([1, 8, 16, 17].map(|few| unstated(Some(few))), [1, 1, 1, 2]);
        assert_eq!([112, 113, 10_000].map(|many| unstated(Some(many))), [7, 8, 8]);
        assert_eq!(unstated(None), 8);
        let stated = |connections| threads_for(connections, Some(8), 1);
        assert_eq!([3, 8, 10_000].map(|connections| stated(Some(connections))), [3, 8, 8]);
        assert_eq!(stated(None), 8);
    }

    #[test]
    fn what_makes_no_plan_is_rejected() {
        let rejected = |builder: PlanBuilder| builder.build().unwrap_err();
        assert_eq!(rejected(builder(&[])), InvalidPlan::NoUrl);
        let two = rejected(builder(&["http://a/", "http://b/"]));
        assert_eq!(
            two.to_string(),
            "`http://a/` and `http://b/` are different servers; a run loads one"
        );
        let many = rejected(builder(&vec!["http://a/"; URLS_MAX + 1]));
        assert_eq!(many, InvalidPlan::Urls(URLS_MAX + 1));
        let one = || builder(&["http://a/"]);
        let ms = Duration::from_millis;
        assert_eq!(rejected(one().interval(ms(9))), InvalidPlan::Interval(ms(9)));
        assert!(matches!(
            rejected(one().drain(ms(3_000_000)).interval(ms(10))),
            InvalidPlan::Intervals(..)
        ));
        assert_eq!(rejected(one().timeout(ms(0))), InvalidPlan::Timeout);
        let mut hasty = one();
        let Workload::Closed(users) = &mut hasty.workload else { unreachable!("users") };
        users.resend = Some(ms(0));
        assert_eq!(rejected(hasty), InvalidPlan::Resend);
        assert_eq!(rejected(one().threads(0)), InvalidPlan::Threads(0));
    }
}
