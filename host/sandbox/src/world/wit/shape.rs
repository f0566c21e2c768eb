//! The types of a function, read once when its component is linked, so that a call does not walk them.

use super::collect::is_simple;
use wasmtime::component::Type;
use wasmtime::component::types::ComponentFunc;

/// Schema and codec recurse as deep.
const DEPTH_MAX: usize = 32;
/// Named types are written out: a few nested tuples can be a million. Their schemas stay below the limit of values in a
/// toolkit.
pub(super) const PARTS_MAX: usize = 8_000;
const NAME_BYTES_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonShape {
    Bool,
    Int(IntegerType),
    Float32,
    Float64,
    Char,
    String,
    Bytes,
    List(Box<JsonShape>),
    Fixed(Box<JsonShape>, u32),
    Tuple(Vec<JsonShape>),
    Record(Vec<(String, JsonShape)>),
    Variant(Vec<(String, Option<JsonShape>)>),
    Enum(Vec<String>),
    Flags(Vec<String>),
    Option(Box<JsonShape>),
    Result(Option<Box<JsonShape>>, Option<Box<JsonShape>>),
    Map(Box<JsonShape>, Box<JsonShape>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerType {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
}

impl IntegerType {
    pub(super) fn range(self) -> (i128, i128) {
        match self {
            Self::U8 => (0, u8::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
        }
    }

    /// Some values are not exact as a double, which most readers of JSON take.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::U64 | Self::S64)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FunctionSignature {
    pub(super) input: JsonShape,
    pub(super) output: Option<JsonShape>,
    pub(super) results: usize,
    /// The items of a stream or a future that is the result.
    pub(super) streamed: Option<JsonShape>,
}

impl FunctionSignature {
    /// Fails if JSON has no value for a type; their number is taken off `parts`.
    pub(super) fn from_function(
        function: &ComponentFunc,
        parts: &mut usize,
    ) -> Result<Self, String> {
        let mut types = ShapeReader { parts };
        let mut input = Vec::new();
        for (name, kind) in function.params() {
            input.push((types.name(name)?, types.shape(&kind, 0)?));
        }
        let kinds: Vec<Type> = function.results().collect();
        let streamed = types.streamed(&kinds)?;
        let mut outputs = Vec::new();
        match (&streamed, &kinds[..]) {
            (Some(JsonShape::Int(IntegerType::U8)), [Type::Stream(_)]) => {
                outputs.push(JsonShape::Bytes);
            }
            (Some(item), [Type::Stream(_)]) => outputs.push(JsonShape::List(item.clone().into())),
            (Some(item), _) => outputs.push(item.clone()),
            (None, kinds) => {
                for kind in kinds {
                    outputs.push(types.shape(kind, 0)?);
                }
            }
        }
        let results = outputs.len();
        let output = match results {
            0 | 1 => outputs.pop(),
            _ => Some(JsonShape::Tuple(outputs)),
        };
        Ok(Self {
            input: JsonShape::Record(input),
            output,
            results,
            streamed,
        })
    }
}

/// Each value is compared with all cases, and no fuel pays for that.
const CASES_MAX: usize = 1_000;

struct ShapeReader<'p> {
    parts: &'p mut usize,
}

fn cases(count: usize) -> Result<(), String> {
    if count > CASES_MAX {
        Err(format!("one of its types has more than {CASES_MAX} cases"))
    } else {
        Ok(())
    }
}

impl ShapeReader<'_> {
    /// The items of a stream or a future that is the only result.
    fn streamed(&mut self, results: &[Type]) -> Result<Option<JsonShape>, String> {
        let item = match results {
            [Type::Stream(stream)] => stream.ty(),
            [Type::Future(future)] => future.ty(),
            _ => return Ok(None),
        };
        let item = item.map(|item| self.shape(&item, 1)).transpose()?;
        match item.filter(is_simple) {
            Some(item) => Ok(Some(item)),
            None => Err(
                "it returns a stream or a future of what is not a text, a number, true or false"
                    .to_owned(),
            ),
        }
    }

    fn shape(&mut self, kind: &Type, depth: usize) -> Result<JsonShape, String> {
        self.take(1)?;
        if depth > DEPTH_MAX {
            return Err(format!("its types are nested more than {DEPTH_MAX} deep"));
        }
        let depth = depth + 1;
        let none = |what: &str| Err(format!("it uses {what}, for which JSON has no value"));
        Ok(match kind {
            Type::Bool => JsonShape::Bool,
            Type::U8 => JsonShape::Int(IntegerType::U8),
            Type::U16 => JsonShape::Int(IntegerType::U16),
            Type::U32 => JsonShape::Int(IntegerType::U32),
            Type::U64 => JsonShape::Int(IntegerType::U64),
            Type::S8 => JsonShape::Int(IntegerType::S8),
            Type::S16 => JsonShape::Int(IntegerType::S16),
            Type::S32 => JsonShape::Int(IntegerType::S32),
            Type::S64 => JsonShape::Int(IntegerType::S64),
            Type::Float32 => JsonShape::Float32,
            Type::Float64 => JsonShape::Float64,
            Type::Char => JsonShape::Char,
            Type::String => JsonShape::String,
            Type::List(list) => match list.ty() {
                Type::U8 => JsonShape::Bytes,
                item => JsonShape::List(self.boxed(&item, depth)?),
            },
            Type::FixedLengthList(list) => {
                JsonShape::Fixed(self.boxed(&list.ty(), depth)?, list.len())
            }
            Type::Map(map) => JsonShape::Map(
                self.boxed(&map.key(), depth)?,
                self.boxed(&map.value(), depth)?,
            ),
            Type::Tuple(tuple) => JsonShape::Tuple(
                tuple
                    .types()
                    .map(|kind| self.shape(&kind, depth))
                    .collect::<Result<_, _>>()?,
            ),
            Type::Record(record) => {
                let fields = record
                    .fields()
                    .map(|field| Ok((self.name(field.name)?, self.shape(&field.ty, depth)?)));
                JsonShape::Record(fields.collect::<Result<_, String>>()?)
            }
            Type::Variant(variant) => {
                cases(variant.cases().len())?;
                let cases = variant.cases().map(|case| {
                    let payload = case.ty.map(|kind| self.shape(&kind, depth)).transpose()?;
                    Ok((self.name(case.name)?, payload))
                });
                JsonShape::Variant(cases.collect::<Result<_, String>>()?)
            }
            Type::Enum(kind) => {
                cases(kind.names().len())?;
                JsonShape::Enum(
                    kind.names()
                        .map(|name| self.name(name))
                        .collect::<Result<_, _>>()?,
                )
            }
            Type::Flags(kind) => JsonShape::Flags(
                kind.names()
                    .map(|name| self.name(name))
                    .collect::<Result<_, _>>()?,
            ),
            Type::Option(option) => JsonShape::Option(self.boxed(&option.ty(), depth)?),
            Type::Result(result) => {
                let ok = result
                    .ok()
                    .map(|kind| self.boxed(&kind, depth))
                    .transpose()?;
                JsonShape::Result(
                    ok,
                    result
                        .err()
                        .map(|kind| self.boxed(&kind, depth))
                        .transpose()?,
                )
            }
            Type::Own(_) | Type::Borrow(_) => return none("a resource"),
            Type::Future(_) => return none("a future"),
            Type::Stream(_) => return none("a stream"),
            Type::ErrorContext => return none("an error context"),
        })
    }

    fn boxed(&mut self, kind: &Type, depth: usize) -> Result<Box<JsonShape>, String> {
        self.shape(kind, depth).map(Box::new)
    }

    fn name(&mut self, name: &str) -> Result<String, String> {
        self.take(1)?;
        if name.len() <= NAME_BYTES_MAX {
            Ok(name.to_owned())
        } else {
            Err(format!(
                "a name in its types is longer than {NAME_BYTES_MAX} bytes"
            ))
        }
    }

    fn take(&mut self, parts: usize) -> Result<(), String> {
        match self.parts.checked_sub(parts) {
            Some(left) => *self.parts = left,
            None => {
                return Err(format!(
                    "the types of the component have more than {PARTS_MAX} parts"
                ));
            }
        }
        Ok(())
    }
}
