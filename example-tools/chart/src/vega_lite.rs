//! A subset of Vega-Lite, as the plain arguments. What is outside of it is refused, not ignored.

use toolcell_guest::{
    ToolError,
    serde_json::{Map, Value},
};

use crate::{Aggregate, Columns, Draw, Kind, check};

type Object = Map<String, Value>;

/// Keys without an effect on what the data shows.
const IGNORED: [&str; 9] = [
    "$schema",
    "autosize",
    "background",
    "config",
    "description",
    "name",
    "padding",
    "usermeta",
    "view",
];
const READ: [&str; 6] = ["data", "encoding", "height", "mark", "title", "width"];
const CHANNELS: [&str; 7] = ["color", "order", "theta", "tooltip", "x", "xOffset", "y"];

/// An axis or a color.
#[derive(Clone, Default)]
struct Channel {
    field: Option<String>,
    title: Option<String>,
    aggregate: Option<Aggregate>,
    is_log: bool,
    /// `nominal` or `ordinal`.
    is_discrete: bool,
    /// About how many intervals, 0 for any number.
    bins: Option<u32>,
    stacks: bool,
}

/// Replaces `vega_lite` by the other arguments. Returns also what is drawn otherwise than Vega-Lite does.
pub(crate) fn plain(mut input: Draw) -> Result<(Draw, Vec<String>), ToolError> {
    let Some(chart) = input.vega_lite.take() else {
        return Ok((input, Vec::new()));
    };
    let known = |key: &str| IGNORED.contains(&key) || READ.contains(&key);
    if let Some(key) = chart.keys().find(|key| !known(key)) {
        return Err(unsupported(key));
    }
    data(&chart, &mut input)?;
    let empty = Object::new();
    let encoding = chart
        .get("encoding")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    if let Some(key) = encoding
        .keys()
        .find(|key| !CHANNELS.contains(&key.as_str()))
    {
        return Err(unsupported(&format!("encoding.{key}")));
    }
    let mut notes = Vec::new();
    let mut x = channel(encoding, "x")?;
    let mut y = channel(encoding, "y")?;
    let color = channel(encoding, "color")?;
    let kind = kind(&chart)?;
    if kind == Kind::Bar && y.is_discrete && !x.is_discrete {
        std::mem::swap(&mut x, &mut y);
        notes.push("the bars are upright: there are no horizontal ones".to_owned());
    }
    if kind == Kind::Pie {
        y = channel(encoding, "theta")?;
        x = color.clone();
    }
    input.kind = Some(match x.bins {
        Some(_) if kind == Kind::Bar && y.aggregate == Some(Aggregate::Count) => Kind::Histogram,
        Some(_) => return Err(unsupported("encoding.x.bin without y.aggregate count")),
        None => kind,
    });
    input.stacked = y.stacks
        && color.field.is_some()
        && !encoding.contains_key("xOffset")
        && matches!(input.kind, Some(Kind::Bar | Kind::Area));
    if input.kind == Some(Kind::Histogram) {
        input.bins = x.bins.filter(|bins| *bins > 0);
    } else {
        input.y = y.field.map(Columns::One);
        input.aggregate = y.aggregate;
    }
    (input.x, input.x_title, input.log_x) = (x.field, x.title, x.is_log);
    (input.y_title, input.log_y) = (y.title, y.is_log);
    if kind != Kind::Pie {
        input.group = color.field;
    }
    input.title = chart.get("title").and_then(text_of);
    input.width = length(&chart, "width", 160)?.or(input.width);
    input.height = length(&chart, "height", 120)?.or(input.height);
    check(&input, input.kind.unwrap_or_default())?;
    Ok((input, notes))
}

fn data(chart: &Object, input: &mut Draw) -> Result<(), ToolError> {
    let data = chart.get("data").and_then(Value::as_object);
    if let Some(url) = data
        .and_then(|data| data.get("url"))
        .and_then(Value::as_str)
    {
        input.file = Some(url.to_owned());
    } else if let Some(values) = data.and_then(|data| data.get("values")) {
        let rows = values
            .as_array()
            .map(|rows| rows.iter().map(Value::as_object).collect());
        let Some(Some(rows)) = rows.map(|rows: Option<Vec<&Object>>| rows) else {
            return Err(invalid("data.values must be an array of objects"));
        };
        input.rows = Some(rows.into_iter().cloned().collect());
    }
    if input.rows.is_none() && input.file.is_none() {
        return Err(invalid("data needs values, or the path of a file as url"));
    }
    Ok(())
}

fn kind(chart: &Object) -> Result<Kind, ToolError> {
    let mark = chart.get("mark");
    let mark = mark.and_then(|mark| mark.as_str().or_else(|| mark.get("type")?.as_str()));
    match mark {
        Some("line" | "trail") => Ok(Kind::Line),
        Some("bar") => Ok(Kind::Bar),
        Some("area") => Ok(Kind::Area),
        Some("point" | "circle" | "square") => Ok(Kind::Scatter),
        Some("arc") => Ok(Kind::Pie),
        Some(other) => Err(unsupported(&format!("mark {other}"))),
        None => Err(invalid("mark is missing")),
    }
}

fn channel(encoding: &Object, name: &str) -> Result<Channel, ToolError> {
    let Some(channel) = encoding.get(name).and_then(Value::as_object) else {
        return Ok(Channel::default());
    };
    if channel.contains_key("timeUnit") {
        return Err(unsupported(&format!("encoding.{name}.timeUnit")));
    }
    let text = |key: &str| channel.get(key).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    let scale = channel.get("scale").and_then(|scale| scale.get("type"));
    let axis_title = channel.get("axis").and_then(|axis| axis.get("title"));
    Ok(Channel {
        field: text("field").map(str::to_owned),
        title: channel.get("title").or(axis_title).and_then(text_of),
        aggregate: text("aggregate")
            .map(|word| aggregate(name, word))
            .transpose()?,
        is_log: scale.and_then(Value::as_str) == Some("log"),
        is_discrete: matches!(kind, "nominal" | "ordinal"),
        bins: match channel.get("bin") {
            Some(Value::Bool(true)) => Some(0),
            Some(Value::Object(bin)) => {
                let most = bin.get("maxbins").and_then(Value::as_u64).unwrap_or(0);
                Some(u32::try_from(most).unwrap_or(0).min(200))
            }
            _ => None,
        },
        stacks: !matches!(channel.get("stack"), Some(Value::Null | Value::Bool(false))),
    })
}

fn aggregate(channel: &str, word: &str) -> Result<Aggregate, ToolError> {
    match word {
        "sum" => Ok(Aggregate::Sum),
        "mean" | "average" => Ok(Aggregate::Mean),
        "median" => Ok(Aggregate::Median),
        "min" => Ok(Aggregate::Min),
        "max" => Ok(Aggregate::Max),
        "count" => Ok(Aggregate::Count),
        other => Err(unsupported(&format!(
            "encoding.{channel}.aggregate {other}"
        ))),
    }
}

fn text_of(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value.get("text")?.as_str());
    text.map(str::to_owned)
}

fn length(chart: &Object, key: &str, least: u32) -> Result<Option<u32>, ToolError> {
    let Some(number) = chart.get(key).and_then(Value::as_f64) else {
        return Ok(None);
    };
    if (f64::from(least)..=4000.0).contains(&number) {
        return Ok(Some(number as u32));
    }
    Err(invalid(&format!("{key} must be from {least} to 4000")))
}

fn invalid(what: &str) -> ToolError {
    ToolError::invalid_arguments("vega_lite_invalid", format!("vega_lite: {what}"))
}

fn unsupported(what: &str) -> ToolError {
    ToolError::capability_gap(
        "vega_lite_unsupported",
        format!(
            "vega_lite: {what} is not supported: give the data in the form in which it is drawn"
        ),
    )
}
