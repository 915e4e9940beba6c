//! The report as one page: no script, nothing from elsewhere, the data inside.

use std::fmt::Write;

use crate::experiment::{Value, Verdict};
use crate::record::{Record, Reproduction};

const STYLE: &str = "
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin:2.4rem 0 .2rem}
table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
td.n,th.n{text-align:right}.meta,.note{color:#555;font-size:.9rem}
.agrees{color:#00694a}.differs{color:#a84300}.cannot{color:#555}.bad{color:#b00020;font-weight:600}
svg{max-width:100%;height:auto}details pre{overflow-x:auto;font-size:.8rem}
";

/// Returns the page.
pub fn html(reproduction: &Reproduction) -> String {
    let mut page = String::new();
    let host = &reproduction.host;
    let title = "Papers, run again";
    push(&mut page, format_args!("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"));
    push(&mut page, format_args!("<meta name=\"viewport\" content=\"width=device-width\">"));
    push(
        &mut page,
        format_args!("<title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"),
    );
    push(
        &mut page,
        format_args!(
            "<p class=\"meta\">flowloom {} {} · {} · {} · kernel {} · load {:.2} · noise {:.2} · seed {} · real data {}{}</p>\n",
            escape(&reproduction.tool.version),
            escape(&reproduction.tool.git),
            escape(&host.cpu),
            escape(&host.isa),
            escape(&host.kernel),
            host.load1,
            host.noise_p95_over_p5,
            reproduction.seed,
            if reproduction.with_data { "at hand" } else { "not at hand" },
            if reproduction.complete { "" } else { " · <b>interrupted</b>" },
        ),
    );
    overview(&mut page, reproduction);
    for record in &reproduction.items {
        section(&mut page, record);
    }
    // A closing tag inside the data would end it early.
    let data = reproduction.to_json().replace("</", "<\\/");
    push(
        &mut page,
        format_args!("<script type=\"application/json\" id=\"data\">\n{data}\n</script>\n</body></html>\n"),
    );
    page
}

fn overview(page: &mut String, reproduction: &Reproduction) {
    page.push_str("<table><tr><th>item</th><th>place</th><th>claim</th><th>how</th><th>the paper</th><th>ours</th></tr>\n");
    for record in &reproduction.items {
        let how: String = record.fidelity.iter().map(|fidelity| fidelity.letter()).collect();
        let ours = if record.holds() { "inside" } else { "<span class=\"bad\">outside</span>" };
        push(
            page,
            format_args!(
                "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td>{2}</td><td>{how}</td><td class=\"{3}\">{4}</td><td>{ours}</td></tr>\n",
                record.id,
                escape(record.place),
                escape(record.claim),
                class(&record.outcome.verdict),
                record.outcome.verdict.word(),
            ),
        );
    }
    page.push_str(
        "</table>\n<p class=\"note\">M measured here, S simulated, A arithmetic, – out of reach. ",
    );
    page.push_str("“Ours” says whether our own values lie in the bands that we set for them.</p>\n");
}

fn section(page: &mut String, record: &Record) {
    let outcome = &record.outcome;
    push(
        page,
        format_args!(
            "<h2 id=\"{0}\">{0} · {1}</h2>\n<p>{2}<br><b class=\"{3}\">{4}</b>: {5}</p>\n",
            record.id,
            escape(record.place),
            escape(record.claim),
            class(&outcome.verdict),
            outcome.verdict.word(),
            escape(outcome.verdict.text()),
        ),
    );
    if !outcome.values.is_empty() {
        page.push_str("<table><tr><th>value</th><th class=\"n\">paper</th><th class=\"n\">here</th><th>unit</th><th class=\"n\">our band</th></tr>\n");
        for value in &outcome.values {
            row(page, value);
        }
        page.push_str("</table>\n");
    }
    for chart in &outcome.charts {
        match chart.svg() {
            Ok(svg) => page.push_str(&svg),
            Err(error) => push(page, format_args!("<p class=\"note\">{}</p>", escape(&error.to_string()))),
        }
        page.push('\n');
    }
    for note in &outcome.notes {
        push(page, format_args!("<p class=\"note\">{}</p>\n", escape(note)));
    }
    push(page, format_args!("<p class=\"meta\">{:.1} s</p>\n", record.seconds));
}

fn row(page: &mut String, value: &Value) {
    let paper = value.paper.map_or_else(String::new, number);
    let band =
        value.band.map_or_else(String::new, |band| match (band.low.is_finite(), band.high.is_finite()) {
            (true, true) => format!("{} … {}", number(band.low), number(band.high)),
            (true, false) => format!("≥ {}", number(band.low)),
            (false, _) => format!("≤ {}", number(band.high)),
        });
    let class = if value.holds() { "n" } else { "n bad" };
    push(
        page,
        format_args!(
            "<tr><td>{}</td><td class=\"n\">{paper}</td><td class=\"{class}\">{}</td><td>{}</td><td class=\"n\">{band}</td></tr>\n",
            escape(&value.name),
            number(value.ours),
            escape(value.unit),
        ),
    );
}

fn class(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees { .. } => "agrees",
        Verdict::Differs { .. } => "differs",
        Verdict::CannotRun { .. } => "cannot",
    }
}

/// Returns a number with four figures that mean something.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return String::from("—");
    }
    if value.fract() == 0.0 && magnitude < 1e15 {
        return format!("{value:.0}");
    }
    match magnitude {
        m if !(1e-4..1e9).contains(&m) => format!("{value:.3e}"),
        m if m >= 1000.0 => format!("{value:.0}"),
        m if m >= 100.0 => format!("{value:.1}"),
        m if m >= 10.0 => format!("{value:.2}"),
        m if m >= 1.0 => format!("{value:.3}"),
        m if m >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.6}"),
    }
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("memory takes all text");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_figures() {
        let shown = [0.0, 11413.0, 3.72e-9, 67.312, 0.5474, 2.794e-8, f64::NAN, 249_036.8].map(number);
        assert_eq!(shown, ["0", "11413", "3.720e-9", "67.31", "0.5474", "2.794e-8", "—", "249037"]);
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
