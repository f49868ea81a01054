//! Background work: the one place that starts tasks and threads.
#![allow(clippy::disallowed_methods)]

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use highwater_core::ports::Fault;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Starts a task on the runtime.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}

/// Runs a stream ahead of whoever reads it, by so many items, on a task of its own; the task ends with its reader.
pub fn ahead<T: Send + 'static>(mut stream: BoxStream<'static, T>, items: usize) -> BoxStream<'static, T> {
    let (send, receive) = mpsc::channel(items);
    spawn(async move {
        while let Some(item) = stream.next().await {
            if send.send(item).await.is_err() {
                return;
            }
        }
    });
    futures::stream::unfold(receive, |mut receive| async move { Some((receive.recv().await?, receive)) }).boxed()
}

/// Runs blocking work on a thread of its own and waits for it; a panic in it becomes a fault.
pub async fn blocking<T, F>(work: F) -> Result<T, Fault>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(|error| Fault::Internal(format!("a worker thread died: {error}")))
}

/// Runs blocking work on this very thread, whose other tasks go elsewhere: whoever aborts its task waits for it.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// How long what is left of a command's work is waited for at its end.
const LAST_WORK: Duration = Duration::from_millis(100);

/// Parsers and planners of SQL recurse into what a user wrote: long chains of operators need deep stacks. Only what is
/// used of a stack costs memory.
const STACK_BYTES: usize = 256 << 20;

/// Runs work on a thread with a deep stack.
pub fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Fault> {
    let failed = |why: String| Fault::Internal(format!("a thread could not be run: {why}"));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        thread.join().map_err(|_| failed("it panicked".into()))
    })
}

/// Runs a future on a thread and a runtime of its own: whatever keeps the other threads busy does not delay it. The thread
/// ends with the future, or with the process.
pub fn apart<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::Internal(format!("no runtime could be started: {error}")))?;
    let thread = std::thread::Builder::new().spawn(move || runtime.block_on(work()));
    thread.map(drop).map_err(|error| Fault::Internal(format!("a thread could not be run: {error}")))
}

/// How much nicer those threads are than the process: a tenth of a core is theirs where everybody wants it.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;
/// Nobody is nicer.
#[cfg(target_os = "linux")]
const NICEST: i32 = 19;

/// One thread for tasks, and others for blocking work, that give way to all the rest: for work that nobody waits for.
/// Threads that they start give way too.
pub struct Behind(Option<tokio::runtime::Runtime>);

impl Behind {
    /// Starts them.
    pub fn start() -> Result<Self, Fault> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().thread_stack_size(STACK_BYTES / 4).on_thread_start(give_way());
        let runtime = builder.build();
        let failed = |error| Fault::Internal(format!("no runtime could be started: {error}"));
        runtime.map(|runtime| Self(Some(runtime))).map_err(failed)
    }

    /// Starts a task there.
    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.0 {
            Some(runtime) => runtime.spawn(work),
            None => spawn(work),
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // As at a command's end; and a thread of one runtime may not wait for another.
            _ = deep(move || runtime.shutdown_timeout(LAST_WORK));
        }
    }
}

/// Has the thread that runs it give way to the one that asks for it here. A thread begins as nice as the one that starts it.
#[cfg(target_os = "linux")]
fn give_way() -> impl Fn() {
    use rustix::process::{getpriority_process, setpriority_process};
    let nice = getpriority_process(None).unwrap_or_default();
    move || {
        if let Err(error) = setpriority_process(None, (nice + NICER).min(NICEST)) {
            tracing::debug!(%error, "a thread could not be made to give way");
        }
    }
}

/// Elsewhere it would be the whole process that gives way.
#[cfg(not(target_os = "linux"))]
fn give_way() -> impl Fn() {
    || {}
}

/// Runs a command's work to its end on a runtime of its own, with a worker for each core.
pub fn block_on<F: Future>(work: F) -> Result<F::Output, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES / 4).build();
    let runtime = runtime.map_err(|error| Fault::Internal(format!("no runtime could be started: {error}")))?;
    let output = runtime.block_on(work);
    // A thread that still runs while the process ends can meet an allocator that has ended. But whatever hangs (a listing)
    // must not keep the process.
    runtime.shutdown_timeout(LAST_WORK);
    Ok(output)
}
