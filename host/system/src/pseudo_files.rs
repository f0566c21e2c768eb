//! File systems whose content the kernel makes at that moment, such as a process's memory and variables; writes change
//! the machine. No grant reaches them.

use std::io;
use std::path::{Path, PathBuf};

/// `O_PATH` is enough.
///
/// # Errors
///
/// [`io::ErrorKind::PermissionDenied`], and a file system that does not tell its type.
pub fn refuse(file: &impl std::os::fd::AsFd) -> io::Result<()> {
    if imp::is_pseudo(file)? && guard!("pseudo_files") {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is no folder of files, but of the kernel's state",
        ))
    } else {
        Ok(())
    }
}

/// `false` if unknown.
pub fn contain(path: &Path) -> bool {
    imp::contain(path) && guard!("pseudo_files")
}

pub fn mounted_in<'a>(folders: impl Iterator<Item = &'a Path> + Clone) -> Vec<PathBuf> {
    // Most calls have no folders, and the table need not be read for them.
    if folders.clone().next().is_none() || !guard!("pseudo_files") {
        return Vec::new();
    }
    let places = imp::places();
    let meets = |place: &&PathBuf| {
        folders
            .clone()
            .any(|folder| place.starts_with(folder) || folder.starts_with(place))
    };
    places.iter().filter(meets).cloned().collect()
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    pub(super) fn is_pseudo(_: &impl std::os::fd::AsFd) -> io::Result<bool> {
        Ok(false)
    }

    pub(super) fn contain(_: &Path) -> bool {
        false
    }

    pub(super) fn places() -> Arc<[PathBuf]> {
        Arc::default()
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::fs::File;
    use std::io::{self, Read, Seek};
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, PoisonError};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FsWord, fstatfs, statfs};

    /// Names in the mount table, and numbers in `statfs`. Without memory (`tmpfs`, also `/dev`), layered, network and
    /// user (FUSE) file systems, which hold files.
    const KINDS: [(&str, FsWord); 31] = [
        ("proc", 0x9fa0),
        ("sysfs", 0x6265_6572),
        ("debugfs", 0x6462_6720),
        ("tracefs", 0x7472_6163),
        ("securityfs", 0x7363_6673),
        ("bpf", 0xcafe_4a11),
        ("cgroup", 0x0027_e0eb),
        ("cpuset", 0x0027_e0eb),
        ("cgroup2", 0x6367_7270),
        ("configfs", 0x6265_6570),
        ("devpts", 0x1cd1),
        ("efivarfs", 0xde5e_81e4),
        ("pstore", 0x6165_676c),
        ("binfmt_misc", 0x4249_4e4d),
        ("fusectl", 0x6573_5543),
        ("mqueue", 0x1980_0202),
        ("selinuxfs", 0xf97c_ff8c),
        ("smackfs", 0x4341_5d53),
        ("apparmorfs", 0x5a3c_69f0),
        ("nsfs", 0x6e73_6673),
        ("pidfs", 0x5049_4446),
        ("resctrl", 0x0765_5821),
        ("xenfs", 0xabba_1974),
        ("rpc_pipefs", 0x6759_6969),
        ("nfsd", 0x6e66_7364),
        ("functionfs", 0x0a64_7361),
        ("gadgetfs", 0xaee7_1ee7),
        ("binder", 0x6c6f_6f70),
        ("sockfs", 0x534f_434b),
        ("pipefs", 0x5049_5045),
        ("anon_inodefs", 0x0904_1934),
    ];

    /// Kept open, because the kernel tells when the table changes. It can have thousands of rows.
    struct MountTable {
        file: File,
        places: Arc<[PathBuf]>,
    }

    static TABLE: Mutex<Option<MountTable>> = Mutex::new(None);

    pub(super) fn is_pseudo(file: &impl AsFd) -> io::Result<bool> {
        let kind = fstatfs(file)?.f_type;
        Ok(KINDS.iter().any(|(_, number)| *number == kind))
    }

    pub(super) fn contain(path: &Path) -> bool {
        statfs(path).is_ok_and(|found| KINDS.iter().any(|(_, number)| *number == found.f_type))
    }

    /// Empty if the table is unreadable: then only opened files are checked.
    pub(super) fn places() -> Arc<[PathBuf]> {
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        match table.as_mut().map(MountTable::refresh) {
            Some(Ok(())) => {}
            Some(Err(_)) | None => *table = MountTable::open().ok(),
        }
        table
            .as_ref()
            .map(|table| Arc::clone(&table.places))
            .unwrap_or_default()
    }

    impl MountTable {
        fn open() -> io::Result<Self> {
            let mut table = Self {
                file: File::open("/proc/self/mountinfo")?,
                places: Arc::default(),
            };
            table.read()?;
            Ok(table)
        }

        fn refresh(&mut self) -> io::Result<()> {
            let mut polled = [PollFd::new(&self.file, PollFlags::PRI)];
            poll(&mut polled, Some(&Timespec::default()))?;
            if polled
                .iter()
                .any(|file| file.revents().intersects(PollFlags::PRI | PollFlags::ERR))
            {
                self.read()
            } else {
                Ok(())
            }
        }

        fn read(&mut self) -> io::Result<()> {
            let mut text = Vec::new();
            self.file.rewind()?;
            self.file.read_to_end(&mut text)?;
            self.places = places_in(&text).into();
            Ok(())
        }
    }

    /// The last of several mounts at one place counts.
    pub(super) fn places_in(text: &[u8]) -> Vec<PathBuf> {
        let mut places = BTreeMap::new();
        for row in text.split(|byte| *byte == b'\n') {
            let mut words = row.split(|byte| *byte == b' ');
            let Some(place) = words.nth(4) else { continue };
            // A number of optional words ends with a dash; the type follows.
            let Some(kind) = words.skip_while(|word| *word != b"-").nth(1) else {
                continue;
            };
            let is_pseudo = KINDS.iter().any(|(name, _)| name.as_bytes() == kind);
            places.insert(unescaped(place), is_pseudo);
        }
        places
            .into_iter()
            .filter(|(_, is_pseudo)| *is_pseudo)
            .map(|(place, _)| place)
            .collect()
    }

    /// Blanks and backslashes are three octal digits.
    fn unescaped(word: &[u8]) -> PathBuf {
        let mut path = Vec::with_capacity(word.len());
        let mut rest = word;
        while let Some((first, after)) = rest.split_first() {
            let digits = after
                .get(..3)
                .and_then(|digits| std::str::from_utf8(digits).ok());
            let escaped = digits
                .filter(|_| *first == b'\\')
                .and_then(|digits| u8::from_str_radix(digits, 8).ok());
            path.push(escaped.unwrap_or(*first));
            rest = if escaped.is_some() {
                after.get(3..).unwrap_or_default()
            } else {
                after
            };
        }
        PathBuf::from(OsString::from_vec(path))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_kernels_state_is_no_file_and_a_temporary_folder_is_one() {
        let refused = |path: &str| refuse(&File::open(path).unwrap()).is_err();
        assert!(
            refused("/proc") && refused("/proc/self/environ") && contain(Path::new("/proc/self"))
        );
        let folder = std::env::temp_dir();
        assert!(!refused(folder.to_str().unwrap()) && !contain(&folder) && !refused("/dev"));
        let within = mounted_in([Path::new("/")].into_iter());
        assert!(within.contains(&PathBuf::from("/proc")), "{within:?}");
        assert!(
            mounted_in([Path::new("/proc/self")].into_iter()).contains(&PathBuf::from("/proc"))
        );
        assert!(mounted_in([folder.as_path()].into_iter()).is_empty());
        assert!(mounted_in([].into_iter()).is_empty());
    }

    #[test]
    fn a_row_of_the_table_has_a_place_and_a_type_and_the_last_of_a_place_counts() {
        let text = b"22 1 0:21 / /proc rw,nosuid shared:13 - proc proc rw\n\
            23 1 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw\n\
            24 1 0:22 / /a\\040b\\134c rw - sysfs sysfs rw\n\
            25 1 0:23 / /over rw - cgroup2 cgroup2 rw\n\
            26 1 0:24 / /over rw - tmpfs tmpfs rw\n\
            27 1 0:25 / /short\n";
        assert_eq!(
            imp::places_in(text),
            [PathBuf::from("/a b\\c"), PathBuf::from("/proc")]
        );
    }
}
