//! Writes a report as one HTML page without external files; the page contains the data. Its only
//! script sorts tables: a click on the head of a column, or Enter, orders the rows by that column.

use std::fmt::Write;

use crate::chart::Chart;
pub use crate::text::escape;

const STYLE: &str = "
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin:2.4rem 0 .2rem}
table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}.meta,.note{color:#555;font-size:.9rem}
.agrees{color:#00694a}.differs{color:#a84300}.cannot{color:#555}.bad{color:#b00020;font-weight:600}
.chart{overflow-x:auto}svg{max-width:100%;height:auto}pre{overflow-x:auto;font-size:.85rem;line-height:1.4}summary{color:#555;font-size:.9rem}
table{display:block;overflow-x:auto}.fields{display:table;width:100%}.fields td{overflow-wrap:anywhere}
.fields th{white-space:nowrap}.fields span{display:inline-block;margin-right:1.4rem}
.sortable th{cursor:pointer}.sortable th[aria-sort=ascending]::after{content:\" ↑\"}.sortable th[aria-sort=descending]::after{content:\" ↓\"}
.short td:not(:last-child){white-space:nowrap}
body:has(.tiles){max-width:78rem;margin-top:.8rem}.tiles{display:flex;flex-wrap:wrap;gap:.5rem;margin:.5rem 0}
.tiles div{flex:1 0 6.5rem;border:1px solid #ddd;border-radius:.3rem;padding:.2rem .6rem}.tiles b{display:block;font-size:1.1rem}
.tiles span{color:#555;font-size:.85rem}.warnings p{margin:.2rem 0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,32rem),1fr));gap:0 1.2rem}.grid>div{min-width:0}
.tiles+.grid svg text{font-size:15px}.grid h2{margin:.4rem 0 0}.grid+.grid svg text,.grid~.grid svg text{font-size:13px}.grid th,.grid td{padding:.1rem .45rem}.grid td:first-child{overflow-wrap:anywhere;white-space:normal!important}.grid .scroll{max-height:18rem;overflow-y:auto;margin:.3rem 0}.grid .scroll td:first-child{min-width:7.5rem}.scroll{overflow-x:auto}.scroll table{display:table;width:100%;margin:0}.scroll .n{width:6.5rem}.grid .scroll .n{width:auto}.summary{font-weight:600}:root{color-scheme:light dark}
@media (max-width:30rem){body{margin:1rem auto;padding:0 .6rem;font-size:14px}th,td{padding:.2rem .4rem}.fields,.fields tbody,.fields tr,.fields th,.fields td{display:block}.fields th{white-space:normal;overflow-wrap:anywhere;border:0;padding-bottom:0}.fields th:empty{display:none}.chart svg{max-width:none;width:42rem}.claims td:nth-child(3){min-width:13rem}.values td:first-child{min-width:9rem}.claims td:first-child{min-width:8rem;overflow-wrap:anywhere}}
@media (prefers-color-scheme:dark){body{color:#e4e6ea;background:#15171b}th,td,.tiles div{border-color:#3b3f47}
.meta,.note,.cannot,summary,.tiles span{color:#a9afba}.agrees{color:#5fd3a6}.differs{color:#f0a35e}.bad{color:#ff7b8a}
svg{filter:invert(.92) hue-rotate(180deg)}}
@media print{body{max-width:none;margin:0}.chart,tr{break-inside:avoid}h2,h3,summary{break-after:avoid}details:not(.account){display:none}.grid .scroll{max-height:none}pre{white-space:pre-wrap}}
";

const SCRIPT: &str = r#"
for (const head of document.querySelectorAll("table.sortable th")) {
  const sort = () => {
    const table = head.closest("table"), at = head.cellIndex, rows = [...table.rows].slice(1);
    const down = head.ariaSort === "ascending";
    for (const other of table.rows[0].cells) other.ariaSort = null;
    head.ariaSort = down ? "descending" : "ascending";
    const key = row => row.cells[at]?.textContent.trim() ?? "";
    const number = text => {
      const [, digits, unit] = text.match(/^[+×≥]?([-−]?[\d., ]+)([a-zµ%/]{0,6})$/i) ?? [, "x", ""];
      const power = unit[1] === "s" ? {n: -9, µ: -6, m: -3}[unit[0]] : {k: 3, K: 3, M: 6, G: 9, T: 12}[unit[0]];
      return Number(digits.replace(/[ ,]/g, "").replace("−", "-")) * 10 ** (power ?? 0);
    };
    const before = (a, b) => {
      const [x, y] = [number(a), number(b)];
      return a !== "" && b !== "" && !isNaN(x) && !isNaN(y) ? x - y : a.localeCompare(b);
    };
    rows.sort((a, b) => (down ? -1 : 1) * before(key(a), key(b))).forEach(row => row.parentNode.append(row));
  };
  head.tabIndex = 0;
  head.addEventListener("click", sort);
  head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
}
"#;

/// Number of characters of the longest labels of fields.
const LABEL: usize = 11;

/// Maximum number of rows of figures below a picture; the data contains the others.
const ROWS_MAX: usize = 1501;

/// A page that is written from top to bottom.
///
/// # Examples
///
/// ```
/// use flowloom_measure::page::Page;
/// let mut page = Page::new("Lookups");
/// page.note("a < b");
/// let html = page.finish("{}");
/// assert!(html.starts_with("<!doctype html>") && html.contains("a &lt; b"));
/// ```
#[derive(Debug)]
pub struct Page {
    text: String,
}

impl Page {
    /// Returns a page with a title and no contents.
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        Self {
            text: format!(
                "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
                 <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
            ),
        }
    }

    /// Adds markup; the caller must have called [`escape`] on all text.
    ///
    /// # Panics
    ///
    /// Panics if formatting fails.
    pub fn markup(&mut self, markup: std::fmt::Arguments<'_>) {
        self.text.write_fmt(markup).expect("writing to a string cannot fail");
    }

    /// Adds a line about the page itself.
    pub fn meta(&mut self, text: &str) {
        self.markup(format_args!("<p class=\"meta\">{}</p>\n", escape(text)));
    }

    /// Adds a remark.
    pub fn note(&mut self, text: &str) {
        self.markup(format_args!("<p class=\"note\">{}</p>\n", escape(text)));
    }

    /// Adds the introduction: warnings, and figures with their names, as tiles.
    pub fn overview(&mut self, warnings: &[String], tiles: &[(&str, String)]) {
        self.text.push_str("<div class=\"warnings\">");
        for warning in warnings {
            self.markup(format_args!("<p class=\"bad\">{}</p>", escape(warning)));
        }
        self.text.push_str("</div>\n<div class=\"tiles\">");
        for (name, figure) in tiles {
            self.markup(format_args!("<div><b>{}</b><span>{}</span></div>", escape(figure), escape(name)));
        }
        self.text.push_str("</div>\n");
    }

    /// Adds parts side by side, as many as the window is wide.
    pub fn side_by_side<T>(&mut self, parts: &[T], add: impl Fn(&mut Self, &T)) {
        self.text.push_str("<div class=\"grid\">\n");
        for part in parts {
            self.text.push_str("<div>");
            add(self, part);
            self.text.push_str("</div>\n");
        }
        self.text.push_str("</div>\n");
    }

    /// Adds a section that is collapsed until the reader opens it.
    pub fn folded(&mut self, title: &str, add: impl FnOnce(&mut Self)) {
        self.markup(format_args!("<details class=\"account\"><summary>{}</summary>\n", escape(title)));
        add(self);
        self.text.push_str("</details>\n");
    }

    /// Adds lines with aligned columns.
    pub fn lines(&mut self, lines: &[String]) {
        self.markup(format_args!("<pre>{}</pre>\n", escape(&lines.join("\n"))));
    }

    /// Adds lines of fields, which two or more spaces separate, as a table: the first field is the
    /// label of the others, and a line without a label belongs to the one above it. The last line
    /// sums up.
    pub fn fields(&mut self, lines: &[String]) {
        let Some((summary, lines)) = lines.split_last() else { return };
        self.text.push_str("<table class=\"fields\">\n");
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            // The longest labels have one space behind them.
            let (label, rest) = match line.split_at_checked(LABEL) {
                _ if line.starts_with(' ') => (None, line.as_str()),
                Some((label, rest)) if rest.starts_with(' ') && !label.contains("  ") => {
                    (Some(label), rest)
                }
                _ => line
                    .split_once("  ")
                    .map_or((Some(line.as_str()), ""), |(label, rest)| (Some(label), rest)),
            };
            let fields = rest.split("  ").map(str::trim).filter(|field| !field.is_empty());
            self.markup(format_args!("<tr><th>{}</th><td>", escape(label.unwrap_or(""))));
            for field in fields {
                self.markup(format_args!("<span>{}</span>", escape(field)));
            }
            self.text.push_str("</td></tr>\n");
        }
        self.markup(format_args!("</table>\n<p class=\"summary\">{}</p>\n", escape(summary)));
    }

    /// Adds a table that a reader can sort. The first row is the head. Columns of numbers, which
    /// may have a unit, are aligned to the right and as wide in each table.
    pub fn table(&mut self, title: &str, rows: &[Vec<String>]) {
        let cells =
            |column: usize| rows.iter().skip(1).map(move |row| row.get(column).map_or("", |cell| cell));
        let has_numbers = |column: usize| {
            cells(column).all(|cell| is_number(cell) || NONE.contains(&cell))
                && cells(column).any(|cell| !cell.is_empty())
        };
        self.markup(format_args!(
            "<h2>{}</h2>\n<div class=\"scroll\"><table class=\"sortable short\">",
            escape(title)
        ));
        for (at, row) in rows.iter().enumerate() {
            let cell = if at == 0 { "th" } else { "td" };
            self.text.push_str("<tr>");
            for (column, text) in row.iter().enumerate() {
                let class = if has_numbers(column) { " class=\"n\"" } else { "" };
                self.markup(format_args!("<{cell}{class}>{}</{cell}>", escape(text)));
            }
            self.text.push_str("</tr>\n");
        }
        self.text.push_str("</table></div>\n");
    }

    /// Adds a picture with its figures below it, or the reason why there is no picture.
    pub fn chart(&mut self, chart: &Chart) {
        match chart.svg() {
            Ok(svg) => self.markup(format_args!("<div class=\"chart\">{svg}</div>\n")),
            Err(error) => return self.note(&error.to_string()),
        }
        self.text.push_str("<details><summary>figures</summary><table class=\"sortable\">");
        let rows = chart.rows();
        for (row, cell) in
            rows.iter().zip(std::iter::once("th").chain(std::iter::repeat("td"))).take(ROWS_MAX)
        {
            self.text.push_str("<tr>");
            for text in row {
                self.markup(format_args!("<{cell}>{}</{cell}>", escape(text)));
            }
            self.text.push_str("</tr>\n");
        }
        self.text.push_str("</table></details>\n");
        if rows.len() > ROWS_MAX {
            let more = rows.len() - ROWS_MAX;
            let more =
                if more == 1 { String::from("1 row more is") } else { format!("{more} rows more are") };
            self.note(&format!("{more} in the CSV file"));
        }
    }

    /// Returns the whole page, with this JSON in it.
    pub fn finish(mut self, json: &str) -> String {
        // A closing tag inside the data would end the element early, and a comment with an opening
        // tag would prevent its end. In JSON, this character occurs only in strings.
        let json = json.replace('<', "\\u003c");
        self.markup(format_args!(
            "<script type=\"application/json\" id=\"data\">\n{json}\n</script>\n<script>{SCRIPT}</script>\n</body></html>\n"
        ));
        self.text
    }
}

/// Cells that stand for no number.
const NONE: [&str; 3] = ["", "-", "–"];

/// Returns whether a cell is a number: with a sign, in groups of digits, with a unit.
fn is_number(cell: &str) -> bool {
    let number = cell.trim_start_matches(['+', '-', '−', '×', '≥', '≤', ' ']);
    let end =
        number.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ' ' | ',')).unwrap_or(number.len());
    let (digits, unit) = number.split_at(end);
    let is_short =
        unit.chars().count() <= 6 && unit.chars().all(|c| c.is_alphabetic() || matches!(c, '%' | '/'));
    let is_apart = unit.is_empty() || unit == "%" || digits.ends_with(' ');
    is_short && is_apart && digits.replace([' ', ','], "").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Series};

    #[test]
    fn text_is_escaped_in_markup() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        let mut page = Page::new("<b>");
        page.meta("<i>");
        page.lines(&[String::from("<u>"), String::from("two")]);
        let html = page.finish("\"</script><!--<script>\"");
        let text = html.replace(SCRIPT, "");
        assert_eq!(text.matches("<script>").count(), 1, "the one that sorts");
        for tag in ["<b>", "<i>", "<u>", "\"</script>", "<!--"] {
            assert!(!text.contains(tag), "{tag}");
        }
        assert!(html.contains("&lt;u&gt;\ntwo") && html.contains("\"\\u003c/script>"));
    }

    #[test]
    fn fields_of_the_page_have_labels() {
        let mut page = Page::new("P");
        let lines = ["Packets  1 <2   lost 0", "         more", "Not tracked not_ip 48", "", "all is well"];
        page.fields(&lines.map(String::from));
        let html = page.finish("{}");
        assert!(html.contains("<tr><th>Not tracked</th><td><span>not_ip 48</span></td></tr>"));
        assert!(html.contains("<tr><th>Packets</th><td><span>1 &lt;2</span><span>lost 0</span></td></tr>"));
        assert!(html.contains("<tr><th></th><td><span>more</span></td></tr>"));
        assert!(html.contains("<p class=\"summary\">all is well</p>"));
    }

    #[test]
    fn overview_precedes_folded_sections() {
        let mut page = Page::new("P");
        page.overview(&[String::from("cut <here>")], &[("flows", String::from("7"))]);
        page.side_by_side(&["a", "b"], |page, part| page.note(part));
        page.folded("all", |page| page.note("the rest"));
        let html = page.finish("{}");
        let parts = [
            "<p class=\"bad\">cut &lt;here&gt;</p>",
            "<div><b>7</b><span>flows</span></div>",
            "<div class=\"grid\">\n<div><p class=\"note\">a</p>",
            "<details class=\"account\"><summary>all</summary>",
            "the rest</p>\n</details>",
        ];
        let places: Vec<_> = parts.iter().map(|part| html.find(part).expect(part)).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn columns_of_numbers_are_marked() {
        for cell in
            ["7", "1 000", "5.00 %", "-12 %", "+1 %", "×12", "5.36 MB", "0.053 ms", "1.2 Mbit/s", "≥ 7"]
        {
            assert!(is_number(cell), "{cell}");
        }
        for cell in ["", "–", "1.2.3.4 > 5.6.7.8", "tcp/80", "7 of 9 shown", "MB", "12abc"] {
            assert!(!is_number(cell), "{cell}");
        }
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let mut page = Page::new("P");
        let rows =
            [row(["host", "bytes", "share"]), row(["1.2.3.4", "1 000", "5.00 %"]), row(["::1", "–", ""])];
        page.table("<T>", &rows);
        let html = page.finish("{}");
        let cells = "<td>1.2.3.4</td><td class=\"n\">1 000</td><td class=\"n\">5.00 %</td>";
        assert!(html.contains("<h2>&lt;T&gt;</h2>") && html.contains(cells), "{html}");
    }

    #[test]
    fn chart_is_followed_by_its_figures() {
        let chart = |y| {
            Chart::new("T", Axis::log("x"), Axis::linear("y"))
                .with(Series::line("ours & theirs", vec![(10.0, y)]))
        };
        let mut page = Page::new("P");
        page.chart(&chart(2.5));
        page.chart(&chart(f64::NAN));
        let html = page.finish("{}");
        assert!(
            html.contains("<svg") && html.contains("<td>ours &amp; theirs</td><td>10</td><td>2.5</td>")
        );
        assert!(html.contains("no point within its axes"));
    }
}
