// SPDX-License-Identifier: GPL-2.0

//! The kernel's client, mounted from here, and the server that it believes in.
//!
//! A thread mounts, does one thing to the file and unmounts; the main thread is the server. A case
//! lets the server answer as it should up to the call of interest.

use super::bench::same;
use super::bench::shown;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::files;
use super::files::procedure;
use super::pace::here;
use super::verbs::Access;
use super::verbs::Connection;
use super::verbs::Listener;
use super::verbs::Options;
use super::verbs::Region;
use super::verbs::Verb;
use super::verbs::SUCCESS;
use super::wire;
use super::wire::words;
use std::cell::Cell;
use std::env;
use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_ulong;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

/// Where the peer serves NFS over RDMA, and where that is mounted. Two servers have two transports
/// of the client.
const PLACES: [(u16, &str); 2] = [(20050, "/mnt/peer"), (20052, "/mnt/peer2")];

/// Where it serves MOUNT over TCP.
const MOUNT_PORT: u16 = 20051;

/// How long the client may take for anything.
fn patience() -> Duration {
    here(Duration::from_secs(40))
}

/// How long nothing must come to be taken for silence.
fn silence() -> Duration {
    here(Duration::from_millis(400))
}

/// The longest message that is sent or taken without private data.
const THRESHOLD: usize = 1024;

/// How many calls the server lets come at once, if a case does not say otherwise.
const GRANT: u32 = 32;

/// What the client does when it has mounted. What comes of it.
pub type Deed = fn(&Path) -> io::Result<Vec<u8>>;

/// Reads the file.
pub fn read(root: &Path) -> io::Result<Vec<u8>> {
    fs::read(root.join(files::NAME))
}

/// Reads the file twice at the same time, past the page cache.
pub fn read_twice(root: &Path) -> io::Result<Vec<u8>> {
    const O_DIRECT: i32 = 0o40000;
    let read = || {
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).custom_flags(O_DIRECT);
        let mut bytes = vec![0; files::LENGTH];
        io::Read::read_exact(&mut options.open(root.join(files::NAME))?, &mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    std::thread::scope(|scope| {
        let mut both = Vec::new();
        for reader in [scope.spawn(read), scope.spawn(read)] {
            both.extend(reader.join().map_err(|_| io::Error::other("a panic"))??);
        }
        Ok(both)
    })
}

/// Names what is in the directory.
pub fn list(root: &Path) -> io::Result<Vec<u8>> {
    let names = fs::read_dir(root)?.map(|entry| Ok(entry?.file_name().into_encoded_bytes()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names.concat())
}

/// Reads the file, then names what is in the directory.
pub fn read_and_list(root: &Path) -> io::Result<Vec<u8>> {
    read(root)?;
    list(root)
}

/// Writes all of the file, and waits until it is written.
pub fn write(root: &Path) -> io::Result<Vec<u8>> {
    let file = fs::OpenOptions::new()
        .write(true)
        .open(root.join(files::NAME))?;
    io::Write::write_all(&mut &file, &files::content())?;
    file.sync_all()?;
    Ok(Vec::new())
}

/// Asks for several names at once.
pub fn look_around(root: &Path) -> io::Result<Vec<u8>> {
    std::thread::scope(|scope| {
        let lookers = [1, 2, 3, 4]
            .map(|name| scope.spawn(move || fs::metadata(root.join(name.to_string())).map(|_| ())));
        for looker in lookers {
            looker.join().map_err(|_| io::Error::other("a panic"))??;
        }
        Ok(Vec::new())
    })
}

/// How many processes [`list_again_and_again`] has.
pub const LISTERS: usize = 8;

/// The process that lists the directory.
static LISTER: Mutex<Option<Child>> = Mutex::new(None);

/// Has one process after the other list the directory, whatever becomes of it. Then as [`list`].
pub fn list_again_and_again(root: &Path) -> io::Result<Vec<u8>> {
    have_listed(LISTERS, root)?;
    list(root)
}

/// Has two processes list the directory, whatever becomes of it. Then as [`look_around`].
pub fn list_twice_and_look_around(root: &Path) -> io::Result<Vec<u8>> {
    have_listed(2, root)?;
    look_around(root)
}

/// Has one process after the other list the directory, so many of them.
fn have_listed(listers: usize, root: &Path) -> io::Result<()> {
    for _ in 0..listers {
        let lister = Command::new("ls").arg(root).stdout(Stdio::null()).spawn()?;
        *LISTER.lock().expect("nobody panics") = Some(lister);
        while !lister_is_gone()? {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

fn lister_is_gone() -> io::Result<bool> {
    match &mut *LISTER.lock().expect("nobody panics") {
        Some(lister) => Ok(lister.try_wait()?.is_some()),
        None => Ok(true),
    }
}

/// Kills the process that lists the directory. It is gone when this returns.
pub fn kill_lister() -> Verdict {
    let end = Instant::now() + patience();
    if let Some(lister) = &mut *LISTER.lock().expect("nobody panics") {
        lister.kill().map_err(|error| error.to_string())?;
        while Instant::now() < end {
            if let Ok(Some(_)) = lister.try_wait() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Err("there is no process that dies".into())
}

/// Nothing.
pub fn rest(_: &Path) -> io::Result<Vec<u8>> {
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

fn mounted(address: &str, (port, place): (u16, &str), deed: Deed) -> io::Result<Vec<u8>> {
    let string = |text: String| CString::new(text).map_err(io::Error::other);
    let timeo = here(Duration::from_secs(10)).as_millis() / 100;
    let options = format!(
        "vers=3,proto=rdma,port={port},addr={address},mountaddr={address},mountproto=tcp,\
         mountvers=3,mountport={MOUNT_PORT},nolock,noacl,nordirplus,soft,timeo={timeo},retrans=1,noac",
    );
    let (source, target) = (string(format!("{address}:/"))?, string(place.into())?);
    let (kind, options) = (string("nfs".into())?, string(options)?);
    fs::create_dir_all(place)?;
    // SAFETY: All are strings that live until the call returns.
    result(unsafe {
        let (source, target) = (source.as_ptr(), target.as_ptr());
        mount(source, target, kind.as_ptr(), 0, options.as_ptr())
    })?;
    let outcome = deed(Path::new(place));
    // SAFETY: As above. The flags say: by force, and not only when it is idle.
    result(unsafe { umount2(target.as_ptr(), 1 | 2) })?;
    outcome
}

/// A call of the client.
pub struct Call {
    /// Its transaction.
    pub xid: u32,
    /// The credits that it asks for.
    pub credits: u32,
    /// NFSv3's procedure.
    pub procedure: u32,
    /// Its chunks.
    pub lists: Lists,
    arguments: Vec<u8>,
}

impl Call {
    fn parse(message: &[u8]) -> Option<Self> {
        let mut rest = message;
        let mut word = || {
            let (word, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u32::from_be_bytes(*word))
        };
        let (xid, 1, credits, 0) = (word()?, word()?, word()?, word()?) else {
            return None;
        };
        let mut lists = Lists::default();
        while word()? == 1 {
            lists.read.push((word()?, Segment::parse(&mut word)?));
        }
        while word()? == 1 {
            let segments = (0..word()?).map(|_| Segment::parse(&mut word));
            lists.write.push(segments.collect::<Option<_>>()?);
        }
        if word()? == 1 {
            let segments = (0..word()?).map(|_| Segment::parse(&mut word));
            lists.reply = Some(segments.collect::<Option<_>>()?);
        }
        let payload = [word()?, word()?, word()?, word()?, word()?];
        if payload != [xid, 0, 2, 100_003, 3] {
            return None;
        }
        let procedure = word()?;
        for _credential_and_verifier in 0..2 {
            word()?;
            for _ in 0..word()?.div_ceil(4) {
                word()?;
            }
        }
        Some(Self {
            xid,
            credits,
            procedure,
            lists,
            arguments: rest.to_vec(),
        })
    }

    /// The chunks as they were offered, with nothing in them.
    pub fn unused(&self) -> Lists {
        let unused = |chunk: &Vec<Segment>| {
            let empty = |segment: &Segment| Segment {
                length: 0,
                ..*segment
            };
            chunk.iter().map(empty).collect::<Vec<_>>()
        };
        Lists {
            read: Vec::new(),
            write: self.lists.write.iter().map(unused).collect(),
            reply: self.lists.reply.as_ref().map(unused),
        }
    }

    /// A reply with these chunks and this payload.
    pub fn reply(&self, procedure: u32, lists: &Lists, payload: &[u8]) -> Vec<u8> {
        let mut message = words([self.xid, 1, GRANT, procedure]);
        message.extend(words(lists.words()));
        message.extend(payload);
        message
    }

    /// The payload of the right reply, without data that leave it, and these data.
    pub fn outcome(&self) -> (Vec<u8>, Vec<u8>) {
        let outcome = files::call(self.procedure, &self.arguments);
        let mut payload = wire::reply(self.xid, &[]);
        payload.extend(outcome.inline);
        (payload, outcome.data.unwrap_or_default())
    }
}

/// `length` bytes spread over `chunk`, as many as fit.
pub fn filled(chunk: &[Segment], mut length: usize) -> Vec<Segment> {
    let fill = |segment: &Segment| {
        let taken = length.min(segment.length as usize);
        length -= taken;
        Segment {
            length: taken as u32,
            ..*segment
        }
    };
    chunk.iter().map(fill).collect()
}

/// Server, client and what is between them.
pub struct Stage {
    listener: Listener,
    options: Options,
    /// The connection; there is one from the first call on.
    connection: Option<Connection>,
    /// How many there were.
    pub connections: usize,
    /// The credits that right replies grant.
    pub grant: u32,
    end: mpsc::Receiver<io::Result<Vec<u8>>>,
}

impl Stage {
    /// Has the client mount and do `deed`.
    pub fn new(deed: Deed) -> Result<Self, String> {
        Self::with(deed, &[])
    }

    /// As [`Self::new`], with the server's private data.
    pub fn with(deed: Deed, private: &[u8]) -> Result<Self, String> {
        Self::at(PLACES[0], deed, private)
    }

    /// As [`Self::new`], beside another one.
    pub fn beside(deed: Deed) -> Result<Self, String> {
        Self::at(PLACES[1], deed, &[])
    }

    fn at(place: (u16, &'static str), deed: Deed, private: &[u8]) -> Result<Self, String> {
        let address = env::var("CLIENT_ADDR").map_err(|_| "CLIENT_ADDR is not set")?;
        let listener = Listener::new(place.0).map_err(|error| error.to_string())?;
        files::mount_daemon(MOUNT_PORT).map_err(|error| error.to_string())?;
        let (sender, end) = mpsc::channel();
        std::thread::spawn(move || sender.send(mounted(&address, place, deed)));
        let options = Options {
            private: private.to_vec(),
            receives: 256,
            ..Options::default()
        };
        Ok(Self {
            listener,
            options,
            connection: None,
            connections: 0,
            grant: GRANT,
            end,
        })
    }

    /// The connection, unless it is lost and no other came.
    pub fn connection(&self) -> Result<&Connection, String> {
        let connection = self.connection.as_ref();
        connection.ok_or_else(|| "there is no connection".into())
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// The next call, over whatever connection, if one comes in time. Calls that are none are an
    /// error.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Call>, String> {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            if self.is_lost() {
                self.connection = None;
                let accepted = self
                    .listener
                    .accept(&self.options, Duration::from_millis(100));
                self.connection = accepted.map_err(|error| error.to_string())?;
                self.connections += usize::from(self.connection.is_some());
            } else if let Some(message) = self.connection()?.receive(Duration::from_millis(20)) {
                let call = Call::parse(&message.bytes);
                return match call {
                    Some(call) => Ok(Some(call)),
                    None => Err(format!("no NFSv3 call: {}", shown(&message.bytes))),
                };
            }
        }
        Ok(None)
    }

    fn is_lost(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_none_or(|connection| connection.lost().is_some())
    }

    /// The next call, if one comes soon. If the connection is lost, the one that comes over the next.
    pub fn soon(&mut self) -> Result<Option<Call>, String> {
        match self.next(silence())? {
            None if self.is_lost() => self.next(patience()),
            call => Ok(call),
        }
    }

    /// Serves until a call to `procedure` comes, and gives that.
    pub fn until(&mut self, procedure: u32) -> Result<Call, String> {
        loop {
            match self.next(patience())? {
                Some(call) if call.procedure == procedure => return Ok(call),
                Some(call) => self.answer(&call)?,
                None => {
                    let outcome = self.end.try_recv();
                    return Err(format!("procedure {procedure} is not called: {outcome:x?}"));
                }
            }
        }
    }

    /// Sends a message.
    pub fn send(&self, message: &[u8]) -> Verdict {
        self.send_as(Verb::Send, message)
    }

    /// As [`Self::send`], with another verb.
    pub fn send_as(&self, verb: Verb, message: &[u8]) -> Verdict {
        let sent = self.connection()?.send_as(verb, message);
        sent.map(|_| ())
            .map_err(|error| format!("cannot send: {error}"))
    }

    /// Memory of the server with these bytes.
    pub fn memory(&self, bytes: &[u8]) -> Result<Region, String> {
        let region = self.connection()?.region(bytes.len(), Access::Local);
        let region = region.map_err(|error| error.to_string())?;
        region.put(0, bytes);
        Ok(region)
    }

    /// Puts `bytes` into `chunk`. What it looks like then.
    pub fn fill(&self, chunk: &[Segment], bytes: &[u8]) -> Result<Vec<Segment>, String> {
        let filled = filled(chunk, bytes.len());
        let mut rest = bytes;
        for segment in filled.iter().filter(|segment| segment.length > 0) {
            let (part, behind) = rest.split_at(segment.length as usize);
            rest = behind;
            let status = self.transfer(Verb::Write, *segment, &self.memory(part)?)?;
            same("writing to the client's memory", status, SUCCESS)?;
        }
        same("bytes that do not fit", rest.len(), 0)?;
        Ok(filled)
    }

    /// Has `verb` done between `local` and the start of a segment. Its status.
    pub fn transfer(&self, verb: Verb, remote: Segment, local: &Region) -> Result<u32, String> {
        let done = self
            .connection()?
            .transfer(verb, remote.key, remote.address, local);
        done.map_err(|error| error.to_string())
    }

    /// The right reply to `call`, for which all has been put into its chunks.
    pub fn right_reply(&self, call: &Call) -> Result<Vec<u8>, String> {
        let (mut payload, data) = call.outcome();
        let mut lists = call.unused();
        match call.lists.write.first() {
            Some(chunk) if !data.is_empty() => lists.write[0] = self.fill(chunk, &data)?,
            _ => payload.extend(&data),
        }
        payload.resize(payload.len().next_multiple_of(4), 0);
        let reply = call.reply(0, &lists, &payload);
        match &call.lists.reply {
            Some(chunk) if reply.len() > THRESHOLD => {
                lists.reply = Some(self.fill(chunk, &payload)?);
                Ok(call.reply(1, &lists, &[]))
            }
            _ => Ok(reply),
        }
    }

    /// Answers `call` as it should be.
    pub fn answer(&self, call: &Call) -> Verdict {
        let mut reply = self.right_reply(call)?;
        reply[8..12].copy_from_slice(&self.grant.to_be_bytes());
        self.send(&reply)
    }

    /// The client says nothing and is not done.
    pub fn is_pending(&mut self) -> Verdict {
        let before = self.connections;
        if let Some(call) = self.next(silence())? {
            return Err(format!("procedure {} is called meanwhile", call.procedure));
        }
        same("connections", self.connections, before)?;
        if self.connection.is_none() {
            return Err("the connection is lost".into());
        }
        match self.end.try_recv() {
            Err(mpsc::TryRecvError::Empty) => Ok(()),
            other => Err(format!("the client is done: {other:x?}")),
        }
    }

    /// Answers calls with `answer` until the client is done. What came of it.
    fn finish(
        &mut self,
        answer: impl Fn(&Self, &Call) -> Verdict,
    ) -> Result<io::Result<Vec<u8>>, String> {
        let end = Instant::now() + patience();
        while Instant::now() < end {
            if let Ok(outcome) = self.end.try_recv() {
                return Ok(outcome);
            }
            if let Some(call) = self.next(Duration::from_millis(50))? {
                answer(self, &call)?;
            }
        }
        Err("the client does not come to an end".into())
    }

    /// Serves until the client is done, and wants it to have got `expected`.
    pub fn succeeds(&mut self, expected: &[u8]) -> Verdict {
        let outcome = self.finish(Self::answer)?;
        let outcome = outcome.map_err(|error| error.to_string());
        same("outcome", outcome, Ok(expected.to_vec()))
    }

    /// Answers each call to `procedure` with `answer` until the client is done, and wants it to have
    /// got an error. How many calls there were.
    pub fn gives_up(
        &mut self,
        procedure: u32,
        answer: impl Fn(&Self, &Call) -> Result<Vec<u8>, String>,
    ) -> Result<usize, String> {
        let calls = Cell::new(0);
        let outcome = self.finish(|stage, call| match call.procedure == procedure {
            true => {
                calls.set(calls.get() + 1);
                stage.send(&answer(stage, call)?)
            }
            false => stage.answer(call),
        })?;
        match outcome {
            Ok(outcome) => Err(format!("the client gets {} bytes", outcome.len())),
            Err(_) => Ok(calls.get()),
        }
    }

    /// As [`Self::gives_up`]; the error must be one of these answers.
    pub fn fails(
        &mut self,
        procedure: u32,
        answer: impl Fn(&Self, &Call) -> Result<Vec<u8>, String>,
    ) -> Verdict {
        match self.gives_up(procedure, answer)? {
            0 => Err("the client fails before it calls".into()),
            _ => Ok(()),
        }
    }

    /// `message` in place of the reply to `call` is dropped, the right one is taken.
    pub fn drops(&mut self, call: &Call, message: &[u8]) -> Verdict {
        self.send(message)?;
        let dropped = self.is_pending();
        dropped.map_err(|error| format!("{}: {error}", shown(message)))?;
        self.answer(call)
    }
}

/// The first call of a mount.
pub const FIRST: u32 = procedure::NULL;
