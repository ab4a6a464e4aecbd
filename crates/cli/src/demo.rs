//! `tamarisk demo`: a flash crowd against a slow service, with and without control.

mod comparison;
mod service;
mod table;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tamarisk_control::Target;
use tamarisk_load::{Change, ClosedLoop, Plan, Report, RetryAfter, Schedule, Spread, Workload};
use tamarisk_protect::{Options, Running};
use tamarisk_proxy::Origin;

use self::comparison::DemoComparison;
use self::service::DemoService;
use self::table::Table;
use crate::ending::Ending;
use crate::interrupt::{asked_to_end, interrupted};
use tamarisk_plot::Format;

const EXAMPLES: &str = "\
Examples:
  tamarisk demo
  tamarisk demo --quick --out /var/tmp

By hand, each in a terminal of its own:
  tamarisk demo --serve 127.0.0.1:3000
  tamarisk protect http://127.0.0.1:3000 --p90 200ms --status 127.0.0.1:9090
  tamarisk load http://127.0.0.1:8080/ --users 1000 --think 20ms --target 200ms";

const STORY: &str = "\
A service has 8 workers, needs 20 ms for a request, and so answers 400 a second at best.
3 users become 1,000 in one instant, and 3 again. Each waits for an answer, thinks for 20 ms,
and asks again; whoever is rejected comes back after about a second.
What counts is an answer within 200 ms.";

/// The files that are saved.
#[cfg(feature = "png")]
const PLOTS: &[&str] = &["flash-crowd.svg", "flash-crowd.png"];
#[cfg(not(feature = "png"))]
const PLOTS: &[&str] = &["flash-crowd.svg"];

/// The promise to clients: the service itself takes 20 ms at the mean, and 46 ms
/// at the 90th percentile.
const TARGET: Duration = Duration::from_millis(200);
const CALM_USERS: f64 = 3.0;
const CROWD_USERS: f64 = 1000.0;
const THINK: Duration = Duration::from_millis(20);
/// About; a rejected user is back soon, so that 1000 of them ask for several times
/// what the service can do.
const AFTER_REJECT: Duration = Duration::from_secs(1);

/// Compare a slow service under a flash crowd without and with overload control
///
/// Starts a service of 8 workers that can answer about 400 requests per second. The number of
/// users rises from 3 to 1,000 and falls back to 3: first directly, then behind `tamarisk
/// protect`. Shows both live, compares them, and saves a plot.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Run for a third of the time
    #[arg(long)]
    quick: bool,
    /// Directory for the plot `flash-crowd.svg`, and `flash-crowd.png` if built with the feature `png`
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Only run the slow service, on this address, to try `protect` and `load` by hand
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["quick", "out"])]
    serve: Option<SocketAddr>,
}

impl Demo {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        if let Some(address) = self.serve {
            return serve(address);
        }
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot create the directory {}", self.out.display()))?;
        let service = DemoService::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.compare(&service))
    }

    async fn compare(&self, service: &DemoService) -> anyhow::Result<Ending> {
        writeln!(io::stdout(), "{STORY}\n")?;
        let directly = self.crowd("Directly", service.address()).await?;
        if directly.interrupted {
            return Ok(Ending::Interrupted);
        }
        writeln!(io::stdout())?;
        let front = front(service.address()).await?;
        let protected = self.crowd("Behind tamarisk protect", front.local_addr()).await?;
        if protected.interrupted {
            return Ok(Ending::Interrupted);
        }
        let comparison = DemoComparison { directly: &directly, protected: &protected };
        write!(io::stdout(), "\n{}\n", comparison.table())?;
        let figure = comparison.figure();
        for name in PLOTS {
            let path = self.out.join(name);
            let bytes = figure.encode(Format::of(&path))?;
            std::fs::write(&path, bytes)
                .with_context(|| format!("cannot write {}", path.display()))?;
            writeln!(io::stdout(), "Saved {}", path.display())?;
        }
        Ok(Ending::Done)
    }

    /// Sends the crowd to `address`, and shows it live under `title`.
    async fn crowd(&self, title: &str, address: SocketAddr) -> anyhow::Result<Report> {
        let ms = Duration::from_millis;
        let (calm, crowd, interval) = if self.quick {
            (ms(2000), ms(4000), ms(500))
        } else {
            (ms(6000), ms(12_000), ms(1000))
        };
        let spike = Change::Spike { to: CROWD_USERS, from: calm, until: calm + crowd };
        let users = Schedule::new(CALM_USERS, vec![spike], Some(calm + crowd + calm))?;
        let workload = Workload::Closed(ClosedLoop {
            users,
            think: THINK,
            after_reject: AFTER_REJECT,
            retry_after: RetryAfter::Ignore,
            spread: Spread::new(0.5)?,
            resend: None,
        });
        let plan = Plan::builder(workload, vec![format!("http://{address}/").parse()?])
            .target(TARGET)
            .interval(interval)
            .threads(1)
            .build()?;
        let table = Table::begin(title, service::CAPACITY_PER_SECOND);
        Ok(tamarisk_load::run(plan, interrupted(), |interval| table.add(interval)).await?)
    }
}

/// Runs the slow service until the user ends it.
fn serve(address: SocketAddr) -> anyhow::Result<Ending> {
    let service = DemoService::start(address)?;
    eprintln!(
        "A service that answers 400 requests a second at best: http://{}/",
        service.address()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { asked_to_end().await });
    Ok(Ending::Done)
}

/// Puts `upstream` under overload control, on a free port.
async fn front(upstream: SocketAddr) -> anyhow::Result<Running> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let origin: Origin = format!("http://{upstream}").parse()?;
    Ok(tamarisk_protect::start(Options::single(listen, origin, Target::p90(TARGET)?)).await?)
}
