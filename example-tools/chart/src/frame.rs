//! The parts of a picture around the data: title, legend, axes.

use toolcell_guest::ToolError;

use crate::{
    Aggregate, Draw, Kind,
    axis::{self, Below, TICK_SIZE, Upward},
    font::Font,
    marks, pie,
    plot::Plot,
    scale::Scale,
    scene::{
        AXIS, Anchor, Color, FAINT_TEXT, GRID, Scene, Shape, Spot, TEXT, series_color, series_dash,
    },
};

pub(crate) const WIDTH: u32 = 800;
pub(crate) const HEIGHT: u32 = 500;
const TITLE_SIZE: f64 = 18.0;
const AXIS_TITLE_SIZE: f64 = 13.0;
const EDGE: f64 = 16.0;
const LEGEND_ROW: f64 = 20.0;
const LEGEND_SIZE: f64 = 12.0;
const SWATCH: f64 = 12.0;
/// Pixels of the data at least, in both directions.
const DATA_MIN: f64 = 30.0;

/// The rectangle of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// A line of the legend.
pub(crate) struct Entry {
    pub(crate) color: Color,
    /// The dashes of a line; `None` for a square.
    pub(crate) line: Option<Option<[f64; 2]>>,
    pub(crate) name: String,
}

pub(crate) fn draw(plot: &Plot, input: &Draw, font: &Font) -> Result<Scene, ToolError> {
    let width = input.width.unwrap_or(WIDTH);
    let height = input.height.unwrap_or(HEIGHT);
    let mut scene = Scene {
        width,
        height,
        title: input.title.clone().unwrap_or_else(|| "Chart".to_owned()),
        shapes: Vec::new(),
    };
    let mut space = Space {
        left: EDGE,
        top: title(&mut scene, input, font),
        right: f64::from(width) - EDGE,
        bottom: f64::from(height) - EDGE,
    };
    if plot.kind == Kind::Pie {
        let slices = pie::slices(plot);
        let entries = pie::entries(&slices);
        space.right = legend(&mut scene, &entries, space, font);
        enough(space)?;
        pie::draw(&mut scene, &slices, space);
        return Ok(scene);
    }
    if plot.series.len() > 1 || input.group.is_some() {
        space.right = legend(&mut scene, &entries(plot), space, font);
    }
    with_axes(&mut scene, plot, input, font, space)?;
    Ok(scene)
}

fn entries(plot: &Plot) -> Vec<Entry> {
    let mut entries: Vec<Entry> = (0..)
        .zip(&plot.series)
        .map(|(at, series)| Entry {
            color: series_color(at),
            line: (plot.kind == Kind::Line).then(|| series_dash(at)),
            name: series.name.clone(),
        })
        .collect();
    if plot.stacked {
        // The last series is on top.
        entries.reverse();
    }
    entries
}

fn with_axes(
    scene: &mut Scene,
    plot: &Plot,
    input: &Draw,
    font: &Font,
    mut space: Space,
) -> Result<(), ToolError> {
    let upward = axis::upward(plot, input);
    let widths = upward
        .ticks
        .iter()
        .map(|tick| font.width(&tick.label, TICK_SIZE));
    let titles = (x_title(input), y_title(input));
    let title_room = |title: &Option<String>| title.as_ref().map_or(0.0, |_| 22.0);
    space.left += widths.fold(0.0, f64::max) + 8.0 + title_room(&titles.1);
    // The text of the last tick is in its middle.
    space.right -= 8.0;
    space.bottom -= title_room(&titles.0);
    enough(space)?;
    let along = axis::along(plot, input, space.left, space.right);
    let below = axis::below(plot, &along, font, f64::from(scene.height));
    space.bottom -= below.height + 4.0;
    enough(space)?;

    let up = Scale {
        from: upward.from,
        to: upward.to,
        start: space.bottom,
        end: space.top,
        is_log: input.log_y,
    };
    grid(scene, &upward, &up, space);
    marks::draw(scene, plot, &along, &up);
    axes(scene, &below, &up, space);
    let middle = |from: f64, to: f64| (from + to) / 2.0;
    if let Some(title) = titles.0 {
        let text = font.fit(&title, AXIS_TITLE_SIZE, space.right - space.left);
        let at = (
            middle(space.left, space.right),
            f64::from(scene.height) - EDGE + 2.0,
        );
        scene.text(at, text, AXIS_TITLE_SIZE, TEXT, Anchor::Middle);
    }
    if let Some(title) = titles.1 {
        let text = font.fit(&title, AXIS_TITLE_SIZE, space.bottom - space.top);
        let at = (EDGE + 8.0, middle(space.top, space.bottom));
        scene.turned(at, text, AXIS_TITLE_SIZE, TEXT, Anchor::Middle, -90.0);
    }
    Ok(())
}

fn enough(space: Space) -> Result<(), ToolError> {
    if space.right - space.left < DATA_MIN || space.bottom - space.top < DATA_MIN {
        return Err(ToolError::invalid_arguments(
            "too_small",
            "titles and texts leave no room for the data: raise width and height",
        ));
    }
    Ok(())
}

/// Draws the title. Returns where the data may begin.
fn title(scene: &mut Scene, input: &Draw, font: &Font) -> f64 {
    let Some(title) = input
        .title
        .as_deref()
        .map(str::trim)
        .filter(|title| !title.is_empty())
    else {
        return EDGE + 4.0;
    };
    let mut y = EDGE + TITLE_SIZE;
    for line in font.wrap(title, TITLE_SIZE, f64::from(scene.width) - 2.0 * EDGE) {
        scene.text((EDGE, y), line, TITLE_SIZE, TEXT, Anchor::Start);
        y += TITLE_SIZE * 1.35;
    }
    y - TITLE_SIZE + 12.0
}

/// Draws the legend at the right. Returns where the data has to end.
fn legend(scene: &mut Scene, entries: &[Entry], space: Space, font: &Font) -> f64 {
    let width = f64::from(scene.width);
    let text_max = (width * 0.28).max(90.0).min(width * 0.4) - SWATCH - 6.0;
    let rows = (((space.bottom - space.top) / LEGEND_ROW) as usize).max(1);
    let shown = if entries.len() > rows {
        rows - 1
    } else {
        entries.len()
    };
    let names: Vec<String> = entries
        .iter()
        .take(shown)
        .map(|entry| font.fit(&entry.name, LEGEND_SIZE, text_max))
        .chain((shown < entries.len()).then(|| format!("… and {} more", entries.len() - shown)))
        .collect();
    let widths = names.iter().map(|name| font.width(name, LEGEND_SIZE));
    let left = space.right - widths.fold(0.0, f64::max) - SWATCH - 6.0;
    for (at, name) in names.into_iter().enumerate() {
        let y = space.top + LEGEND_ROW * at as f64;
        if let Some(entry) = entries.get(at).filter(|_| at < shown) {
            swatch(scene, entry, (left, y));
        }
        let baseline = (left + SWATCH + 6.0, y + SWATCH - 1.0);
        scene.text(baseline, name, LEGEND_SIZE, TEXT, Anchor::Start);
    }
    left - 16.0
}

fn swatch(scene: &mut Scene, entry: &Entry, at: Spot) {
    match entry.line {
        None => scene.rect((at.0, at.1 + 1.0), SWATCH, SWATCH, entry.color),
        Some(dash) => {
            let y = at.1 + SWATCH / 2.0 + 1.0;
            scene.shapes.push(Shape::Line {
                spots: vec![(at.0 - 8.0, y), (at.0 + SWATCH, y)],
                color: entry.color,
                width: 3.0,
                dash,
            });
        }
    }
}

fn grid(scene: &mut Scene, upward: &Upward, up: &Scale, space: Space) {
    for tick in &upward.ticks {
        let y = up.place(tick.value);
        scene.line((space.left, y), (space.right, y), GRID);
        let at = (space.left - 8.0, y + TICK_SIZE * 0.36);
        scene.text(at, tick.label.clone(), TICK_SIZE, FAINT_TEXT, Anchor::End);
    }
}

fn axes(scene: &mut Scene, below: &Below, up: &Scale, space: Space) {
    if !up.is_log && up.from < 0.0 && up.to > 0.0 {
        let zero = up.place(0.0);
        scene.line((space.left, zero), (space.right, zero), AXIS);
    }
    scene.line(
        (space.left, space.bottom),
        (space.right, space.bottom),
        AXIS,
    );
    for (x, text) in &below.ticks {
        scene.line((*x, space.bottom), (*x, space.bottom + 4.0), AXIS);
        if below.is_turned {
            let at = (x + 4.0, space.bottom + TICK_SIZE + 3.0);
            scene.turned(at, text.clone(), TICK_SIZE, FAINT_TEXT, Anchor::End, -45.0);
        } else {
            let at = (*x, space.bottom + TICK_SIZE + 6.0);
            scene.text(at, text.clone(), TICK_SIZE, FAINT_TEXT, Anchor::Middle);
        }
    }
}

fn x_title(input: &Draw) -> Option<String> {
    let column = match (&input.x, input.kind) {
        (None, Some(Kind::Histogram)) => input.y.as_ref().and_then(|y| y.names().first().cloned()),
        (x, _) => x.clone(),
    };
    given(&input.x_title, column)
}

fn y_title(input: &Draw) -> Option<String> {
    let counts = input.kind == Some(Kind::Histogram) || input.aggregate == Some(Aggregate::Count);
    let names = input.y.as_ref().map_or(&[][..], |columns| columns.names());
    let default = match (counts, names, input.aggregate) {
        (true, ..) => Some("count".to_owned()),
        (false, [name], Some(aggregate)) => Some(format!("{} of {name}", word(aggregate))),
        (false, [name], None) => Some(name.clone()),
        _ => None,
    };
    given(&input.y_title, default)
}

/// An empty title is none.
fn given(title: &Option<String>, default: Option<String>) -> Option<String> {
    title
        .clone()
        .or(default)
        .filter(|title| !title.trim().is_empty())
}

fn word(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Sum => "sum",
        Aggregate::Mean => "mean",
        Aggregate::Median => "median",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::Count => "count",
    }
}
