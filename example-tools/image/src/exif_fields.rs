use exif::{In, Reader, Tag, Value};
use toolcell_guest::data;

/// Maximum length of a text, in characters: a file may have texts of any length.
const CHARS_MAX: usize = 200;

/// A few fields of EXIF.
#[data]
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Exif {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) make: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lens: Option<String>,
    /// When the picture was taken, such as `2026-05-01T18:30:00`, in the time zone of the camera.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) software: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposure_time: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) f_number: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) iso: Option<u32>,
    /// Millimeters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) focal_length: Option<f64>,
    /// `true` if the file says where the picture was taken.
    pub(crate) has_location: bool,
}

/// Reads raw EXIF data as far as it is valid. `None` if it has none of these fields.
pub(crate) fn read(raw: Vec<u8>) -> Option<Exif> {
    let parsed = Reader::new()
        .continue_on_error(true)
        .read_raw(raw)
        .or_else(|error| error.distill_partial_result(|_| ()))
        .ok()?;
    let value = |tag| parsed.get_field(tag, In::PRIMARY).map(|field| &field.value);
    let text = |tag| value(tag).and_then(text);
    let number = |tag| value(tag).and_then(number);
    let exif = Exif {
        make: text(Tag::Make),
        model: text(Tag::Model),
        lens: text(Tag::LensModel),
        taken: text(Tag::DateTimeOriginal)
            .or_else(|| text(Tag::DateTime))
            .map(|time| iso_time(&time)),
        software: text(Tag::Software),
        description: text(Tag::ImageDescription),
        exposure_time: number(Tag::ExposureTime),
        f_number: number(Tag::FNumber),
        iso: value(Tag::PhotographicSensitivity).and_then(|value| value.get_uint(0)),
        focal_length: number(Tag::FocalLength),
        has_location: value(Tag::GPSLatitude).is_some(),
    };
    (exif != Exif::default()).then_some(exif)
}

fn text(value: &Value) -> Option<String> {
    let Value::Ascii(parts) = value else {
        return None;
    };
    let text = String::from_utf8_lossy(parts.first()?)
        .chars()
        .filter(|letter| !letter.is_control())
        .take(CHARS_MAX)
        .collect::<String>();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Rational(parts) => parts.first()?.to_f64(),
        Value::SRational(parts) => parts.first()?.to_f64(),
        Value::Float(parts) => f64::from(*parts.first()?),
        Value::Double(parts) => *parts.first()?,
        other => f64::from(other.get_uint(0)?),
    };
    // A denominator of 0 is common for "unknown".
    number.is_finite().then_some(number)
}

/// `2026:05:01 18:30:00`, as EXIF has it, in ISO's form. Any other text is left as it is.
fn iso_time(text: &str) -> String {
    match text.split_once(' ') {
        Some((date, time)) if date.len() == 10 => format!("{}T{time}", date.replace(':', "-")),
        _ => text.to_owned(),
    }
}

impl Exif {
    pub(crate) fn render(&self) -> String {
        let mut parts: Vec<String> = [
            &self.make,
            &self.model,
            &self.lens,
            &self.taken,
            &self.software,
            &self.description,
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
        let numbers = [
            self.exposure_time.map(exposure),
            self.f_number.map(|number| format!("f/{number}")),
            self.iso.map(|iso| format!("ISO {iso}")),
            self.focal_length.map(|length| format!("{length} mm")),
        ];
        parts.extend(numbers.into_iter().flatten());
        if self.has_location {
            parts.push("with the place where it was taken".to_owned());
        }
        format!("EXIF: {}", parts.join(", "))
    }
}

fn exposure(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 0.5 {
        format!("1/{:.0} s", 1.0 / seconds)
    } else {
        format!("{seconds} s")
    }
}
