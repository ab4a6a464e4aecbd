//! What the text of [Welsh02 ch. 4] says of its figures.

use tamarisk_model::figures::{self, Figure};

#[track_caller]
fn close(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs(), "{ours} is not {theirs}");
}

fn limit(figure: &Figure, line: &str) -> f64 {
    figure.line(line).unwrap_or_else(|| panic!("{line}")).limit.unwrap()
}

fn value(figure: &Figure, line: &str, x: f64) -> f64 {
    figure.line(line).unwrap_or_else(|| panic!("{line}")).at(x).unwrap()
}

#[test]
fn figure_16_grows_to_infinity_towards_m_times_mu() {
    let figure = figures::figure_16();
    for servers in 1..=3 {
        let line = figure.line(&format!("m = {servers}")).unwrap();
        assert_eq!(line.limit, Some(3.0 * f64::from(servers)));
        for (x, y) in &line.points {
            assert_eq!(y.is_some(), *x < 3.0 * f64::from(servers), "{servers} at {x}");
        }
        // From 1/μ, and beyond any bound.
        let values: Vec<f64> = line.points.iter().filter_map(|(_, y)| *y).collect();
        assert!(values.is_sorted());
        assert!(values[0] < 0.35 && values[values.len() - 1] > 3.0);
    }
}

#[test]
fn figure_17_has_the_two_shapes_of_its_caption() {
    let figure = figures::figure_17();
    // Rises to α = 4, is level to m′ = 15, and then sinks by β a thread.
    let upper = "α = 4; m′ = 15";
    for (threads, capacity) in
        [(1.0, 0.05), (4.0, 0.2), (15.0, 0.2), (16.0, 0.19), (30.0, 0.05), (35.0, 0.0)]
    {
        assert!((value(&figure, upper, threads) - capacity).abs() < 1e-15, "{threads} threads");
    }
    // m′ < α: rises more slowly from m′ on, and sinks from α on.
    let lower = "α = 5; m′ = 2";
    let at = |threads| value(&figure, lower, threads);
    assert!(at(2.0) - at(1.0) > at(4.0) - at(3.0) && at(5.0) > at(4.0) && at(6.0) < at(5.0));
}

#[test]
fn figure_18_is_worst_with_few_threads_and_with_many() {
    let figure = figures::figure_18();
    let stable = |threads: u32| limit(&figure, &format!("threads: {threads}"));
    // α·μ at most; 1 · μ with one thread, and α·μ − β·(m − m′) with many.
    for (threads, capacity) in
        [(1, 0.05), (2, 0.1), (4, 0.2), (15, 0.2), (18, 0.17), (20, 0.15), (25, 0.1), (30, 0.05)]
    {
        assert!((stable(threads) - capacity).abs() < 1e-15, "{threads} threads");
    }
    let response = |threads: u32| value(&figure, &format!("threads: {threads}"), 0.044);
    assert!(response(1) > 3.0 * response(4), "underprovisioned");
    assert!(response(25) > 3.0 * response(15), "the overhead of threads dominates");
}

#[test]
fn figure_20_pipelines_are_bound_by_their_narrowest_stage() {
    let figure = figures::figure_20();
    // Adding threads scales the one stage; a single thread anywhere bounds the
    // pipeline to μ, two in each to 2μ [Welsh02 §4.4.1].
    for threads in 1..=4 {
        close(limit(&figure, &format!("one stage: {threads}")), f64::from(threads) * 0.07 / 2.0);
    }
    for (pipeline, bound) in
        [("1 and 1", 0.07), ("1 and 2", 0.07), ("2 and 1", 0.07), ("2 and 2", 0.14)]
    {
        close(limit(&figure, &format!("pipeline: {pipeline}")), bound);
    }
    // "4 threads split between two stages yields identical performance to 4 threads in
    // a single stage": the limit is the same, and so are the times, to a twentieth,
    // while a fifth of it is used. Near the limit the text is too kind to the pipeline.
    let one = |x| value(&figure, "one stage: 4", x);
    let two = |x| value(&figure, "pipeline: 2 and 2", x);
    assert!(two(0.03) / one(0.03) < 1.05);
    assert!(two(0.135) / one(0.135) > 2.0);
}

#[test]
fn figure_21_needs_threads_only_where_the_slow_step_is() {
    let figure = figures::figure_21();
    // 1 ÷ 0.9 + (1 ÷ 0.02 + 1 ÷ 0.07) ÷ 2 is what one event takes.
    let service = 1.0 / 0.9 + 25.0 + 0.5 / 0.07;
    for threads in 1..=4 {
        close(limit(&figure, &format!("one stage: {threads}")), f64::from(threads) / service);
    }
    // λ_max = min(2·(4·μ_B), 2·μ_C) = 0.14, and 0.16 with a thread more for C.
    close(limit(&figure, "tree: 4 slow; 1 fast"), 0.14);
    close(limit(&figure, "tree: 4 slow; 2 fast"), 0.16);
}

#[test]
fn figure_23_replicas_bear_as_much_as_threads_and_take_longer() {
    let figure = figures::figure_23();
    for count in [2, 4, 8] {
        let (threads, replicas) = (format!("threads: {count}"), format!("replicas: {count}"));
        let capacity = f64::from(count) * 0.02;
        close(limit(&figure, &threads), capacity);
        close(limit(&figure, &replicas), capacity);
        let points = figure.line(&threads).unwrap().points.iter();
        for (x, shared) in points.filter_map(|(x, y)| y.map(|y| (*x, y))) {
            assert!(value(&figure, &replicas, x) > shared, "{count} at {x}");
        }
    }
}

#[test]
fn a_figure_is_a_table_of_points() {
    let csv = figures::figure_16().to_csv();
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("line,arrival rate,mean response time"));
    // M/M/1 with λ = 0.09: 1 ÷ (3 − 0.09)
    assert_eq!(rows.next(), Some("m = 1,0.090000,0.3436426116838488"));
    assert_eq!(csv.lines().last(), Some("m = 3,9.000000,"));
}
