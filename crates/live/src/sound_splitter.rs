//! One source of sound for several receivers, each with its own encoder.

use std::sync::mpsc::{self, SyncSender};

use lockstep_sound::{Frame, SoundFailure, SoundSource};

use crate::sound::Metronome;
use crate::{LiveError, Thread};

/// Frames of 20 ms of sound that may wait for the encoder of one receiver; beyond this, they are lost for this receiver.
const MAX_SOUND: usize = 5;

/// Sound of one receiver, from the shared source.
struct SharedSound(mpsc::Receiver<Frame>);

impl SoundSource for SharedSound {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        Ok(self.0.recv().ok())
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Copies a source of sound to the encoders of all receivers. The source rests while there is none.
pub(crate) struct SoundSplitter {
    listeners: mpsc::Sender<SyncSender<Frame>>,
    thread: Thread,
}

impl SoundSplitter {
    /// Starts the thread of `source`.
    pub(crate) fn start(mut source: Box<dyn SoundSource>) -> Result<Self, LiveError> {
        let (listeners, joined) = mpsc::channel::<SyncSender<Frame>>();
        let thread = Thread::spawn("microphone", move || {
            let mut metronome = Metronome::start(!source.is_live());
            let Ok(first) = joined.recv() else { return Ok(()) };
            let mut each = vec![first];
            loop {
                metronome.tick();
                let frame = source.next_frame().map_err(|error| LiveError::Sound(error.to_string()))?;
                let Some(frame) = frame else { return Ok(()) };
                each.extend(joined.try_iter());
                each.retain(|listener| !matches!(listener.try_send(frame), Err(mpsc::TrySendError::Disconnected(_))));
                if each.is_empty() {
                    let Ok(next) = joined.recv() else { return Ok(()) };
                    each.push(next);
                }
            }
        })?;
        Ok(Self { listeners, thread })
    }

    /// A copy of the source from now on, for one receiver.
    pub(crate) fn listen(&self) -> Box<dyn SoundSource> {
        let (sender, receiver) = mpsc::sync_channel(MAX_SOUND);
        let _ = self.listeners.send(sender); // a failed thread is detected by `check`
        Box::new(SharedSound(receiver))
    }

    /// Reports the failure of the thread, once.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        self.thread.check()
    }
}
