//! Services that run in parallel with a replay: statistics on request and over HTTP, and reloading
//! of rules. Each service has its own thread, because it waits for files and clients.
//!
//! ```text
//!  signals ──▶ report    SIGUSR1: a line on stderr
//!         └──▶ rules     SIGHUP, or a file that changed: loaded and put in place, or a warning
//!  listen  ──▶ metrics   GET /metrics: Prometheus text
//! ```

mod metrics;
mod reload;
mod server;
mod statistics;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use flowloom::apps::firewall::LiveRules;
use flowloom::engine::Control;

use crate::args::Common;
use crate::exit::Failure;
use crate::render::say;
use crate::signals::{Request, handle_signals};

pub(crate) use reload::{Activate, Reload, ReloadCounts, Stamp};

use statistics::Statistics;

/// Starts all services that a run with this number of workers and these interfaces requests, and
/// returns the counts of reloads.
///
/// The threads run until the process ends, because the events they wait for may never happen.
///
/// # Errors
///
/// Returns [`Failure`] if a thread cannot be started.
pub(crate) fn start(
    control: &Arc<Control>,
    (workers, interfaces): (usize, &[String]),
    rules: Option<Arc<LiveRules>>,
    reload: Option<Reload>,
    listener: Option<TcpListener>,
) -> Result<Arc<ReloadCounts>, Failure> {
    let counts = Arc::new(ReloadCounts::default());
    let statistics = Statistics::new(Arc::clone(control));
    let (report, reports) = request();
    spawn("report", move || {
        let mut statistics = statistics;
        while reports.recv().is_ok() {
            say(&statistics.line());
        }
    })?;
    let (again, reloads) = (reload.is_some(), reload.map(|reload| (reload, request())));
    let reloader = match reloads {
        None => None,
        Some((reload, (sender, receiver))) => {
            let counts = Arc::clone(&counts);
            spawn("rules", move || reload.run(&receiver, &counts))?;
            Some(sender)
        }
    };
    let reloaded = again.then(|| Arc::clone(&counts));
    if let Some(listener) = listener {
        let (control, interfaces) = (Arc::clone(control), interfaces.to_vec());
        let page = move || {
            let now = control.snapshot();
            metrics::page(now, workers, &interfaces, rules.as_deref(), reloaded.as_deref())
        };
        spawn("metrics", move || server::serve(&listener, &page))?;
    }
    handle_signals(control, again, move |asked| match (asked, &reloader) {
        (Request::Report, _) => ask(&report),
        (Request::Reload, Some(reloader)) => ask(reloader),
        (Request::Reload, None) => {}
    });
    Ok(counts)
}

/// Opens the socket that serves statistics, if requested, and prints its address, because the
/// system may have chosen the port.
pub(crate) fn listen(
    address: Option<SocketAddr>,
    publicly: bool,
    common: &Common,
) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let listener = server::bind(address, publicly)?;
    let address = listener.local_addr().unwrap_or(address);
    if common.quiet < 2 {
        say(&format!("statistics at http://{address}/metrics"));
    }
    Ok(Some(listener))
}

/// Several equal requests count as one until a thread serves them.
fn request() -> (Sender<()>, Receiver<()>) {
    bounded(1)
}

fn ask(whom: &Sender<()>) {
    match whom.try_send(()) {
        Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(drop)
        .map_err(|error| Failure::Usage(format!("cannot start a thread: {error}")))
}
