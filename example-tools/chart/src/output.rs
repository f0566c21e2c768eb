use std::path::Path;

use toolcell_guest::{Content, Output, ToolError, data};

use crate::{
    Draw, Kind,
    font::Font,
    frame::{HEIGHT, WIDTH},
    plot::{Along, Plot},
    png,
    scene::Scene,
    svg,
};

/// Pixels of a PNG file at most: a call has 256 MiB by default, and each pixel takes 4 bytes several times.
const PIXELS_MAX: u64 = 16_000_000;
/// Maximum size of the image that is returned, in bytes.
pub(crate) const SHOWN_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a side of it, in pixels.
const SHOWN_SIDE_MAX: f64 = 1600.0;
/// Series that the answer names.
const NAMES_SHOWN: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Format {
    Svg,
    Png,
}

#[data]
pub(crate) struct Drawn {
    pub(crate) kind: Kind,
    /// The size of the chart, in pixels; of the file, if there is one. The image that is returned has at most 1600 on a
    /// side.
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Rows of the data.
    pub(crate) rows: u64,
    /// Number of series.
    pub(crate) series: u64,
    /// Their names; at most 20.
    pub(crate) names: Vec<String>,
    /// The x-axis: `numbers`, `time` or `texts`.
    pub(crate) x_values: String,
    /// The new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The size of the new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Notes on the chart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// The format that the name of a file asks for.
pub(crate) fn format_of(path: &str) -> Result<Format, ToolError> {
    let extension = Path::new(path)
        .extension()
        .map(|name| name.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    match extension.as_str() {
        "svg" => Ok(Format::Svg),
        "png" => Ok(Format::Png),
        _ => Err(ToolError::invalid_arguments(
            "format_unknown",
            format!("{path}: the name must end with .svg or .png"),
        )),
    }
}

/// Fails before any work if the chart could not be written.
pub(crate) fn check(input: &Draw) -> Result<(), ToolError> {
    let Some(path) = &input.save_to else {
        return Ok(());
    };
    let (width, height, scale) = size(input);
    let pixels = u64::from(width) * u64::from(height) * u64::from(scale) * u64::from(scale);
    if format_of(path)? == Format::Png && pixels > PIXELS_MAX {
        return Err(ToolError::result_too_large(
            "picture_too_large",
            format!(
                "{width} x {height} pixels, {scale} times enlarged, are more than {PIXELS_MAX}: make it smaller, or write SVG"
            ),
        ));
    }
    new_file::check(Path::new(path), input.overwrite)
}

fn size(input: &Draw) -> (u32, u32, u32) {
    (
        input.width.unwrap_or(WIDTH),
        input.height.unwrap_or(HEIGHT),
        input.scale.unwrap_or(1),
    )
}

/// Writes the chart and returns it.
pub(crate) fn finish(
    input: &Draw,
    mut drawn: Drawn,
    scene: &Scene,
    font: &Font,
) -> Result<Output<Drawn>, ToolError> {
    let shows = input.show.unwrap_or(input.save_to.is_none());
    let scale = f64::from(size(input).2);
    let is_svg = match &input.save_to {
        Some(path) => {
            let format = format_of(path)?;
            let bytes = match format {
                Format::Svg => svg::render(scene).into_bytes(),
                Format::Png => png::render(scene, font, scale)?,
            };
            new_file::write(Path::new(path), &bytes, input.overwrite)?;
            drawn.path = Some(path.clone());
            drawn.bytes = Some(bytes.len() as u64);
            format == Format::Svg
        }
        None => false,
    };
    if drawn.path.is_some() && !is_svg {
        drawn.width *= scale as u32;
        drawn.height *= scale as u32;
    }
    if shows || !is_svg {
        drawn.notes.extend(without_glyphs(scene, font));
    }
    let block = match shows {
        true => Some(shown(scene, font)?),
        false => None,
    };
    let mut output = Output::new().text(render(&drawn));
    if let Some(block) = block {
        output = output.block(block);
    }
    Ok(output.structured(drawn))
}

/// The words of the answer.
pub(crate) fn about(rows: usize, plot: &Plot, scene: &Scene, notes: Vec<String>) -> Drawn {
    let names = plot.series.iter().map(|series| series.name.clone());
    let x_values = match plot.along {
        Along::Numbers | Along::Bins { .. } => "numbers",
        Along::Time => "time",
        Along::Categories(_) => "texts",
    };
    Drawn {
        kind: plot.kind,
        width: scene.width,
        height: scene.height,
        rows: rows as u64,
        series: plot.series.len() as u64,
        names: names.take(NAMES_SHOWN).collect(),
        x_values: x_values.to_owned(),
        path: None,
        bytes: None,
        notes,
    }
}

/// The image for the model, small enough for a message.
fn shown(scene: &Scene, font: &Font) -> Result<Content, ToolError> {
    let longest = f64::from(scene.width.max(scene.height));
    let mut scale = (SHOWN_SIDE_MAX / longest).min(1.0);
    loop {
        let bytes = png::render(scene, font, scale)?;
        if bytes.len() <= SHOWN_BYTES_MAX || scale < 0.1 {
            return Ok(Content::image("image/png", &bytes));
        }
        scale /= 2.0;
    }
}

fn without_glyphs(scene: &Scene, font: &Font) -> Option<String> {
    let missing: String = scene
        .texts()
        .flat_map(|text| font.missing(text))
        .take(10)
        .collect();
    (!missing.is_empty()).then(|| {
        format!("the font has no glyphs for {missing}, which are boxes here; in an SVG file the viewer's fonts are used")
    })
}

fn render(drawn: &Drawn) -> String {
    let what = format!(
        "{} chart of {} rows, {} series",
        format!("{:?}", drawn.kind).to_ascii_lowercase(),
        drawn.rows,
        drawn.series
    );
    let mut text = match (&drawn.path, drawn.bytes) {
        (Some(path), Some(bytes)) => format!(
            "wrote {path}: {what}, {} x {} pixels, {bytes} bytes",
            drawn.width, drawn.height
        ),
        _ => format!("{what}, {} x {} pixels", drawn.width, drawn.height),
    };
    for note in &drawn.notes {
        text.push_str(&format!("\n({note})"));
    }
    text
}
