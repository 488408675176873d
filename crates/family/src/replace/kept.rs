//! Copies the mode, the owner and group and, on Linux, the access list of a replaced file to the
//! new file. On systems other than Unix, copies nothing.
//!
//! Overwriting the old file in place would keep its permissions. But a reader that maps the file
//! could see a part of the new filter, and deny keys.

use std::fs::File;
use std::io;

#[cfg(unix)]
pub use unix::Kept;

#[cfg(unix)]
mod unix {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    use super::{File, access_list, io};

    /// The attributes of a file that is replaced.
    #[derive(Debug)]
    pub struct Kept {
        mode: u32,
        owner: u32,
        group: u32,
        access_list: Option<Vec<u8>>,
    }

    impl Kept {
        /// Reads the attributes of the open file.
        ///
        /// # Errors
        /// Returns an error if the attributes cannot be read. Returns an error also for a file with
        /// several hard links, because a rename would replace only one name.
        pub fn of(file: &File) -> io::Result<Self> {
            let found = file.metadata()?;
            if found.nlink() > 1 {
                let why = format!(
                    "the file has {} names (hard links), and only this one would be replaced; first replace this name by \
                     a copy of the file",
                    found.nlink()
                );
                return Err(io::Error::other(why));
            }
            let access_list = access_list::of(file).map_err(|error| {
                let why = "first replace this file by your own copy of it";
                io::Error::other(format!("cannot read the access list (ACL): {error}; {why}"))
            })?;
            Ok(Self { mode: found.mode() & 0o7777, owner: found.uid(), group: found.gid(), access_list })
        }

        /// Gives the attributes to `file`, the new version of the file. The owner comes first,
        /// because changing the owner clears bits of the mode.
        ///
        /// # Errors
        /// Returns an error if the new version cannot get an attribute.
        pub fn give(&self, file: &File) -> io::Result<()> {
            let Self { owner, group, mode, access_list } = self;
            let refused = |what: &str, error: io::Error| {
                let advice = "first replace the old file by your own copy of it";
                io::Error::other(format!("the new file cannot get {what}: {error}; {advice}"))
            };
            let in_place = |error| refused("the same mode", error);
            let made = file.metadata().map_err(in_place)?;
            if (made.uid(), made.gid()) != (*owner, *group) {
                fchown(file, Some(*owner), Some(*group))
                    .map_err(|error| refused(&format!("the same owner (user {owner}, group {group})"), error))?;
            }
            access_list::give(file, access_list.as_deref())
                .map_err(|error| refused("the same access list (ACL)", error))?;
            file.set_permissions(Permissions::from_mode(*mode)).map_err(in_place)
        }
    }
}

/// Reads and sets access lists (ACLs). In a file with an access list, the group bits of the mode
/// are only an upper bound. Without the list, the same mode could give the group more rights.
#[cfg(target_os = "linux")]
mod access_list {
    use rustix::buffer::spare_capacity;
    use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
    use rustix::io::Errno;

    use super::{File, io};

    const NAME: &str = "system.posix_acl_access";
    /// The maximum length of an extended attribute on Linux.
    const MAX_LEN_BYTES: usize = 1 << 16;

    /// Returns the access list of a file as the kernel encodes it. Returns `None` if the file has
    /// none, or if the file system does not support access lists.
    pub fn of(file: &File) -> io::Result<Option<Vec<u8>>> {
        let mut list = Vec::with_capacity(MAX_LEN_BYTES);
        match fgetxattr(file, NAME, spare_capacity(&mut list)) {
            Ok(_) => Ok(Some(list)),
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the access list, or removes it if `list` is `None`: a new file may inherit one from its
    /// directory.
    pub fn give(file: &File, list: Option<&[u8]>) -> io::Result<()> {
        match list.map_or_else(|| fremovexattr(file, NAME), |list| fsetxattr(file, NAME, list, XattrFlags::empty())) {
            Err(Errno::NODATA | Errno::NOTSUP) if list.is_none() => Ok(()),
            done => Ok(done?),
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod access_list {
    use super::{File, io};

    pub fn of(_: &File) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    pub fn give(_: &File, _: Option<&[u8]>) -> io::Result<()> {
        Ok(())
    }
}

/// The attributes of the replaced file. On systems other than Unix, no attributes are copied.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Kept;

#[cfg(not(unix))]
impl Kept {
    pub fn of(_: &File) -> io::Result<Self> {
        Ok(Self)
    }

    pub fn give(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}
