//! The device as the shipped disk code sees it.

use std::{
    io,
    path::{Path, PathBuf},
};

use tenure_disk::{Storage, StorageFile, StorageLock};

use super::{Device, FileId, files::Content};

#[derive(Debug)]
struct OpenFile {
    device: Device,
    id: FileId,
}

impl Device {
    fn opened(&self, id: FileId) -> Box<dyn StorageFile> {
        Box::new(OpenFile { device: self.clone(), id })
    }
}

impl Storage for Device {
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let disk = &mut *self.disk();
        disk.powered()?;
        if let Ok(id) = disk.find(path) {
            disk.files.get_mut(&id).expect("what has a name is there").resize(0);
            return Ok(self.opened(id));
        }
        if disk.trouble.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.next += 1;
        let id = disk.next;
        disk.files.insert(id, Content::default());
        disk.rename(None, Some((path, id)));
        Ok(self.opened(id))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.opened(self.disk().find(path)?))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.open(path)
    }

    fn open_direct(&self, _path: &Path) -> Option<Box<dyn StorageFile>> {
        None
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let disk = self.disk();
        Ok(disk.files[&disk.find(path)?].bytes.clone())
    }

    fn exists(&self, path: &Path) -> bool {
        self.disk().find(path).is_ok()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.disk().directories.contains(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let above = path.ancestors().map(Path::to_owned);
        self.disk().directories.extend(above);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let disk = self.disk();
        let inside = |path: &&PathBuf| path.parent() == Some(directory);
        Ok(disk.names.keys().filter(inside).cloned().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let disk = &mut *self.disk();
        disk.powered()?;
        let id = disk.find(from)?;
        disk.rename(Some(from), Some((to, id)));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let disk = &mut *self.disk();
        disk.powered()?;
        disk.find(path)?;
        disk.rename(Some(path), None);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let disk = &mut *self.disk();
        disk.powered()?;
        if disk.trouble.fails {
            return Err(io::Error::other("the flush failed"));
        }
        disk.sync_names(path);
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Option<StorageLock>> {
        // One process at a time uses a disk here.
        Ok(Some(Box::new(())))
    }

    fn random(&self) -> u64 {
        self.disk().number
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn remove_gradually(&self, retired: Vec<PathBuf>) {
        for path in retired {
            // The next start removes what is left.
            let _ = self.remove(&path);
        }
    }
}

impl OpenFile {
    fn with<T>(&self, act: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        let mut disk = self.device.disk();
        disk.files.get_mut(&self.id).map(act).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        {
            let mut disk = self.device.disk();
            disk.powered()?;
            if disk.trouble.fails {
                return Err(io::Error::other("the flush failed"));
            }
        }
        self.with(Content::sync)
    }

    fn check_room(&self, end: usize) -> io::Result<()> {
        let mut disk = self.device.disk();
        disk.powered()?;
        let length = disk.files.get(&self.id).map_or(0, |file| file.bytes.len());
        match disk.trouble.full && end > length {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StorageFile for OpenFile {
    fn length(&self) -> io::Result<u64> {
        self.with(|file| file.bytes.len() as u64)
    }

    fn read_some_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|file| {
            let rest = file.bytes.get(at as usize..).unwrap_or_default();
            let read = rest.len().min(bytes.len());
            bytes[..read].copy_from_slice(&rest[..read]);
            read
        })
    }

    fn write_all_to(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.check_room(at as usize + bytes.len())?;
        self.with(|file| file.write(bytes, at as usize))
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        self.check_room(bytes as usize)?;
        self.with(|file| file.resize(bytes as usize))
    }

    fn sync_content(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_everything(&self) -> io::Result<()> {
        self.sync()
    }
}
