//! Writes the report as one HTML page without scripts or external files; the page contains the
//! data.

use flowloom_measure::page::{Page, escape};

use crate::examine::Effect;
use crate::experiment::{Agreement, Value};
use crate::record::{Record, Reproduction};
pub use crate::value::number;

/// Returns the page.
pub fn html(reproduction: &Reproduction) -> String {
    let mut page = Page::new("Papers, run again");
    let host = &reproduction.host;
    page.meta(&format!(
        "flowloom {} {} · {} · {} · kernel {} · load {:.2} · noise {:.2} · seed {} · real data {}{}",
        reproduction.tool.version,
        reproduction.tool.git,
        host.cpu,
        host.isa,
        host.kernel,
        host.load1,
        host.noise_p95_over_p5,
        reproduction.seed,
        if reproduction.with_data { "at hand" } else { "not available" },
        if reproduction.complete { "" } else { " · interrupted" },
    ));
    page.meta(&reproduction.machine.line());
    overview(&mut page, reproduction);
    for (record, command) in reproduction.items.iter().zip(&reproduction.commands) {
        section(&mut page, record, command);
    }
    page.finish(&reproduction.to_json())
}

fn overview(page: &mut Page, reproduction: &Reproduction) {
    page.markup(format_args!("<table class=\"sortable claims\"><tr><th>item</th><th>place</th><th>claim</th><th>how</th><th>the paper</th><th>ours</th><th class=\"n\">s</th></tr>\n"));
    for record in &reproduction.items {
        let how: String = record.fidelity.iter().map(|fidelity| fidelity.letter()).collect();
        let ours = match (record.has_bands(), record.holds()) {
            (false, _) => "–",
            (true, true) => "inside",
            (true, false) => "<span class=\"bad\">outside</span>",
        };
        page.markup(format_args!(
                "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td>{2}</td><td>{how}</td><td class=\"{3}\">{4}</td><td>{ours}</td><td class=\"n\">{5:.1}</td></tr>\n",
                record.id,
                escape(record.place),
                escape(record.claim),
                class(&record.outcome.verdict),
                record.outcome.verdict.word(),
                record.seconds,
            ));
    }
    page.markup(format_args!(
        "</table>\n<p class=\"note\">M measured here, S simulated, A arithmetic, – out of reach. "
    ));
    page.markup(format_args!(
        "“Ours” says whether our own values lie in the bands that we set for them, – that none has a band; “s” the seconds that an item took here. \
         Green agrees with the paper, orange differs from it, red is outside our own band, grey is neither; in charts dark grey is the paper and nothing else.</p>\n"
    ));
}

fn section(page: &mut Page, record: &Record, command: &str) {
    let outcome = &record.outcome;
    page.markup(format_args!(
        "<h2 id=\"{0}\">{0} · {1}</h2>\n<p>{2}<br><b class=\"{3}\">{4}</b>: {5}</p>\n",
        record.id,
        escape(record.place),
        escape(record.claim),
        class(&outcome.verdict),
        outcome.verdict.word(),
        escape(outcome.verdict.text()),
    ));
    ablations(page, record);
    if !outcome.values.is_empty() {
        page.markup(format_args!("<table class=\"sortable values\"><tr><th>value</th><th class=\"n\">paper</th><th class=\"n\">here</th><th>unit</th><th class=\"n\">over seeds</th><th class=\"n\">our band</th></tr>\n"));
        for value in &outcome.values {
            row(page, value);
        }
        page.markup(format_args!("</table>\n"));
    }
    for chart in &outcome.charts {
        page.chart(chart);
    }
    for (why, names) in outcome.unbanded() {
        page.note(&format!("No band for {}: {why}.", names.join("; ")));
    }
    for (why, names) in outcome.apart() {
        page.note(&format!("The band leaves out the paper's value for {}: {why}.", names.join("; ")));
    }
    for note in &outcome.notes {
        page.note(note);
    }
    let seeds = match &record.seeds[..] {
        [first, .., last] => format!("seeds {first} to {last}"),
        [one] => format!("seed {one}"),
        [] => String::new(),
    };
    let charts = (1..=outcome.charts.len())
        .flat_map(|number| ["csv", "svg"].map(|ending| format!("{}-{number}.{ending}", record.id)));
    let files = [format!("{}.csv", record.id)].into_iter().chain(charts);
    let links: Vec<String> = files.map(|file| format!("<a href=\"{file}\">{file}</a>")).collect();
    page.markup(format_args!(
        "<p class=\"meta\">the paper's numbers: {} · data: {} · code: <code>{}</code> · {seeds} · again, in {:.1} s: <code>{}</code></p>\n",
        escape(record.numbers),
        links.join(", "),
        escape(&record.source()),
        record.seconds,
        escape(command),
    ));
}

/// Adds the runs with a switch turned, and the sweeps over guesses.
fn ablations(page: &mut Page, record: &Record) {
    if !record.ablations.is_empty() {
        page.markup(format_args!("<table><tr><th>switched</th><th>verdict then</th><th>noticed</th><th>outside its band, or greatest effect</th></tr>\n"));
    }
    for ablation in &record.ablations {
        let effect = ablation.effects.first().map_or_else(String::new, Effect::words);
        page.markup(format_args!(
            "<tr><td>{} ({})</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(ablation.switch),
            escape(ablation.about),
            escape(&ablation.verdict_words()),
            ablation.noticed.words(),
            escape(&effect),
        ));
    }
    if !record.ablations.is_empty() {
        page.markup(format_args!("</table>\n"));
    }
    for sweep in &record.sweeps {
        page.note(&format!("{} ({}): {}", sweep.guess, sweep.about, sweep.region()));
    }
}

fn row(page: &mut Page, value: &Value) {
    let paper = stated(value);
    let paper = escape(&paper);
    let band = value.band_text();
    let interval = value.interval.map_or_else(String::new, |interval| {
        format!("{} … {}", number(interval.low), number(interval.high))
    });
    let class = if value.holds() { "n" } else { "n bad" };
    page.markup(format_args!(
            "<tr><td>{}</td><td class=\"n\">{paper}</td><td class=\"{class}\">{}</td><td>{}</td><td class=\"n\">{interval}</td><td class=\"n\">{band}</td></tr>\n",
            escape(&value.name),
            number(value.ours),
            escape(value.unit),
        ));
}

fn class(verdict: &Agreement) -> &'static str {
    match verdict {
        Agreement::Agrees { .. } => "agrees",
        Agreement::Differs { .. } => "differs",
        Agreement::CannotRun { .. }
        | Agreement::CannotTell { .. }
        | Agreement::Definition { .. }
        | Agreement::DependsOnDraw { .. } => "cannot",
    }
}

/// Formats the paper's value; a limit is written as `< 6`. Empty if there is none.
pub fn stated(value: &Value) -> String {
    match (value.paper, value.paper_bound) {
        (Some(paper), Some(bound)) => format!("{} {}", bound.sign(), number(paper)),
        (Some(paper), None) => number(paper),
        (None, _) => String::new(),
    }
}
