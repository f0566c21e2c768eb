//! Describes pictures, and converts, crops, turns and resizes them.

mod change;
mod encode;
mod exif_fields;
mod facts;
mod preview;
mod source;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use toolcell_guest::{Output, ToolError, cancellation, data, tool, toolkit};

use change::Area;
use encode::{Encoded, Format};
use facts::Facts;
use preview::Preview;
use source::Source;

#[data]
struct Look {
    /// The picture: PNG, JPEG, GIF, WebP or BMP.
    path: String,
    /// Also return the picture itself, upright and with at most 1024 pixels on a side.
    #[serde(default)]
    preview: bool,
}

#[data]
struct Convert {
    /// The picture: PNG, JPEG, GIF, WebP or BMP.
    path: String,
    /// The new file.
    save_to: String,
    /// The format of the new file. Default: the one that its name ends with.
    #[serde(default)]
    format: Option<Format>,
    /// The part to keep, in pixels of the upright picture. Cropping comes first, then `rotate`, then the size.
    #[serde(default)]
    crop: Option<Area>,
    /// Degrees to turn the picture clockwise.
    #[serde(default)]
    #[schemars(extend("enum" = [90, 180, 270, null]))]
    rotate: Option<u16>,
    /// Maximum width of the new picture, in pixels. Proportions are kept.
    #[serde(default)]
    #[schemars(range(min = 1, max = 16_384))]
    max_width: Option<u32>,
    /// Maximum height of the new picture, in pixels. Proportions are kept.
    #[serde(default)]
    #[schemars(range(min = 1, max = 16_384))]
    max_height: Option<u32>,
    /// Enlarge a picture that is smaller than `max_width` and `max_height`.
    #[serde(default)]
    enlarge: bool,
    /// The quality of a JPEG file. Default: 85.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    quality: Option<u8>,
    /// Replace `save_to` if it exists.
    #[serde(default)]
    overwrite: bool,
    /// Also return the new picture itself, with at most 1024 pixels on a side.
    #[serde(default)]
    preview: bool,
}

#[data]
struct Converted {
    /// The new file.
    path: String,
    format: Format,
    width: u32,
    height: u32,
    /// The size of the new file.
    bytes: u64,
    /// The picture that was returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preview: Option<Preview>,
    /// What was lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Describes a picture: format, size, colors, orientation, animation, and the camera's EXIF data.
///
/// With `preview`, also returns the picture, scaled down, to look at.
#[tool(
    kind = "file_operation",
    search_hint = "look at image picture photo size format EXIF metadata",
    access = ["file_read"],
    paths = ["path"],
    content = ["text", "image"],
    read_only,
    concurrency_safe
)]
fn info(input: Look) -> Result<Output<Facts>, ToolError> {
    let mut source = Source::open(&input.path)?;
    let mut facts = facts::of(&mut source)?;
    if !input.preview {
        return Ok(Output::new().text(facts::render(&facts)).structured(facts));
    }
    let (shown, block) = preview::of(&source.decode()?.upright)?;
    facts.preview = Some(shown);
    Ok(Output::new()
        .text(facts::render(&facts))
        .block(block)
        .structured(facts))
}

/// Writes a picture to a new file: in another format (PNG, JPEG, WebP, GIF), cropped, turned, or within a maximum size.
///
/// The new picture is upright, whatever the EXIF orientation of the old one, and has none of its metadata (camera, time,
/// place) but the color profile. Only the first frame of an animation is kept. WebP is written without loss.
#[tool(
    kind = "file_operation",
    search_hint = "convert resize crop rotate image picture photo",
    access = ["file_read", "file_write"],
    write_effects = ["local_persistent"],
    paths = ["path", "save_to"],
    content = ["text", "image"],
    read_only = false,
    destructive,
    validate = is_consistent
)]
fn convert(input: Convert) -> Result<Output<Converted>, ToolError> {
    let format = encode::format_of(&input.save_to, input.format)?;
    let target = PathBuf::from(&input.save_to);
    new_file::check(&target, input.overwrite)?;
    let decoded = Source::open(&input.path)?.decode()?;
    cancellation::check()?;
    let picture = change::apply(decoded.upright, &input)?;
    cancellation::check()?;
    let Encoded { bytes, lost } =
        encode::encode(&picture, format, input.quality, decoded.color_profile)?;
    new_file::write(&target, &bytes, input.overwrite)?;

    let mut converted = Converted {
        path: input.save_to,
        format,
        width: picture.width(),
        height: picture.height(),
        bytes: bytes.len() as u64,
        preview: None,
        notes: decoded.lost.into_iter().chain(lost).collect(),
    };
    if !input.preview {
        return Ok(Output::new().text(render(&converted)).structured(converted));
    }
    let (shown, block) = preview::of(&picture)?;
    converted.preview = Some(shown);
    Ok(Output::new()
        .text(render(&converted))
        .block(block)
        .structured(converted))
}

/// Checks, before an approver is asked, that the arguments do not contradict each other.
fn is_consistent(input: &Convert) -> Result<(), ToolError> {
    let format = encode::format_of(&input.save_to, input.format)?;
    let refuse = |code: &str, message: String| Err(ToolError::invalid_arguments(code, message));
    if input.quality.is_some() && format != Format::Jpeg {
        let message = format!(
            "quality is for JPEG; {} is written without it",
            format.name()
        );
        return refuse("quality_not_for_format", message);
    }
    if let Some(turn) = input.rotate.filter(|turn| !matches!(turn, 90 | 180 | 270)) {
        return refuse(
            "rotate_invalid",
            format!("rotate is {turn}; it can be 90, 180 or 270"),
        );
    }
    if input.enlarge && input.max_width.is_none() && input.max_height.is_none() {
        let message = "enlarge needs max_width or max_height".to_owned();
        return refuse("size_missing", message);
    }
    Ok(())
}

fn render(converted: &Converted) -> String {
    let mut text = format!(
        "wrote {}: {}, {} x {} pixels, {} bytes",
        converted.path,
        converted.format.name(),
        converted.width,
        converted.height,
        converted.bytes
    );
    if let Some(shown) = &converted.preview {
        text.push_str(&format!(
            "\nshown here with {} x {} pixels",
            shown.width, shown.height
        ));
    }
    for note in &converted.notes {
        text.push_str(&format!("\n({note})"));
    }
    text
}

toolkit! { namespace: "image", tools: [info, convert] }
