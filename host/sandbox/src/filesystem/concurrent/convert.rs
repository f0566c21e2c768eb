//! Types of WASI 0.2 and 0.3 that mean the same.

use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types as old;
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::types as new;
use wasmtime_wasi::p3::filesystem::FilesystemResult;

/// The flags of `from` that are set, as flags of another type.
macro_rules! flags {
    ($from:expr, $old:ty => $new:ty: $($name:ident)*) => {{
        let mut to = <$new>::empty();
        $(if $from.contains(<$old>::$name) {
            to |= <$new>::$name;
        })*
        to
    }};
}

pub(super) fn path_flags(flags: new::PathFlags) -> old::PathFlags {
    flags!(flags, new::PathFlags => old::PathFlags: SYMLINK_FOLLOW)
}

pub(super) fn open_flags(flags: new::OpenFlags) -> old::OpenFlags {
    flags!(flags, new::OpenFlags => old::OpenFlags: CREATE DIRECTORY EXCLUSIVE TRUNCATE)
}

pub(super) fn asked_flags(flags: new::DescriptorFlags) -> old::DescriptorFlags {
    flags!(flags, new::DescriptorFlags => old::DescriptorFlags:
        READ WRITE FILE_INTEGRITY_SYNC DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY)
}

pub(super) fn shown_flags(flags: old::DescriptorFlags) -> new::DescriptorFlags {
    flags!(flags, old::DescriptorFlags => new::DescriptorFlags:
        READ WRITE FILE_INTEGRITY_SYNC DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY)
}

pub(super) fn advice(advice: new::Advice) -> old::Advice {
    match advice {
        new::Advice::Normal => old::Advice::Normal,
        new::Advice::Sequential => old::Advice::Sequential,
        new::Advice::Random => old::Advice::Random,
        new::Advice::WillNeed => old::Advice::WillNeed,
        new::Advice::DontNeed => old::Advice::DontNeed,
        new::Advice::NoReuse => old::Advice::NoReuse,
    }
}

/// WASI 0.2 has no time before 1970.
pub(super) fn timestamp(time: new::NewTimestamp) -> FilesystemResult<old::NewTimestamp> {
    Ok(match time {
        new::NewTimestamp::NoChange => old::NewTimestamp::NoChange,
        new::NewTimestamp::Now => old::NewTimestamp::Now,
        new::NewTimestamp::Timestamp(at) => old::NewTimestamp::Timestamp(Datetime {
            seconds: u64::try_from(at.seconds).map_err(|_| new::ErrorCode::Overflow)?,
            nanoseconds: at.nanoseconds,
        }),
    })
}

fn instant(time: Datetime) -> Instant {
    Instant {
        seconds: i64::try_from(time.seconds).unwrap_or(i64::MAX),
        nanoseconds: time.nanoseconds,
    }
}

pub(super) fn descriptor_type(kind: old::DescriptorType) -> new::DescriptorType {
    match kind {
        old::DescriptorType::Unknown => new::DescriptorType::Other(None),
        old::DescriptorType::BlockDevice => new::DescriptorType::BlockDevice,
        old::DescriptorType::CharacterDevice => new::DescriptorType::CharacterDevice,
        old::DescriptorType::Directory => new::DescriptorType::Directory,
        old::DescriptorType::Fifo => new::DescriptorType::Fifo,
        old::DescriptorType::SymbolicLink => new::DescriptorType::SymbolicLink,
        old::DescriptorType::RegularFile => new::DescriptorType::RegularFile,
        old::DescriptorType::Socket => new::DescriptorType::Socket,
    }
}

pub(super) fn stat(stat: old::DescriptorStat) -> new::DescriptorStat {
    new::DescriptorStat {
        type_: descriptor_type(stat.type_),
        link_count: stat.link_count,
        size: stat.size,
        data_access_timestamp: stat.data_access_timestamp.map(instant),
        data_modification_timestamp: stat.data_modification_timestamp.map(instant),
        status_change_timestamp: stat.status_change_timestamp.map(instant),
    }
}

pub(super) fn hash(hash: old::MetadataHashValue) -> new::MetadataHashValue {
    new::MetadataHashValue {
        lower: hash.lower,
        upper: hash.upper,
    }
}

pub(super) fn entry(entry: old::DirectoryEntry) -> new::DirectoryEntry {
    new::DirectoryEntry {
        type_: descriptor_type(entry.type_),
        name: entry.name,
    }
}

pub(super) fn error_code(code: old::ErrorCode) -> new::ErrorCode {
    macro_rules! same {
        ($($name:ident)*) => {
            match code {
                $(old::ErrorCode::$name => new::ErrorCode::$name,)*
                old::ErrorCode::WouldBlock => new::ErrorCode::Busy,
            }
        };
    }
    same! {
        Access Already BadDescriptor Busy Deadlock Quota Exist FileTooLarge IllegalByteSequence InProgress Interrupted Invalid Io
        IsDirectory Loop TooManyLinks MessageSize NameTooLong NoDevice NoEntry NoLock InsufficientMemory InsufficientSpace
        NotDirectory NotEmpty NotRecoverable Unsupported NoTty NoSuchDevice Overflow NotPermitted Pipe ReadOnly InvalidSeek
        TextFileBusy CrossDevice
    }
}
