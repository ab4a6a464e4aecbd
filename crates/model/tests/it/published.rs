//! Values that others have published in tables, textbooks and the paper's text.

use tamarisk_control::{Concurrency, PerSecond};
use tamarisk_model::queueing::MultiServer;

fn rate(value: f64) -> PerSecond {
    PerSecond::new(value).unwrap()
}

#[track_caller]
fn close(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs(), "{ours} is not {theirs}");
}

#[test]
fn erlang_b_tables() {
    // Lines, and the traffic of which one call in a hundred finds all of them busy.
    // 15 lines: erlang.com's manual of its calculator; the others are in every
    // table of the formula.
    let table = [(5, 1.361), (10, 4.461), (15, 8.108), (20, 12.03), (50, 37.90), (100, 84.06)];
    for (lines, erlangs) in table {
        let group = MultiServer::new(rate(1.0), Concurrency::new(lines)).unwrap();
        let blocking = group.blocking(rate(erlangs)).get();
        // The tables give four digits.
        assert!((blocking - 0.01).abs() < 1e-5, "{lines} lines: {blocking}");
    }
}

#[test]
fn textbook_examples_of_m_m_m() {
    // An eye clinic: six patients an hour, three doctors who see three an hour each
    // [Gross98 ch. 2]: L_q = 8/9, L = 26/9, W = 26/54 h.
    let clinic = MultiServer::new(rate(3.0), Concurrency::new(3)).unwrap();
    let solved = clinic.at(rate(6.0)).unwrap();
    close(solved.waiting.get(), 4.0 / 9.0);
    close(solved.queued, 8.0 / 9.0);
    close(solved.number, 26.0 / 9.0);
    close(solved.response.mean().get(), 26.0 / 54.0);

    // An emergency room: two an hour, one doctor or two who see three an hour
    // [Hillier01 ch. 17]: L = 2 and 3/4, L_q = 4/3 and 1/12, W = 1 h and 3/8 h.
    for (doctors, number, queued, response) in
        [(1, 2.0, 4.0 / 3.0, 1.0), (2, 0.75, 1.0 / 12.0, 0.375)]
    {
        let room = MultiServer::new(rate(3.0), Concurrency::new(doctors)).unwrap();
        let solved = room.at(rate(2.0)).unwrap();
        close(solved.number, number);
        close(solved.queued, queued);
        close(solved.response.mean().get(), response);
    }
}

#[test]
fn the_packet_router_is_at_its_edge_with_the_three_threads_of_the_paper() {
    // n = λpL = 1000 · 0.15 · 20 ms = 3 [Welsh02 §6.2.4]: so many are busy. With three
    // and no more, chance would let the queue grow indefinitely.
    let queries = rate(1000.0 * 0.15);
    let service = rate(1.0 / 0.020);
    let threads = |count| MultiServer::new(service, Concurrency::new(count)).unwrap();
    assert!(threads(3).at(queries).is_err());
    let solved = threads(4).at(queries).unwrap();
    close(solved.number - solved.queued, 3.0);
}
