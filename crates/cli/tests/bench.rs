//! `bench`: every contender has the same answers, and a report that reads as one.

use crate::support::flowloom;

#[test]
fn tables_are_compared_with_the_first_one_and_the_floor() {
    let arguments = ["bench", "table", "--flows", "2k", "--rounds", "2", "--format", "json"];
    let document = flowloom(arguments).ends(0).json();
    assert_eq!(document["schema"], "flowloom/bench/1");
    assert_eq!(document["complete"], true);
    let ratios = document["ratios"].as_array().unwrap();
    let has = |work: &str, rival: &str| {
        ratios.iter().any(|row| row["work"].as_str().unwrap().starts_with(work) && row["rival"] == rival)
    };
    assert!(has("hit, batch 256: linehash", "std") && has("miss", "floor") && has("build", "chained"));
    assert!(!has("hit, single", "floor"), "the floor has no single lookups");
}

#[test]
fn keys_of_forty_bytes_and_a_flood_have_rows() {
    let arguments = [
        "bench",
        "table",
        "--table",
        "dhash,linehash",
        "--flows",
        "1k",
        "--rounds",
        "1",
        "--work",
        "hit,flood",
        "--key",
        "v6",
    ];
    flowloom(arguments).ends(0).shows(&["hit, batch 256: dhash", "flows of one CRC", "paper mode"]);
}

#[test]
fn what_cannot_be_compared_is_said() {
    flowloom(["bench", "table", "--flows", "0"]).ends(2).says(&["--flows 0"]);
    flowloom(["bench", "table", "--rounds", "0"]).ends(2).says(&["--rounds"]);
    flowloom(["bench", "table", "--table", "tabel"]).ends(2).says(&["'tabel'", "linehash"]);
    flowloom(["bench", "table", "--isa", "mmx"]).ends(2).says(&["'mmx'"]);
}
