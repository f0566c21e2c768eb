use std::{
    env,
    fmt::Write,
    fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use toolcell_guest::{
    ErrorClass, Outcome, Output, ToolError,
    cancellation::AbortReason,
    serde_json::{Value, json},
    testing,
};

use crate::Toolkit;

/// A temporary folder for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("toolcell-chart-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// The SVG of a chart.
    fn svg(&self, mut input: Value) -> Result<String, ToolError> {
        input["save_to"] = json!(self.path("chart.svg"));
        input["overwrite"] = json!(true);
        answer(input)?;
        Ok(fs::read_to_string(self.path("chart.svg")).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn output(input: Value) -> Result<Output<Value>, ToolError> {
    testing::validate::<Toolkit>("draw", input.clone())?;
    match testing::invoke::<Toolkit>("draw", input) {
        Outcome::Success(output) => Ok(output),
        Outcome::Failure(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn answer(input: Value) -> Result<Value, ToolError> {
    output(input).map(|output| output.structured.unwrap())
}

fn code(input: Value) -> String {
    answer(input).unwrap_err().code
}

fn sales() -> Value {
    json!([
        {"month": "2026-01-01", "city": "Łódź", "sales": 10, "returns": 1},
        {"month": "2026-02-01", "city": "Łódź", "sales": 12.5, "returns": 2},
        {"month": "2026-01-01", "city": "Lyon", "sales": 7, "returns": 0},
        {"month": "2026-02-01", "city": "Lyon", "sales": null, "returns": 3},
        {"month": "2026-03-01", "city": "Lyon", "sales": 9, "returns": 1}
    ])
}

#[test]
fn every_kind_is_drawn_as_svg_and_as_png() {
    let folder = Folder::new();
    for (kind, more) in [
        ("line", json!({"x": "month", "y": "sales", "group": "city"})),
        ("bar", json!({"x": "city", "y": ["sales", "returns"]})),
        (
            "bar",
            json!({"x": "city", "y": ["sales", "returns"], "stacked": true}),
        ),
        ("bar", json!({"x": "city", "aggregate": "count"})),
        (
            "area",
            json!({"x": "month", "y": "sales", "group": "city", "stacked": true}),
        ),
        (
            "scatter",
            json!({"x": "sales", "y": "returns", "group": "city"}),
        ),
        ("histogram", json!({"x": "sales", "bins": 4})),
        ("pie", json!({"x": "city", "y": "sales"})),
        ("line", json!({"y": "sales"})),
    ] {
        let mut input = json!({"kind": kind, "rows": sales(), "title": "Two cities"});
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        let svg = folder.svg(input.clone()).unwrap();
        assert!(
            svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"),
            "{kind}"
        );
        assert!(svg.contains(">Two cities</text>"), "{kind}: {svg}");
        let output = output(input).unwrap();
        let image = &output.content[1];
        assert_eq!(image.get("media_type").unwrap(), "image/png");
        assert!(
            image
                .get("data")
                .unwrap()
                .as_str()
                .unwrap()
                .starts_with("iVBORw0KGgo")
        );
        assert_eq!(output.structured.unwrap()["rows"], 5);
    }
}

#[test]
fn an_axis_of_dates_is_one_of_time_and_texts_are_categories() {
    let folder = Folder::new();
    let input = json!({"kind": "line", "rows": sales(), "x": "month", "y": "returns"});
    assert_eq!(answer(input.clone()).unwrap()["x_values"], "time");
    assert!(folder.svg(input).unwrap().contains(">Feb 2</text>"));
    let input = json!({"kind": "line", "rows": sales(), "x": "city", "y": "returns"});
    assert_eq!(answer(input).unwrap()["x_values"], "texts");
    let rows = json!([{"x": "007", "y": 1}, {"x": "010", "y": 2}]);
    let input = json!({"kind": "scatter", "rows": rows, "x": "x", "y": "y"});
    assert_eq!(
        answer(input).unwrap()["x_values"],
        "texts",
        "codes are no numbers"
    );
}

#[test]
fn bars_add_up_rows_and_their_categories_are_sorted_if_they_are_numbers() {
    let folder = Folder::new();
    let rows = json!([{"year": 2026, "n": 1}, {"year": 2024, "n": 2}, {"year": 2026, "n": 4}]);
    let mut input = json!({"kind": "bar", "rows": rows, "x": "year", "y": "n"});
    let svg = folder.svg(input.clone()).unwrap();
    assert!(svg.find(">2024<").unwrap() < svg.find(">2026<").unwrap());
    // The highest tick is that of the sum.
    assert!(svg.contains(">5</text>"), "{svg}");
    input["aggregate"] = json!("max");
    let svg = folder.svg(input).unwrap();
    assert!(!svg.contains(">5</text>") && svg.contains(">max of n</text>"));
}

#[test]
fn markup_in_any_text_stays_text() {
    let folder = Folder::new();
    let evil = "<script>alert(\"1\")</script>&amp;'\u{0}\u{1b}\u{ffff}\n]]>";
    let rows = json!([{evil: 1, "x": evil, "g": evil}, {evil: 2, "x": "b", "g": "c"}]);
    for kind in ["line", "bar", "area", "scatter", "pie"] {
        let mut input = json!({
            "kind": kind, "rows": rows, "x": "x", "y": evil, "title": evil, "x_title": evil,
            "width": 4000, "height": 600
        });
        if kind != "pie" {
            input["group"] = json!("g");
        }
        let svg = folder.svg(input.clone()).unwrap();
        assert!(
            !svg.contains("<script") && !svg.contains("]]>"),
            "{kind}: {svg}"
        );
        assert!(svg.contains("&lt;script&gt;alert(&quot;1&quot;)"), "{kind}");
        assert!(
            !svg.chars()
                .any(|letter| letter.is_control() && letter != '\n')
        );
        assert!(!svg.contains('\u{ffff}'));
    }
}

#[test]
fn numbers_that_are_none_are_named_with_their_row_and_column() {
    let folder = Folder::new();
    for text in [
        "NaN",
        "inf",
        "-Infinity",
        "n/a",
        "1,5",
        "1e999",
        "0x10",
        "--1",
    ] {
        let path = folder.file("a.tsv", format!("x\ty\n1\t2\n2\t{text}\n"));
        let error = answer(json!({"kind": "line", "file": path, "x": "x", "y": "y"})).unwrap_err();
        assert_eq!(
            (error.class, error.code.as_str()),
            (ErrorClass::InvalidArguments, "not_a_number")
        );
        assert!(
            error.message.starts_with("row 2: the column \"y\""),
            "{}",
            error.message
        );
    }
}

#[test]
fn data_without_values_is_refused() {
    let draw = |rows: Value| json!({"kind": "line", "rows": rows, "x": "x", "y": "y"});
    assert_eq!(code(draw(json!([]))), "data_empty");
    assert_eq!(code(draw(json!([{"x": 1, "y": null}]))), "data_empty");
    assert_eq!(code(draw(json!([{"x": "", "y": 1}]))), "data_empty");
    let error = answer(draw(json!([{"x": 1, "z": 2}]))).unwrap_err();
    assert_eq!(error.code, "column_unknown");
    assert!(error.message.ends_with("it has x, z"), "{}", error.message);
    let folder = Folder::new();
    for (name, text, expected) in [
        ("a.csv", "", "column_unknown"),
        ("a.csv", "x,y\n", "data_empty"),
        ("a.csv", "x,y\n1,2,3\n", "csv_invalid"),
        ("a.json", "{}", "json_invalid"),
        ("a.json", "[1]", "json_invalid"),
        ("a.json", "[{\"x\": 1", "json_invalid"),
        ("a.ndjson", "{\"x\": 1}\nno\n", "json_invalid"),
        ("a.txt", "x,y\n1,2\n", "format_unknown"),
    ] {
        let path = folder.file(name, text);
        let input = json!({"kind": "line", "file": path, "x": "x", "y": "y"});
        assert_eq!(code(input), expected, "{name}: {text}");
    }
    let input = json!({"kind": "line", "file": folder.path("none.csv"), "y": "y"});
    assert_eq!(code(input), "not_found");
}

#[test]
fn files_of_each_format_give_the_same_chart() {
    let folder = Folder::new();
    let mut charts = Vec::new();
    for (name, text) in [
        ("a.csv", "x,\"y\",other\n1,2,a\n2,4.5,\n"),
        ("b.csv", "\u{feff}x;y\n1;2\n2;4.5\n"),
        ("a.tsv", "x\ty\n1\t2\n2\t4.5\n"),
        ("a.json", r#"[{"x": 1, "y": 2}, {"x": 2, "y": 4.5}]"#),
        (
            "a.jsonl",
            "{\"x\": 1, \"y\": 2}\n\n{\"x\": 2, \"y\": \"4.5\"}\n",
        ),
    ] {
        let path = folder.file(name, text);
        let input = json!({"kind": "line", "file": path, "x": "x", "y": "y"});
        charts.push(folder.svg(input).unwrap());
    }
    assert!(charts.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn rows_series_and_categories_have_limits() {
    let folder = Folder::new();
    let mut csv = "x,y,g\n".to_owned();
    for row in 0..100_000 {
        writeln!(csv, "{row},{},{}", (row * 7919) % 1000, row % 200).unwrap();
    }
    let path = folder.file("a.csv", &csv);
    let input = |kind: &str| json!({"kind": kind, "file": path, "x": "x", "y": "y"});
    for kind in ["line", "scatter", "area"] {
        // What cannot be seen is not written.
        let svg = folder.svg(input(kind)).unwrap();
        assert!(svg.len() < 4 << 20, "{kind}: {}", svg.len());
    }
    let mut grouped = input("line");
    grouped["group"] = json!("g");
    assert!(folder.svg(grouped).unwrap().contains("more</text>"));
    assert_eq!(code(input("bar")), "too_many_categories");
    let path = folder.file("a.csv", csv.clone() + "1,1,201\n");
    let input = json!({"kind": "line", "file": path, "x": "x", "y": "y"});
    assert_eq!(code(input), "too_many_rows");
    let rows: Vec<Value> = (0..201).map(|at| json!({"y": at, "g": at})).collect();
    let input = json!({"kind": "line", "rows": rows, "y": "y", "group": "g"});
    assert_eq!(code(input), "too_many_series");
}

#[test]
fn a_logarithmic_axis_refuses_what_it_cannot_show() {
    let draw = |kind: &str, y: f64, more: Value| {
        let mut input = json!({"kind": kind, "rows": [{"x": 1, "y": y}, {"x": 10, "y": 5}], "x": "x", "y": "y"});
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        input
    };
    assert_eq!(
        code(draw("line", 0.0, json!({"log_y": true}))),
        "log_not_positive"
    );
    assert_eq!(
        code(draw("bar", -1.0, json!({"log_y": true}))),
        "log_not_positive"
    );
    assert_eq!(
        code(draw("bar", 1.0, json!({"log_x": true}))),
        "log_not_for_kind"
    );
    assert_eq!(
        code(draw("area", 1.0, json!({"log_y": true, "stacked": true}))),
        "log_not_stacked"
    );
    answer(draw(
        "scatter",
        1000.0,
        json!({"log_x": true, "log_y": true}),
    ))
    .unwrap();
    answer(json!({"kind": "histogram", "rows": sales(), "x": "sales", "log_y": true})).unwrap();
    let dates =
        json!({"kind": "line", "rows": sales(), "x": "month", "y": "returns", "log_x": true});
    assert_eq!(code(dates), "log_not_positive");
}

#[test]
fn a_pie_has_no_negative_slices_and_one_for_the_rest() {
    let folder = Folder::new();
    let draw = |rows: Value| json!({"kind": "pie", "rows": rows, "x": "x", "y": "y"});
    assert_eq!(
        code(draw(json!([{"x": "a", "y": -1}, {"x": "b", "y": 2}]))),
        "negative_part"
    );
    assert_eq!(code(draw(json!([{"x": "a", "y": 0}]))), "data_empty");
    let rows: Vec<Value> = (1..=15)
        .map(|at| json!({"x": format!("s{at}"), "y": at}))
        .collect();
    let svg = folder.svg(draw(json!(rows))).unwrap();
    assert!(svg.contains(">17.5% 6 others</text>"), "{svg}");
    folder.svg(draw(json!([{"x": "all", "y": 3}]))).unwrap();
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let rows = sales();
    for (input, expected) in [
        (json!({"rows": rows, "y": "sales"}), "kind_missing"),
        (json!({"kind": "line", "y": "sales"}), "data_missing"),
        (
            json!({"kind": "line", "rows": rows, "file": "a.csv", "y": "sales"}),
            "data_twice",
        ),
        (json!({"kind": "line", "rows": rows}), "column_missing"),
        (
            json!({"kind": "pie", "rows": rows, "y": "sales"}),
            "column_missing",
        ),
        (json!({"kind": "histogram", "rows": rows}), "column_missing"),
        (
            json!({"kind": "histogram", "rows": rows, "x": "sales", "y": "sales"}),
            "column_not_used",
        ),
        (
            json!({"kind": "line", "rows": rows, "y": ["sales", "returns"], "group": "city"}),
            "too_many_columns",
        ),
        (
            json!({"kind": "line", "rows": rows, "y": "sales", "save_to": "a.jpg"}),
            "format_unknown",
        ),
        (
            json!({"kind": "line", "rows": rows, "y": "sales", "save_to": "a.png", "width": 4000,
                "height": 4000, "scale": 2}),
            "picture_too_large",
        ),
        (
            json!({"kind": "line", "rows": rows, "y": "sales", "title": "long ".repeat(50),
                "width": 160, "height": 120}),
            "too_small",
        ),
    ] {
        assert_eq!(code(input.clone()), expected, "{input}");
    }
}

#[test]
fn a_file_is_written_whole_and_replaced_only_if_that_is_asked_for() {
    let folder = Folder::new();
    let save_to = folder.path("a.png");
    let mut input =
        json!({"kind": "line", "rows": sales(), "y": "returns", "save_to": save_to, "scale": 2});
    let output = output(input.clone()).unwrap();
    assert_eq!(
        output.content.len(),
        1,
        "a chart that was saved is returned only if that is asked for"
    );
    let drawn = output.structured.unwrap();
    assert_eq!(
        (&drawn["width"], &drawn["height"]),
        (&json!(1600), &json!(1000))
    );
    assert_eq!(drawn["bytes"], fs::metadata(&save_to).unwrap().len());
    assert_eq!(code(input.clone()), "already_exists");
    input["overwrite"] = json!(true);
    input["show"] = json!(true);
    assert_eq!(self::output(input).unwrap().content.len(), 2);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_returned_image_is_bounded() {
    let rows: Vec<Value> = (0..20_000_u32)
        .map(|at| json!({"x": at.wrapping_mul(2_654_435_761) % 9973, "y": at.wrapping_mul(40_503) % 7919}))
        .collect();
    let input =
        json!({"kind": "scatter", "rows": rows, "x": "x", "y": "y", "width": 4000, "height": 4000});
    let output = output(input).unwrap();
    let data = output.content[1]
        .get("data")
        .unwrap()
        .as_str()
        .unwrap()
        .len();
    assert!(data / 4 * 3 <= crate::output::SHOWN_BYTES_MAX, "{data}");
}

#[test]
fn letters_without_glyphs_are_reported() {
    let rows = json!([{"x": "漢字", "y": 1}, {"x": "ok", "y": 2}]);
    let drawn = answer(json!({"kind": "bar", "rows": rows, "x": "x", "y": "y"})).unwrap();
    assert!(
        drawn["notes"][0].as_str().unwrap().contains("漢字"),
        "{drawn}"
    );
    let drawn = answer(json!({"kind": "bar", "rows": sales(), "x": "city", "y": "sales"})).unwrap();
    assert_eq!(drawn.get("notes"), None);
}

#[test]
fn numbers_of_any_size_end_in_a_chart_or_a_reason() {
    let folder = Folder::new();
    let numbers = [
        0.0,
        -0.0,
        1.0,
        -1e300,
        1.7e308,
        -1.7e308,
        5e-324,
        1e-300,
        1e15,
        253_402_300_800.0,
    ];
    for kind in ["line", "bar", "area", "scatter", "histogram", "pie"] {
        for one in numbers {
            for two in numbers {
                let rows = json!([{"x": one, "y": two}, {"x": two, "y": one}]);
                let mut input = json!({
                    "kind": kind, "rows": rows, "x": "x", "width": 240, "height": 160
                });
                if kind != "histogram" {
                    input["y"] = json!("y");
                }
                for log in [false, true] {
                    input["log_y"] = json!(log && kind != "pie");
                    if let Ok(svg) = folder.svg(input.clone()) {
                        assert!(
                            !svg.contains("NaN") && !svg.contains("inf"),
                            "{input}: {svg}"
                        );
                    }
                }
                input["log_y"] = json!(false);
                if one == two {
                    let _ = output(input);
                }
            }
        }
    }
}

#[test]
fn dates_of_any_age_have_ticks() {
    let folder = Folder::new();
    for (from, to) in [
        ("0001-01-01", "9999-12-31"),
        ("2026-01-01T10:00:00", "2026-01-01T10:00:00.5"),
        ("2026-01-01", "2026-01-01"),
        ("2026-12-31T23:59", "2027-01-01T00:01"),
    ] {
        let rows = json!([{"t": from, "y": 1}, {"t": to, "y": 2}]);
        let svg = folder
            .svg(json!({"kind": "area", "rows": rows, "x": "t", "y": "y"}))
            .unwrap();
        assert!(!svg.contains("NaN"), "{from} {to}");
    }
}

#[test]
fn a_subset_of_vega_lite_is_drawn() {
    let folder = Folder::new();
    let chart = json!({
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": "Sales"},
        "data": {"values": sales()},
        "mark": {"type": "bar", "tooltip": true},
        "encoding": {
            "x": {"field": "city", "type": "nominal"},
            "y": {"field": "sales", "type": "quantitative", "aggregate": "sum", "title": "EUR"},
            "color": {"field": "month"}
        },
        "width": 400
    });
    let svg = folder.svg(json!({ "vega_lite": chart })).unwrap();
    for part in [
        ">Sales<",
        ">EUR<",
        ">Łódź<",
        ">2026-03-01<",
        "width=\"400\"",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let path = folder.file("a.csv", "v\n1\n2\n2\n3\n");
    let chart = json!({
        "data": {"url": path}, "mark": "bar",
        "encoding": {"x": {"field": "v", "bin": {"maxbins": 5}}, "y": {"aggregate": "count"}}
    });
    assert_eq!(
        answer(json!({ "vega_lite": chart })).unwrap()["kind"],
        "histogram"
    );
    let chart = json!({
        "data": {"values": sales()}, "mark": "arc",
        "encoding": {"theta": {"field": "sales"}, "color": {"field": "city"}}
    });
    assert_eq!(
        answer(json!({ "vega_lite": chart })).unwrap()["kind"],
        "pie"
    );
    let chart = json!({
        "data": {"values": sales()}, "mark": "bar",
        "encoding": {"y": {"field": "city", "type": "nominal"}, "x": {"field": "sales", "aggregate": "mean"}}
    });
    let drawn = answer(json!({ "vega_lite": chart })).unwrap();
    assert!(drawn["notes"][0].as_str().unwrap().contains("upright"));
}

#[test]
fn what_vega_lite_has_and_this_subset_has_not_is_refused_by_name() {
    let base = json!({
        "data": {"values": sales()}, "mark": "line",
        "encoding": {"x": {"field": "month"}, "y": {"field": "sales"}}
    });
    for (path, value, named) in [
        ("/transform", json!([]), "transform"),
        ("/layer", json!([]), "layer"),
        ("/mark", json!("geoshape"), "mark geoshape"),
        ("/encoding/size", json!({"field": "sales"}), "encoding.size"),
        (
            "/encoding/x",
            json!({"field": "month", "timeUnit": "year"}),
            "timeUnit",
        ),
        (
            "/encoding/y",
            json!({"field": "sales", "aggregate": "stdev"}),
            "stdev",
        ),
        ("/data", json!({"values": [1]}), "data.values"),
        ("/data", json!(null), "data"),
        ("/width", json!(1e9), "width"),
        ("/mark", json!(null), "mark"),
    ] {
        let mut chart = base.clone();
        match path.rsplit_once('/').unwrap() {
            ("", key) => chart[key] = value,
            (parent, key) => chart.pointer_mut(parent).unwrap()[key] = value,
        }
        let error = answer(json!({ "vega_lite": chart })).unwrap_err();
        assert!(error.message.contains(named), "{path}: {}", error.message);
    }
    let both = json!({"vega_lite": base, "kind": "bar"});
    assert_eq!(code(both), "kind_twice");
}

#[test]
fn a_canceled_call_writes_nothing() {
    let folder = Folder::new();
    testing::reset();
    testing::cancel(AbortReason::UserInterruption);
    let save_to = folder.path("a.svg");
    let input = json!({"kind": "line", "rows": sales(), "y": "returns", "save_to": save_to});
    assert_eq!(code(input), "canceled");
    assert!(!PathBuf::from(save_to).exists());
    testing::reset();
}
