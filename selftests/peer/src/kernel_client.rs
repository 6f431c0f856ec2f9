// SPDX-License-Identifier: GPL-2.0

//! The kernel's NFS client: mounts the crafted server, and what it does there.

use crate::case::Outcome;
use crate::nfs3;
use crate::timeout::scaled;
use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_ulong;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

/// The work of the client below the mount point, which returns what is to be compared.
pub type Workload = fn(&Path) -> io::Result<Vec<u8>>;

/// How long the client may take for anything.
pub fn client_timeout() -> Duration {
    scaled(Duration::from_secs(40))
}

/// Reads the file.
pub fn read(root: &Path) -> io::Result<Vec<u8>> {
    fs::read(root.join(nfs3::NAME))
}

/// The flag of `open`, whose value is the architecture's.
const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") {
    0o200000
} else {
    0o40000
};

/// Reads the file past the page cache.
fn read_directly(root: &Path) -> io::Result<Vec<u8>> {
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(O_DIRECT);
    let mut bytes = vec![0; nfs3::LENGTH];
    io::Read::read_exact(&mut options.open(root.join(nfs3::NAME))?, &mut bytes)?;
    Ok(bytes)
}

/// Reads the file past the page cache, which must fail with EIO. Then as [`list`].
pub fn read_in_vain_and_list(root: &Path) -> io::Result<Vec<u8>> {
    const EIO: i32 = 5;
    match read_directly(root) {
        Err(error) if error.raw_os_error() == Some(EIO) => list(root),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("the READ succeeds")),
    }
}

/// Reads the file twice at the same time, past the page cache.
pub fn read_twice(root: &Path) -> io::Result<Vec<u8>> {
    std::thread::scope(|scope| {
        let mut both = Vec::new();
        let read = || read_directly(root);
        for reader in [scope.spawn(read), scope.spawn(read)] {
            both.extend(reader.join().map_err(|_| io::Error::other("a panic"))??);
        }
        Ok(both)
    })
}

/// How many parts [`read_in_parts`] reads, and how long each is.
pub const PARTS: usize = 24;
pub const PART: usize = 512;

/// Reads the beginning of the file in parts, all at the same time, past the page cache.
pub fn read_in_parts(root: &Path) -> io::Result<Vec<u8>> {
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(O_DIRECT)
        .open(root.join(nfs3::NAME))?;
    let read = |part: usize| {
        let mut bytes = vec![0; PART];
        let at = (part * PART) as u64;
        file.read_exact_at(&mut bytes, at).map(|()| bytes)
    };
    let read = &read;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..PARTS)
            .map(|part| scope.spawn(move || read(part)))
            .collect();
        let mut all = Vec::new();
        for reader in readers {
            all.extend(reader.join().map_err(|_| io::Error::other("a panic"))??);
        }
        Ok(all)
    })
}

/// How many symbolic links [`read_links`] reads.
pub const LINKS: usize = 24;

/// Looks up symbolic links, one by one, then reads them, all at the same time. Returns where they point
/// to.
pub fn read_links(root: &Path) -> io::Result<Vec<u8>> {
    for link in 0..LINKS {
        fs::symlink_metadata(root.join(nfs3::link_name(link)))?;
    }
    let read = |link: usize| fs::read_link(root.join(nfs3::link_name(link)));
    let read = &read;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..LINKS)
            .map(|link| scope.spawn(move || read(link)))
            .collect();
        let mut all = Vec::new();
        for reader in readers {
            let target = reader.join().map_err(|_| io::Error::other("a panic"))??;
            all.extend(target.into_os_string().into_encoded_bytes());
        }
        Ok(all)
    })
}

/// Lists the directory.
pub fn list(root: &Path) -> io::Result<Vec<u8>> {
    let names = fs::read_dir(root)?.map(|entry| Ok(entry?.file_name().into_encoded_bytes()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names.concat())
}

/// Reads the file, then lists the directory.
pub fn read_and_list(root: &Path) -> io::Result<Vec<u8>> {
    read(root)?;
    list(root)
}

/// Writes all of the file, waits until it is written, and asks for its attributes: there is a call after the WRITE.
pub fn write(root: &Path) -> io::Result<Vec<u8>> {
    let path = root.join(nfs3::NAME);
    let file = fs::OpenOptions::new().write(true).open(&path)?;
    io::Write::write_all(&mut &file, &nfs3::content())?;
    file.sync_all()?;
    fs::metadata(path)?;
    Ok(Vec::new())
}

/// Looks up four names at once.
pub fn look_up_names(root: &Path) -> io::Result<Vec<u8>> {
    std::thread::scope(|scope| {
        let threads = [1, 2, 3, 4]
            .map(|name| scope.spawn(move || fs::metadata(root.join(name.to_string())).map(|_| ())));
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a panic"))??;
        }
        Ok(Vec::new())
    })
}

/// How many processes [`list_in_processes`] starts.
pub const LIST_PROCESSES: usize = 8;

/// The process that lists the directory.
static LIST_PROCESS: Mutex<Option<Child>> = Mutex::new(None);

/// Has one process after the other list the directory, whether they succeed or not. Then as [`list`].
pub fn list_in_processes(root: &Path) -> io::Result<Vec<u8>> {
    run_list_processes(LIST_PROCESSES, root)?;
    list(root)
}

/// Has two processes list the directory, whether they succeed or not. Then as [`look_up_names`].
pub fn list_in_processes_and_look_up(root: &Path) -> io::Result<Vec<u8>> {
    run_list_processes(2, root)?;
    look_up_names(root)
}

fn run_list_processes(count: usize, root: &Path) -> io::Result<()> {
    for _ in 0..count {
        start_list_process(root)?;
        while !list_process_is_gone()? {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Its call can reach the server before this returns, so who kills it then waits for the lock.
fn start_list_process(root: &Path) -> io::Result<()> {
    let mut current = LIST_PROCESS.lock().expect("nobody panics");
    *current = Some(Command::new("ls").arg(root).stdout(Stdio::null()).spawn()?);
    Ok(())
}

fn list_process_is_gone() -> io::Result<bool> {
    match &mut *LIST_PROCESS.lock().expect("nobody panics") {
        Some(process) => Ok(process.try_wait()?.is_some()),
        None => Ok(true),
    }
}

/// Kills the process that lists the directory. It is gone when this returns.
pub fn kill_list_process() -> Outcome {
    let end = Instant::now() + client_timeout();
    if let Some(process) = &mut *LIST_PROCESS.lock().expect("nobody panics") {
        process.kill().map_err(|error| error.to_string())?;
        while Instant::now() < end {
            if let Ok(Some(_)) = process.try_wait() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Err("there is no process that dies".into())
}

/// Does nothing but mount and unmount.
pub fn idle(_: &Path) -> io::Result<Vec<u8>> {
    Ok(Vec::new())
}

extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_char,
    ) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
}

fn result(status: c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where a server is, and where to mount it.
#[derive(Clone, Copy)]
pub struct MountPoint {
    /// The port of NFS over RDMA.
    pub port: u16,
    /// The port of MOUNT over TCP.
    pub mount_port: u16,
    /// The directory.
    pub directory: &'static str,
}

/// Mounts the server at `address`, carries out `workload` and unmounts.
pub fn with_mount(address: &str, at: MountPoint, workload: Workload) -> io::Result<Vec<u8>> {
    let string = |text: String| CString::new(text).map_err(io::Error::other);
    let timeo = scaled(Duration::from_secs(10)).as_millis() / 100;
    let MountPoint {
        port,
        mount_port,
        directory,
    } = at;
    let options = format!(
        "vers=3,proto=rdma,port={port},addr={address},mountaddr={address},mountproto=tcp,\
         mountvers=3,mountport={mount_port},nolock,noacl,nordirplus,soft,timeo={timeo},retrans=1,noac",
    );
    let (source, target) = (string(format!("{address}:/"))?, string(directory.into())?);
    let (kind, options) = (string("nfs".into())?, string(options)?);
    fs::create_dir_all(directory)?;
    // SAFETY: All are strings that live until the call returns.
    result(unsafe {
        let (source, target) = (source.as_ptr(), target.as_ptr());
        mount(source, target, kind.as_ptr(), 0, options.as_ptr())
    })?;
    let outcome = workload(Path::new(directory));
    // SAFETY: As above. The flags are MNT_FORCE and MNT_DETACH.
    result(unsafe { umount2(target.as_ptr(), 1 | 2) })?;
    outcome
}
