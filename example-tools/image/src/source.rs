//! The picture that a call reads. Its header is checked before any pixel is decoded.

use std::{
    fs::File,
    io::{BufReader, ErrorKind, Seek},
};

use gif::DecodeOptions;
use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits,
    codecs::{png::PngDecoder, webp::WebPDecoder},
    metadata::Orientation,
};
use toolcell_guest::ToolError;

/// Maximum size of a file, in bytes: a JPEG file is held in memory while it is decoded.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of a decoded picture, in bytes. Turning it takes this twice, and a call has 256 MiB by default.
pub(crate) const PIXEL_BYTES_MAX: u64 = 96 << 20;
/// What a decoder may allocate, the pixels included.
const DECODER_BYTES_MAX: u64 = PIXEL_BYTES_MAX + (32 << 20);
/// Frames of an animation that are counted: the second one tells.
const FRAMES_MAX: u32 = 2;

pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) format: ImageFormat,
    decoder: Box<dyn ImageDecoder>,
}

/// A decoded picture.
pub(crate) struct Decoded {
    /// The picture as it is to be seen: its EXIF orientation is applied.
    pub(crate) upright: DynamicImage,
    /// The ICC profile of the file.
    pub(crate) color_profile: Option<Vec<u8>>,
    /// What the file has, and `upright` has not.
    pub(crate) lost: Vec<String>,
}

impl Source {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &str) -> Result<Self, ToolError> {
        let (file, bytes) = open(path)?;
        let failed = |error| unreadable(path, error);
        let mut reader = ImageReader::new(BufReader::new(file))
            .with_guessed_format()
            .map_err(|error| ToolError::at_path(path, &error))?;
        let Some(format) = reader.format().filter(is_supported) else {
            return Err(unknown(path));
        };
        reader.limits(limits());
        let decoder = reader.into_decoder().map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            format,
            decoder: Box::new(decoder),
        })
    }

    pub(crate) fn decoder(&mut self) -> &mut dyn ImageDecoder {
        &mut *self.decoder
    }

    /// The EXIF orientation, 1 to 8.
    pub(crate) fn orientation(&mut self) -> Orientation {
        self.decoder
            .orientation()
            .unwrap_or(Orientation::NoTransforms)
    }

    /// `true` if the file has more than one frame.
    pub(crate) fn is_animated(&self) -> Result<bool, ToolError> {
        let failed = |error| unreadable(&self.path, error);
        let (file, _) = open(&self.path)?;
        let reader = BufReader::new(file);
        match self.format {
            ImageFormat::Png => PngDecoder::with_limits(reader, limits())
                .and_then(|decoder| decoder.is_apng())
                .map_err(failed),
            ImageFormat::WebP => WebPDecoder::new(reader)
                .map(|decoder| decoder.has_animation())
                .map_err(failed),
            ImageFormat::Gif => Ok(frames_of_gif(reader) > 1),
            _ => Ok(false),
        }
    }

    /// Decodes the picture, or the first frame of an animation.
    pub(crate) fn decode(mut self) -> Result<Decoded, ToolError> {
        self.check_size()?;
        let mut lost = Vec::new();
        if self.is_animated()? {
            lost.push("the picture is animated: only its first frame was taken".to_owned());
        }
        let color_profile = self.decoder.icc_profile().ok().flatten();
        let orientation = self.orientation();
        let failed = |error| unreadable(&self.path, error);
        self.decoder.set_limits(limits()).map_err(failed)?;
        let mut upright = DynamicImage::from_decoder(self.decoder).map_err(failed)?;
        upright.apply_orientation(orientation);
        Ok(Decoded {
            upright,
            color_profile,
            lost,
        })
    }

    /// Refuses a picture whose pixels would not fit into memory, by what its header says.
    fn check_size(&self) -> Result<(), ToolError> {
        let (width, height) = self.decoder.dimensions();
        let bytes = self.decoder.total_bytes();
        if width == 0 || height == 0 {
            let message = format!("{}: the picture has no pixels", self.path);
            return Err(ToolError::invalid_arguments("picture_invalid", message));
        }
        if bytes > PIXEL_BYTES_MAX {
            let message = format!(
                "{}: {width} x {height} pixels take {} MiB, and at most {} MiB are decoded",
                self.path,
                bytes.div_ceil(1 << 20),
                PIXEL_BYTES_MAX >> 20
            );
            return Err(ToolError::result_too_large("picture_too_large", message));
        }
        Ok(())
    }
}

fn open(path: &str) -> Result<(File, u64), ToolError> {
    let failed = |error| ToolError::at_path(path, &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        let message = format!(
            "{path}: the file has {} bytes, and a picture may have {} MiB",
            metadata.len(),
            FILE_BYTES_MAX >> 20
        );
        return Err(ToolError::result_too_large("file_too_large", message));
    }
    Ok((file, metadata.len()))
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(DECODER_BYTES_MAX);
    limits
}

fn is_supported(format: &ImageFormat) -> bool {
    use ImageFormat::*;
    matches!(format, Png | Jpeg | Gif | WebP | Bmp)
}

/// Frames of a GIF file up to where it is damaged. Their pixels are skipped.
fn frames_of_gif(reader: impl std::io::BufRead + Seek) -> u32 {
    let mut options = DecodeOptions::new();
    options.skip_frame_decoding(true);
    let Ok(mut decoder) = options.read_info(reader) else {
        return 0;
    };
    let mut frames = 0;
    while frames < FRAMES_MAX && matches!(decoder.next_frame_info(), Ok(Some(_))) {
        frames += 1;
    }
    frames
}

fn unknown(path: &str) -> ToolError {
    ToolError::invalid_arguments(
        "format_unknown",
        format!("{path}: not a PNG, JPEG, GIF, WebP or BMP file"),
    )
}

fn unreadable(path: &str, error: ImageError) -> ToolError {
    match error {
        ImageError::IoError(error) if error.kind() != ErrorKind::UnexpectedEof => {
            ToolError::at_path(path, &error)
        }
        ImageError::Limits(_) => ToolError::result_too_large(
            "picture_too_large",
            format!(
                "{path}: decoding the picture takes more than {} MiB",
                DECODER_BYTES_MAX >> 20
            ),
        ),
        ImageError::Unsupported(error) => {
            ToolError::capability_gap("format_unsupported", format!("{path}: {error}"))
        }
        error => ToolError::invalid_arguments(
            "picture_invalid",
            format!("{path}: the picture is damaged: {error}"),
        ),
    }
}
