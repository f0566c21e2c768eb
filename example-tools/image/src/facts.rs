use image::{ColorType, ExtendedColorType, ImageFormat};
use toolcell_guest::{ToolError, data};

use crate::{
    exif_fields::{self, Exif},
    preview::Preview,
    source::Source,
};

#[data]
pub(crate) struct Facts {
    pub(crate) path: String,
    /// `png`, `jpeg`, `gif`, `webp` or `bmp`.
    pub(crate) format: String,
    pub(crate) media_type: String,
    /// The size of the file.
    pub(crate) bytes: u64,
    /// The width of the upright picture, in pixels.
    pub(crate) width: u32,
    /// The height of the upright picture, in pixels.
    pub(crate) height: u32,
    /// `gray`, `rgb`, `indexed` or `cmyk`.
    pub(crate) color: String,
    pub(crate) bits_per_channel: u8,
    /// `true` if pixels can be transparent.
    pub(crate) has_alpha: bool,
    /// `true` if there is more than one frame.
    pub(crate) animated: bool,
    /// `true` if the file has an ICC color profile.
    pub(crate) has_color_profile: bool,
    /// The EXIF orientation, 1 to 8, of a file that stores the picture turned or mirrored. `width` and `height` are upright
    /// already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 8))]
    pub(crate) orientation: Option<u8>,
    /// What the camera recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exif: Option<Exif>,
    /// The picture that was returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) preview: Option<Preview>,
}

pub(crate) fn of(source: &mut Source) -> Result<Facts, ToolError> {
    let animated = source.is_animated()?;
    let orientation = source.orientation().to_exif();
    let decoder = source.decoder();
    let (mut width, mut height) = decoder.dimensions();
    if orientation >= 5 {
        (width, height) = (height, width);
    }
    let has_alpha = decoder.color_type().has_alpha();
    let (color, bits_per_channel) = color(decoder.original_color_type(), decoder.color_type());
    // Damaged metadata must not hide the rest.
    let raw_exif = decoder.exif_metadata().ok().flatten();
    let has_color_profile = matches!(decoder.icc_profile(), Ok(Some(_)));
    Ok(Facts {
        path: source.path.clone(),
        format: name(source.format).to_owned(),
        media_type: source.format.to_mime_type().to_owned(),
        bytes: source.bytes,
        width,
        height,
        color: color.to_owned(),
        bits_per_channel,
        has_alpha,
        animated,
        has_color_profile,
        orientation: (orientation > 1).then_some(orientation),
        exif: raw_exif.and_then(exif_fields::read),
        preview: None,
    })
}

fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "png",
        ImageFormat::Jpeg => "jpeg",
        ImageFormat::Gif => "gif",
        ImageFormat::WebP => "webp",
        _ => "bmp",
    }
}

fn color(stored: ExtendedColorType, decoded: ColorType) -> (&'static str, u8) {
    use ExtendedColorType as Stored;
    let bits = |channels: u16| u8::try_from(stored.bits_per_pixel() / channels).unwrap_or(u8::MAX);
    match stored {
        Stored::Cmyk8 => ("cmyk", 8),
        Stored::L1 | Stored::L2 | Stored::L4 => ("gray", bits(1)),
        Stored::La1 | Stored::La2 | Stored::La4 => ("gray", bits(2)),
        Stored::Rgb1 | Stored::Rgb2 | Stored::Rgb4 => ("rgb", bits(3)),
        Stored::Rgba1 | Stored::Rgba2 | Stored::Rgba4 => ("rgb", bits(4)),
        Stored::Unknown(_) => ("indexed", 8),
        _ => {
            let name = if decoded.has_color() { "rgb" } else { "gray" };
            let channels = u16::from(decoded.channel_count()).max(1);
            let bits = decoded.bits_per_pixel() / channels;
            (name, u8::try_from(bits).unwrap_or(u8::MAX))
        }
    }
}

pub(crate) fn render(facts: &Facts) -> String {
    let mut lines = vec![format!(
        "{}: {}, {} x {} pixels, {} bytes",
        facts.path, facts.format, facts.width, facts.height, facts.bytes
    )];
    let mut about = vec![format!("{} {}-bit", facts.color, facts.bits_per_channel)];
    for (holds, text) in [
        (facts.has_alpha, "with transparency"),
        (facts.animated, "animated"),
        (facts.has_color_profile, "with a color profile"),
    ] {
        if holds {
            about.push(text.to_owned());
        }
    }
    if let Some(orientation) = facts.orientation {
        about.push(format!("EXIF orientation {orientation}"));
    }
    lines.push(about.join(", "));
    lines.extend(facts.exif.as_ref().map(Exif::render));
    if let Some(shown) = &facts.preview {
        lines.push(format!(
            "shown here with {} x {} pixels",
            shown.width, shown.height
        ));
    }
    lines.join("\n")
}
