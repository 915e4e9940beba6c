//! `reproduce`: items by name, a report on disk, two saved results.

use crate::support::{Folder, flowloom};

#[test]
fn the_list_names_every_item() {
    let ids = |what: &[&str]| -> Vec<String> {
        let list = flowloom([&["reproduce", "list", "--format", "json"], what].concat()).ends(0).json();
        list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().into()).collect()
    };
    let all = ids(&[]);
    assert!(all.iter().any(|id| id == "dhash/table5_comparisons"), "{all:?}");
    flowloom(["reproduce", "list"]).ends(0).shows(&["dhash/table5_comparisons", "Tab. V"]);
    let some = ids(&["lfb"]);
    assert!(!some.is_empty() && some.iter().all(|id| id.starts_with("lfb/")), "{some:?}");
    flowloom(["reproduce", "list", "no-paper"]).ends(2).says(&["no paper or item 'no-paper'"]);
}

#[test]
fn an_item_is_found_by_the_start_of_its_name_and_run_once() {
    // A part of a word is not a name.
    flowloom(["reproduce", "dhash/section4_lo"]).ends(2);
    flowloom(["reproduce", "dhash/section4_load"]).ends(0).shows(&["1 item run"]);
    let twice =
        ["reproduce", "dhash/section4_load_factor", "dhash/section4_load_factor", "--format", "json"];
    let document = flowloom(twice).ends(0).json();
    assert_eq!(document["items"].as_array().unwrap().len(), 1);
    assert_eq!(document["complete"], true);
}

#[test]
fn a_report_is_written_where_it_was_asked_for() {
    let folder = Folder::new();
    let report = folder.path("report");
    flowloom(["reproduce", "dhash/table5", "--scale", "smoke", "--save", &report]).ends(0).shows(&[
        "Tab. V",
        "differs",
        "report.html",
        "1 item run: 0 agree, 1 differ",
    ]);
    let read = |name: &str| std::fs::read_to_string(format!("{report}/{name}")).unwrap();
    assert!(read("dhash/table5_comparisons-1.svg").contains("</svg>"));
    assert!(read("report.html").contains("dhash/table5_comparisons"));
    let columns =
        "value,unit,paper,ours,band_low,band_high,inside,paper_bound,as_stated,low,high,draws,unbanded";
    assert_eq!(read("dhash/table5_comparisons.csv").lines().next().unwrap(), columns);
}

#[test]
fn a_bound_of_a_paper_is_shown_as_one() {
    let item = ["reproduce", "tcbcache/fig1b_miss_share"];
    flowloom(item).ends(0).shows(&["> 50"]);
    flowloom([&item[..], &["--format", "csv"]].concat()).ends(0).shows(&[",50,", ",above"]);
    let document = flowloom([&item[..], &["--format", "json"]].concat()).ends(0).json();
    let values = &document["items"][0]["values"];
    assert_eq!(
        (values[0]["paper"].as_f64(), values[0]["paper_bound"].as_str()),
        (Some(50.0), Some("above"))
    );
}

#[test]
fn what_an_item_notices_is_a_table() {
    let item = ["reproduce", "hrwtree/section3_1", "--scale", "smoke"];
    flowloom([&item[..], &["--ablate"]].concat()).ends(0).shows(&[
        "without  constant (the weights have 12,346",
        "switched off",
        "by band",
    ]);
    let folder = Folder::new();
    let report = folder.path("report");
    flowloom([&item[..], &["--ablate", "--save", &report]].concat()).ends(0);
    let table = std::fs::read_to_string(format!("{report}/ablations.csv")).unwrap();
    assert!(
        table.lines().nth(1).unwrap().starts_with("hrwtree/section3_1_flat,constant,fault,differs,differs")
    );
}

#[test]
fn seeds_give_intervals_and_guesses_regions() {
    let item = ["reproduce", "hrwtree/fig1", "--scale", "smoke", "--seeds", "6"];
    flowloom([&item[..], &["--sweep"]].concat()).ends(0).shows(&[
        "seeds    1 to 6",
        " … ",
        "guess    elephant",
    ]);
    flowloom([&item[..], &["--guess", "elephant=50"]].concat()).ends(0);
    flowloom([&item[..], &["--guess", "whale=50"]].concat())
        .ends(2)
        .says(&["no selected item has the parameter 'whale'"]);
    flowloom([&item[..], &["--guess", "elephant"]].concat()).ends(2).says(&["NAME=VALUE"]);
    flowloom(["reproduce", "hrwtree/fig1", "--seeds", "0"]).ends(2).says(&["must be from 1 to 1000"]);
}

#[test]
fn two_reproductions_are_compared_by_verdict_and_value() {
    let folder = Folder::new();
    let saved = |name: &str, more: &[&str]| {
        let path = folder.path(name);
        let run = ["reproduce", "hrwtree/fig1", "--scale", "smoke", "--seeds", "6", "--save", &path];
        flowloom([&run[..], more].concat()).ends(0);
        path
    };
    let (base, other) = (saved("base", &[]), saved("other", &["--guess", "elephant=50"]));
    flowloom(["compare", &base, &base])
        .ends(0)
        .shows(&["1 item: 0 with a different verdict, 0 values that differ"]);
    let document = flowloom(["compare", &base, &other, "--format", "json"]);
    let document = document.json();
    assert!(!document["values"].as_array().unwrap().is_empty());
}

#[test]
fn a_report_that_cannot_be_written_is_said_after_the_result() {
    let folder = Folder::new();
    let file = folder.write("file", b"");
    flowloom(["reproduce", "dhash/section4_load_factor", "--save", &file]).ends(5).says(&["cannot write"]);
}

#[test]
fn two_runs_of_what_is_simulated_print_the_same_numbers() {
    let run = || {
        let mut document = flowloom([
            "reproduce",
            "dhash/section6",
            "--scale",
            "smoke",
            "--seed",
            "9",
            "--format",
            "json",
        ])
        .ends(0)
        .json();
        document["items"][0]["values"].take()
    };
    assert_eq!(run(), run());
}

#[test]
fn what_does_not_exist_is_a_usage_error() {
    flowloom(["reproduce", "nonsense"])
        .ends(2)
        .says(&["no paper or item 'nonsense'", "papers: dhash, flownp, tcbcache"]);
    flowloom(["reproduce", "dhash/section4_load_factor", "--data", "no/such/folder"])
        .ends(2)
        .says(&["no/such/folder"]);
}
