use std::path::Path;

use image::{
    DynamicImage, ExtendedColorType, ImageEncoder, ImageError, ImageResult, RgbImage,
    codecs::{gif::GifEncoder, jpeg::JpegEncoder, png::PngEncoder, webp::WebPEncoder},
};
use toolcell_guest::{ToolError, data};

const QUALITY: u8 = 85;
/// GIF's search for 256 colors: 1 takes minutes for a photo, 10 is what its authors recommend.
const GIF_SPEED: i32 = 10;

#[data]
#[derive(Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Png,
    Jpeg,
    Webp,
    Gif,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Webp => "WebP",
            Self::Gif => "GIF",
        }
    }

    /// Maximum length of a side, in pixels, that the format can write down.
    fn side_max(self) -> u32 {
        match self {
            Self::Png => u32::MAX,
            Self::Jpeg | Self::Gif => 65_535,
            Self::Webp => 16_384,
        }
    }
}

/// A file in memory.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// What the format cannot hold.
    pub(crate) lost: Vec<String>,
}

/// The format of the new file: the one that was asked for, which must not contradict the file's name.
pub(crate) fn format_of(path: &str, wanted: Option<Format>) -> Result<Format, ToolError> {
    let extension = Path::new(path)
        .extension()
        .map(|name| name.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    let named = match extension.as_str() {
        "png" => Some(Format::Png),
        "jpg" | "jpeg" => Some(Format::Jpeg),
        "webp" => Some(Format::Webp),
        "gif" => Some(Format::Gif),
        _ => None,
    };
    match (named, wanted) {
        (Some(named), Some(wanted)) if named != wanted => Err(ToolError::invalid_arguments(
            "format_contradicts_name",
            format!(
                "{path}: the name is one of {}, and format is {}",
                named.name(),
                wanted.name()
            ),
        )),
        (named, wanted) => wanted.or(named).ok_or_else(|| {
            ToolError::invalid_arguments(
                "format_unknown",
                format!("{path}: end the name with .png, .jpg, .webp or .gif, or set format"),
            )
        }),
    }
}

pub(crate) fn encode(
    picture: &DynamicImage,
    format: Format,
    quality: Option<u8>,
    color_profile: Option<Vec<u8>>,
) -> Result<Encoded, ToolError> {
    if picture.width().max(picture.height()) > format.side_max() {
        let message = format!(
            "{} x {} pixels: a side of a {} picture has at most {}",
            picture.width(),
            picture.height(),
            format.name(),
            format.side_max()
        );
        return Err(ToolError::result_too_large("picture_too_large", message));
    }
    let mut lost = Vec::new();
    let profile = color_profile.filter(|profile| fits(profile, picture));
    if profile.is_some() && format == Format::Gif {
        lost.push("the color profile was left out: GIF has none".to_owned());
    }
    if format == Format::Jpeg && has_transparency(picture) {
        lost.push("transparent parts became white: JPEG has no transparency".to_owned());
    }
    let mut bytes = Vec::new();
    let written = match format {
        Format::Png => with_profile(PngEncoder::new(&mut bytes), profile, picture),
        Format::Webp => with_profile(WebPEncoder::new_lossless(&mut bytes), profile, picture),
        Format::Jpeg => {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, quality.unwrap_or(QUALITY));
            match picture {
                DynamicImage::ImageLuma8(_) | DynamicImage::ImageRgb8(_) => {
                    with_profile(encoder, profile, picture)
                }
                other => with_profile(encoder, profile, &DynamicImage::from(on_white(other))),
            }
        }
        Format::Gif => {
            let (width, height) = (picture.width(), picture.height());
            GifEncoder::new_with_speed(&mut bytes, GIF_SPEED).encode(
                &picture.to_rgba8(),
                width,
                height,
                ExtendedColorType::Rgba8,
            )
        }
    };
    written.map_err(|error| failed(format, &error))?;
    Ok(Encoded { bytes, lost })
}

fn with_profile(
    mut encoder: impl ImageEncoder,
    profile: Option<Vec<u8>>,
    picture: &DynamicImage,
) -> ImageResult<()> {
    if let Some(profile) = profile {
        encoder
            .set_icc_profile(profile)
            .map_err(ImageError::Unsupported)?;
    }
    picture.write_with_encoder(encoder)
}

/// `true` if an ICC profile describes the colors of this picture. The profile of a CMYK file does not: the picture was decoded to RGB.
fn fits(profile: &[u8], picture: &DynamicImage) -> bool {
    let space = profile.get(16..20);
    if picture.color().has_color() {
        space == Some(b"RGB ")
    } else {
        space == Some(b"GRAY")
    }
}

pub(crate) fn has_transparency(picture: &DynamicImage) -> bool {
    picture.color().has_alpha() && picture.to_rgba8().pixels().any(|pixel| pixel.0[3] < 255)
}

/// The picture on a white ground.
fn on_white(picture: &DynamicImage) -> RgbImage {
    let pixels = picture.to_rgba8();
    RgbImage::from_fn(pixels.width(), pixels.height(), |x, y| {
        let [red, green, blue, alpha] = pixels.get_pixel(x, y).0;
        image::Rgb([red, green, blue].map(|color| {
            let (color, alpha) = (u32::from(color), u32::from(alpha));
            ((color * alpha + 255 * (255 - alpha) + 127) / 255) as u8
        }))
    })
}

fn failed(format: Format, error: &ImageError) -> ToolError {
    ToolError::execution_failed(
        "encoding_failed",
        format!(
            "the picture cannot be written as {}: {error}",
            format.name()
        ),
    )
}
