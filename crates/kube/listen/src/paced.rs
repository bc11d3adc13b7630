//! A stream that writes for a while and then lets others run.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes a connection writes before the tasks of others run. To encrypt and to send them takes less than a
/// millisecond. A client with hundreds of streams that reads fast would otherwise keep a thread while it has answers.
const WRITTEN_MAX: usize = 128 * 1024;

/// A stream that is written to by the task of one connection.
pub(crate) struct Paced<IO> {
    io: IO,
    /// Bytes that were written since others ran.
    written: usize,
}

impl<IO> Paced<IO> {
    pub(crate) fn new(io: IO) -> Self {
        Self { io, written: 0 }
    }

    /// Pending once after each [`WRITTEN_MAX`] bytes.
    fn poll_pace(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.written < WRITTEN_MAX {
            return Poll::Ready(());
        }
        self.written = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Paced<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Paced<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pace(context));
        let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes));
        self.written += written.as_ref().map_or(0, |bytes| *bytes);
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pace(context));
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(context, pieces));
        self.written += written.as_ref().map_or(0, |bytes| *bytes);
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::io::{AsyncWriteExt as _, sink};

    use super::*;

    /// Goes to the end of the tasks that can run.
    async fn behind_all() {
        let mut went = false;
        let go = |context: &mut Context<'_>| {
            if std::mem::replace(&mut went, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        };
        std::future::poll_fn(go).await;
    }

    #[tokio::test]
    async fn others_run_between_parts_of_what_is_written() {
        const PARTS: usize = 8;
        let written = Arc::new(AtomicUsize::new(0));
        let count = written.clone();
        let writing = tokio::spawn(async move {
            let mut io = Paced::new(sink());
            for _ in 0..PARTS * WRITTEN_MAX / 1024 {
                io.write_all(&[0; 1024]).await.expect("a sink takes everything");
                count.fetch_add(1024, Ordering::Relaxed);
            }
        });
        let between = written.clone();
        let other = tokio::spawn(async move {
            let mut most = 0;
            while !writing.is_finished() {
                let before = between.load(Ordering::Relaxed);
                behind_all().await;
                most = most.max(between.load(Ordering::Relaxed) - before);
            }
            most
        });
        let most = other.await.expect("no panic");
        assert!(most <= WRITTEN_MAX, "{most} bytes at once");
        assert_eq!(written.load(Ordering::Relaxed), PARTS * WRITTEN_MAX);
    }
}
