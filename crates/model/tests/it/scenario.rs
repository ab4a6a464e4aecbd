//! Scenario files: what they make, and how mistakes in them are shown.
use std::path::Path;
use std::time::Duration;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use tamarisk_catalogue::ByName;
use tamarisk_control::{MeasuredFrom, PerSecond, Ratio};
use tamarisk_laws::{Coordination, Laws};
use tamarisk_model::queueing::Accuracy;
use tamarisk_model::scenario;
use tamarisk_model::sim::{
    Client, Discipline, Distribution, Heed, KindAt, Load, Profile, Resource, Route, Simulation,
    Speed, Step,
};

const DOCUMENTED: &str = include_str!("../../../../docs/examples/scenario.toml");

#[test]
fn the_documented_example_says_all_there_is_to_say() {
    let ms = Duration::from_millis;
    let s = Duration::from_secs;
    let file = scenario::parse("example.toml", DOCUMENTED).unwrap();
    let scenario = &file.scenario;
    assert_eq!((scenario.warm_up, scenario.duration, scenario.batches), (s(10), s(60), 20));
    let classes: Vec<_> = scenario.classes.iter().map(|(_, class)| class).collect();
    let [gold, plain] = classes[..] else { panic!("two classes") };
    assert_eq!((gold.priority.0, gold.target.response_time()), (0, ms(100)));
    assert_eq!((plain.priority.0, plain.target.response_time()), (1, ms(200)));
    assert_eq!(
        scenario.resources,
        [Resource::cores("processor", 4.0), Resource::pool("table", 20)]
    );
    let [web, db] = &scenario.stages[..] else { panic!("two stages") };
    assert_eq!((web.workers, web.capacity), (8, 100_000));
    assert_eq!(web.discipline, Discipline::Priority);
    assert_eq!(web.speed, Speed::Cores(2.0));
    assert_eq!(web.stretch, Profile::constant(1.0).spike(s(20), s(30), 5.0));
    assert_eq!(
        web.service,
        [
            Step::own(Distribution::Exponential(ms(5))),
            Step::on("processor", Distribution::Constant(ms(2)))
        ]
    );
    assert_eq!(web.routes, [Route { to: "db".into(), probability: 0.3 }]);
    let kinds: Vec<_> = scenario.kinds.iter().map(|kind| (&*kind.name, &*kind.class)).collect();
    assert_eq!(kinds, [("report", "plain"), ("poll", "gold"), ("stream", "gold")]);
    assert_eq!((web.lost.get(), web.answer_time), (0.001, s(30)));
    assert_eq!(web.outages, [(s(40), s(45))]);
    assert_eq!(web.pauses, [(s(50), s(51))]);
    let lasting =
        |name: &str, time| KindAt::new(name).steps([Step::own(Distribution::Constant(time))]);
    let report = KindAt { lost: Ratio::new(0.01).ok(), ..lasting("report", ms(800)) };
    let stream = lasting("stream", s(10)).first_data(Distribution::Exponential(ms(50)));
    assert_eq!(web.kinds, [report, lasting("poll", s(25)).without_worker(), stream]);
    let gold = Step::own(Distribution::Exponential(ms(2)));
    assert_eq!(web.service_of, [("gold".to_owned(), vec![gold])]);
    assert_eq!(web.routes_of, [("gold".to_owned(), vec![])]);
    let log_normal = Distribution::LogNormal { mean: ms(30), variation: 2.0 };
    assert_eq!(db.service, [Step::on("table", log_normal)]);
    let own: Vec<_> = scenario.global.as_ref().unwrap().knobs().collect();
    assert_eq!(own, [("aim_ratio", 0.8), ("period_seconds", 0.5)]);
    assert_eq!((db.workers, db.batch_cost, db.clean_up), (20, ms(4), ms(1)));
    assert_eq!((db.degradable.get(), db.batch_cost_covers), (0.8, 200));
    assert_eq!(db.measured_from, MeasuredFrom::Service);
    let [(web, of_web), (db, of_db)] = &file.laws[..] else { panic!("two stages with laws") };
    assert_eq!((&**web, &**db), ("web", "db"));
    assert_eq!(*of_web, Laws::new().admission("predict-gate-trim", &[]).unwrap());
    assert_eq!(of_db.coordination, Coordination::Composition);
    let mut names = Vec::new();
    of_db.each(|rules, name, _| names.push((rules, name)));
    assert_eq!(
        names,
        [
            ("admission", "red"),
            ("dropping", "selective-dropper"),
            ("workers", "pool-sizing"),
            ("batching", "throughput-batching"),
            ("quality", "degradation"),
            ("termination", "termination-threshold"),
        ]
    );

    let [crowd, users, visitors, readers] = &scenario.clients[..] else { panic!("four clients") };
    let rate = Profile::constant(100.0).spike(s(10), s(20), 1000.0).ramp(s(30), s(40), 500.0);
    let gaps = Distribution::Erlang { stages: 4, mean: s(1) };
    assert_eq!(crowd.load, Load::Open { rate: rate.step(s(50), 100.0), gaps });
    let mix = [("gold", 0.2), ("plain", 0.7), ("report", 0.05), ("poll", 0.03), ("stream", 0.02)];
    assert_eq!(crowd.mix, mix.map(|(name, share)| (name.to_owned(), share)));
    assert_eq!(crowd.greedy.map(Ratio::get), Some(0.5));
    assert_eq!(crowd.leaves, Some(Distribution::Exponential(s(5))));
    assert_eq!((crowd.flows, crowd.patience), (100, Some(s(2))));
    assert_eq!((crowd.retry.attempts_max, crowd.retry.pause_max), (3, s(30)));
    assert_eq!((crowd.retry.growth, crowd.retry.heed), (2.0, Heed::RetryAfter));
    let think = Distribution::Exponential(ms(20));
    let counts = vec![(s(0), 3), (s(10), 1000), (s(20), 3)];
    let load = Load::Closed { users: counts, think };
    assert_eq!(*users, Client::new("users", "web", load).resend(ms(1500)));
    assert!(matches!(visitors.load, Load::Sessions { stay, .. } if stay.get() == 0.8));
    assert_eq!(*readers, Client::poisson("readers", "web", 2.0).calls(20));
}

#[test]
fn every_kind_of_time_is_understood() {
    let kinds = [
        "'20ms'",
        "{ constant = '20ms' }",
        "{ exponential = '20ms' }",
        "{ erlang = '20ms', stages = 4 }",
        "{ hyper_exponential = '20ms', variation = 2 }",
        "{ log_normal = '20ms', variation = 1.5 }",
        "{ pareto = '12ms', shape = 2.5 }",
        "{ uniform = ['10ms', '30ms'] }",
        "{ measured = ['11ms', '9ms', '40ms'] }",
        "{ mixture = [{ share = 0.5, constant = '10ms' }, { share = 0.5, constant = '30ms' }] }",
    ];
    for kind in kinds {
        let file = scenario::parse("kind.toml", &single(&format!("service = {kind}"))).unwrap();
        let mean = file.scenario.stages[0].service[0].work.mean().unwrap();
        assert_eq!(mean, Duration::from_millis(20), "{kind}");
    }
}

/// A scenario of one stage, but for `rest` of it.
fn single(rest: &str) -> String {
    format!(
        "duration = '60s'\np90 = '200ms'\n\
         [clients.crowd]\nopen = '100/s'\n\
         [stages.web]\nworkers = 8\n{rest}\n"
    )
}

#[test]
fn the_examples_are_sound_and_can_be_simulated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for folder in [folder.join("papers"), folder] {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = paths.filter(|path| path.is_file()).collect();
        assert!(!files.is_empty());
        for path in files {
            let file = scenario::load(&path)
                .unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
            Simulation::new(&file.scenario).unwrap();
        }
    }
}

#[test]
fn a_scenario_of_exponential_stages_is_a_network() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = scenario::load(&folder.join("slow-database.toml")).unwrap();
    let solution = file.network(None).unwrap().solve().unwrap();
    assert_eq!(solution.stages[2].equilibrium.arrivals.get(), 60.0);
    // 200/s × 5 ms over 4 workers, 200/s × 20 ms over 8, 60/s × 50 ms over 4.
    for (stage, busy) in solution.stages.iter().zip([0.25, 0.5, 0.75]) {
        let flow = stage.equilibrium.arrivals.get() / stage.equilibrium.capacity.get();
        assert!((flow - busy).abs() < 1e-12, "{} {flow}", stage.name);
    }
    let twice = file.network(PerSecond::new(400.0).ok()).unwrap();
    let overloaded = twice.solve().unwrap_err();
    assert_eq!(overloaded.stage, "db");
}

fn rendered(error: &dyn Diagnostic) -> String {
    let mut out = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none()).with_width(100);
    handler.render_report(&mut out, error).unwrap();
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn what_happens_may_begin_at_the_start() {
    let text = "
        duration = \"10s\"
        warm_up = \"0s\"
        p90 = \"1s\"
        [stages.web]
        workers = 8
        service = \"10ms\"
        outages = [{ from = \"0s\", until = \"1s\" }]
        pauses = [{ from = \"0s\", until = \"1s\" }]
        slow = [{ from = \"0s\", until = \"1s\", times = 2 }]
        [clients.crowd]
        closed = 3
        think = \"1s\"
        changes = [{ spike = 10, from = \"0s\", until = \"5s\" }]
    ";
    let file = scenario::parse("start.toml", text).unwrap();
    let second = Duration::from_secs(1);
    assert_eq!(file.scenario.stages[0].outages, [(Duration::ZERO, second)]);
    let Load::Closed { users, .. } = &file.scenario.clients[0].load else { panic!("closed") };
    assert_eq!(*users, [(Duration::ZERO, 10), (5 * second, 3)]);
    Simulation::new(&file.scenario).unwrap().start(1).finish();
}

/// Each file in `rejected` is a scenario with a mistake; the one beside it shows how it
/// is told. Set `SHOW_ANEW` to write those.
#[test]
fn a_mistake_is_shown_where_it_stands() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rejected");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let error = scenario::parse(name, &text)
            .and_then(|file| file.network(None)?.solve().map_err(|error| file.overloaded(&error)))
            .expect_err(name);
        let shown = rendered(&error);
        let expected = path.with_extension("txt");
        if std::env::var_os("SHOW_ANEW").is_some() {
            std::fs::write(&expected, &shown).unwrap();
        }
        assert_eq!(shown, std::fs::read_to_string(expected).unwrap(), "{name}");
        count += 1;
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn laws_are_named_as_in_the_file_of_protect() {
    let read = |laws: &str| {
        let text = single(&format!("service = '20ms'\n{laws}"));
        scenario::parse("law.toml", &text).map_err(|error| error.to_string())
    };
    let laws = |text: &str| read(text).unwrap().laws[0].1.clone();
    assert!(read("").unwrap().laws.is_empty());
    assert_eq!(laws("admission = 'red'"), Laws::new().admission("red", &[]).unwrap());
    let own = Laws::new().admission("red", &[("queue_min_count", 10.0)]).unwrap();
    assert_eq!(laws("admission = { law = 'red', queue_min_count = 10 }"), own);
    let more = own.dropping("codel", &[]).unwrap().quality("degradation", &[]).unwrap();
    let text = "admission = { law = 'red', queue_min_count = 10 }\ndropping = 'codel'";
    assert_eq!(laws(&format!("{text}\nquality = 'degradation'")), more);
    // As printed, a slow law needs no admission law; in a composition it does, unless it moves
    // nothing.
    let slow = Laws::new().batching("throughput-batching", &[]).unwrap();
    assert_eq!(laws("batching = 'throughput-batching'"), slow);
    let fixed = Laws::new().batching("fixed", &[]).unwrap();
    let composed = fixed.coordination(Coordination::Composition);
    assert_eq!(laws("batching = 'fixed'\ncoordination = 'composition'"), composed);

    let error = |text: &str| read(text).unwrap_err();
    assert_eq!(error("admission = { law = 'rad' }"), "unknown admission law \"rad\"");
    assert_eq!(
        error("admission = { law = 'codel', queue_min_count = 10 }"),
        "unknown key \"queue_min_count\""
    );
    let weight = error("admission = { law = 'red', weight_ratio = 2 }");
    assert!(weight.starts_with("weight_ratio of red cannot be 2"), "{weight}");
    assert!(error("admission = { law = 'red', queue_min_count = 50 }").starts_with("red: "));
    assert_eq!(
        error("admission = 'codel'\ndropping = 'codel'"),
        "codel is already the admission law"
    );
}

#[test]
fn a_stage_whose_workers_follow_a_law_begins_with_its_fewest() {
    let text = single("service = '20ms'\nadmission = 'codel'");
    let sized = "workers = { law = 'pool-sizing', workers_min_count = 3 }";
    let text = text.replace("workers = 8", sized);
    assert_eq!(scenario::parse("law.toml", &text).unwrap().scenario.stages[0].workers, 3);
}

#[test]
fn threads_that_exist_can_cost_speed() {
    let read = |speed: &str| {
        let text = single(&format!("service = '20ms'\n{speed}"));
        scenario::parse("speed.toml", &text).map_err(|error| error.to_string())
    };
    let penalty = "penalty = { threads = 20, free = 15, loss = 0.2 }";
    let file = read(&format!("cores = 4\n{penalty}")).unwrap();
    let threads = Speed::Threads { parallelism: 4.0, threads: 20, free: 15, loss: 0.2 };
    assert_eq!(file.scenario.stages[0].speed, threads);
    assert!(read(penalty).is_err() && read(&format!("cores = 4\nknee = 3\n{penalty}")).is_err());
}

#[test]
fn users_can_be_partly_open() {
    let text = single("service = '20ms'")
        .replace("open = '100/s'", "closed = 250\nthink = '500ms'\nresend = '1500ms'");
    let client = &scenario::parse("partly.toml", &text).unwrap().scenario.clients[0];
    assert_eq!(client.resend, Some(Duration::from_millis(1500)));
}

#[test]
fn measured_times_come_from_a_file_beside_the_scenario() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let scenario = folder.join("measured.toml");
    let times = folder.join("measured.txt");
    let text = single("service = { measured = 'measured.txt' }");
    let read = || scenario::parse(&scenario.display().to_string(), &text);
    std::fs::write(&times, "# of 2026\n11ms\n\n9ms\n 40ms # a slow one\n").unwrap();
    let work = &read().unwrap().scenario.stages[0].service[0].work;
    assert_eq!(work.mean().unwrap(), Duration::from_millis(20));
    std::fs::write(&times, "11ms\nfast\n").unwrap();
    assert!(read().unwrap_err().to_string().contains("measured.txt: line 2: "));
    std::fs::write(&times, "TAMTRACE\x09").unwrap();
    assert!(read().unwrap_err().to_string().ends_with("version 9; this program reads version 4"));
    std::fs::remove_file(&times).unwrap();
    assert!(read().unwrap_err().to_string().contains("No such file"));
}

#[test]
fn what_shares_a_resource_or_is_resized_by_a_law_has_no_closed_form() {
    let rejected = |rest: &str| {
        let file = scenario::parse("stage.toml", &single(rest)).unwrap();
        file.network(None).map(|_| ()).unwrap_err().to_string()
    };
    let table =
        "service = { on = 'table', exponential = '20ms' }\n[resources.table]\nconnections = 8";
    assert!(rejected(table).ends_with("it shares a resource"), "{}", rejected(table));
    let batches = "service = { exponential = '20ms' }\nbatch_cost = '1ms'";
    assert!(rejected(batches).ends_with("batches have a cost"));
    let text = single("service = { exponential = '20ms' }\nadmission = 'red'");
    let text = text.replace("workers = 8", "workers = 'pool-sizing'");
    let file = scenario::parse("stage.toml", &text).unwrap();
    assert!(file.network(None).unwrap_err().to_string().ends_with("a law sets its workers"));
}

#[test]
fn requests_that_come_at_once_have_no_closed_form() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = scenario::load(&folder.join("fan-out.toml")).unwrap();
    for at in [None, PerSecond::new(100.0).ok()] {
        let error = rendered(&file.network(at).unwrap_err());
        assert!(error.contains("20 requests come at once"), "{error}");
        assert!(error.contains("| calls = 20") && error.contains("one at a time"), "{error}");
    }
}

#[test]
fn what_laws_of_batches_and_quality_change_has_no_closed_form() {
    let network = |laws: &str| {
        let text = single(&format!("service = {{ exponential = '20ms' }}\n{laws}"));
        scenario::parse("stage.toml", &text).unwrap().network(None)
    };
    for (laws, why) in [
        ("batching = 'throughput-batching'", "workers take events in batches"),
        ("batching = { law = 'fixed', batch_events_count = 2 }", "workers take events in batches"),
        ("quality = 'degradation'", "a law sets its quality"),
    ] {
        let error = network(laws).unwrap_err().to_string();
        assert!(error.ends_with(why), "{error}");
    }
    assert!(network("batching = { law = 'fixed', batch_events_count = 1 }").is_ok());
    assert!(network("quality = 'full'").is_ok());
}

#[test]
fn percentiles_are_approximate_where_classes_go_before_others() {
    let solved = |discipline: &str, priority: u8| {
        let classes = format!("[classes.gold]\npriority = 0\n[classes.tin]\npriority = {priority}");
        let stage = format!("service = {{ exponential = '20ms' }}\ndiscipline = '{discipline}'");
        let text = single(&format!("{stage}\n{classes}"));
        scenario::parse("stage.toml", &text).unwrap().network(None).unwrap().solve().unwrap()
    };
    assert_eq!(solved("fifo", 1).percentiles, Accuracy::Exact);
    assert_eq!(solved("priority", 0).percentiles, Accuracy::Exact);
    for discipline in ["priority", "adaptive-lifo", "earliest-due"] {
        let solution = solved(discipline, 1);
        // Who goes first changes nothing about how many are inside.
        assert_eq!(solution.means, Accuracy::Exact);
        assert_eq!(solution.percentiles, Accuracy::Approximate, "{discipline}");
    }
}
