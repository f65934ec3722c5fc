//! `lockstepsrc` receives a stream from the other end of a call. It is a live source.
//!
//! The time stamp of a buffer is its arrival, so that a pipeline shows it at once. Its [`gst::ReferenceTimestampMeta`]
//! with the caps `timestamp/x-lockstep-capture` is the running time of its capture. The difference is the age of the
//! picture.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gst::glib;
use gst::glib::subclass::Signal;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_app::AppSrc;
use lockstep::{Call, ReceivedFrame};

use crate::session::{self, CATEGORY, Session};
use crate::settings::{self, Settings};
use crate::sound::{self, PipelineSound};
use crate::{messages, pictures};

/// The caps of the reference time stamp.
static CAPTURE: LazyLock<gst::Caps> = LazyLock::new(|| gst::Caps::new_empty_simple("timestamp/x-lockstep-capture"));
/// Interval at which the thread of pictures checks whether the call is over.
const WAIT: Duration = Duration::from_millis(100);

glib::wrapper! {
    pub struct LockstepSrc(ObjectSubclass<Source>) @extends gst::Bin, gst::Element, gst::Object, @implements gst::ChildProxy;
}

/// Registers the element.
pub fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "lockstepsrc", gst::Rank::NONE, LockstepSrc::static_type())
}

#[derive(Default)]
struct State {
    running: Option<(Session, JoinHandle<()>)>,
    video: Option<AppSrc>,
    audio: Option<AppSrc>,
}

/// The element.
#[derive(Default)]
pub struct Source {
    settings: Mutex<Settings>,
    state: Mutex<State>,
}

#[glib::object_subclass]
impl ObjectSubclass for Source {
    const NAME: &'static str = "GstLockstepSrc";
    type Type = LockstepSrc;
    type ParentType = gst::Bin;
}

impl Source {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self) -> Option<Arc<Call>> {
        self.state().running.as_ref().map(|(session, _)| Arc::clone(session.call()))
    }

    /// Adds a live `appsrc` behind a ghost pad of `template`.
    fn add_output(&self, template: &gst::PadTemplate, name: &str) -> Result<(AppSrc, gst::GhostPad), glib::BoolError> {
        let appsrc = AppSrc::builder().is_live(true).format(gst::Format::Time).build();
        self.obj().add(&appsrc)?;
        let missing = || glib::bool_error!("the appsrc has no source pad");
        let target = appsrc.static_pad("src").ok_or_else(missing)?;
        let pad = gst::GhostPad::builder_from_template_with_target(template, &target)?.name(name).build();
        self.obj().add_pad(&pad)?;
        Ok((appsrc, pad))
    }

    fn start(&self) -> Result<(), String> {
        let mut state = self.state();
        let mut builder = Call::builder().receive_frames();
        if let Some(audio) = state.audio.clone() {
            builder = builder.loudspeaker(move || Ok(Box::new(PipelineSound::new(audio.clone()))));
        }
        let video = state.video.clone().ok_or("the element has no pad for pictures")?;
        let output = Output { element: self.obj().downgrade(), video, audio: state.audio.clone(), info: None };
        let settings = self.settings().clone();
        let (session, ticket) = Session::start(self.obj().upcast_ref(), &settings, builder)?;
        let (call, is_over) = (Arc::clone(session.call()), Arc::clone(session.is_over()));
        let frames = thread::Builder::new().name("lockstep pictures".to_owned()).spawn(move || {
            output.run(&call, &|| is_over.load(Ordering::Acquire));
        });
        let frames = match frames {
            Ok(frames) => frames,
            Err(error) => {
                session.stop();
                return Err(format!("cannot start the thread of pictures: {error}"));
            }
        };
        state.running = Some((session, frames));
        drop(state);
        if let Some(ticket) = ticket {
            self.settings().ticket = Some(ticket.clone());
            self.obj().notify("ticket");
            session::post(self.obj().upcast_ref(), messages::of_ticket(&ticket));
        }
        Ok(())
    }
}

/// Pictures of a call on their way into the pipeline.
struct Output {
    element: glib::WeakRef<LockstepSrc>,
    video: AppSrc,
    audio: Option<AppSrc>,
    info: Option<gst_video::VideoInfo>,
}

impl Output {
    /// Pushes pictures until the call is over, then the end of the stream.
    fn run(mut self, call: &Call, is_over: &dyn Fn() -> bool) {
        loop {
            // The order matters: pictures that arrived before the end are shown.
            let ends = is_over();
            match call.next_frame(WAIT) {
                // The element has one pad: of several streams it shows the first.
                Some(frame) if frame.stream > 0 => {}
                Some(frame) => {
                    if let Err(reason) = self.push(&frame)
                        && let Some(element) = self.element.upgrade()
                    {
                        gst::element_error!(element, gst::StreamError::Failed, ("{reason}"));
                    }
                }
                None if ends => break,
                None => {}
            }
        }
        for appsrc in [Some(&self.video), self.audio.as_ref()].into_iter().flatten() {
            // A stopping pipeline refuses the end of the stream.
            let _ = appsrc.end_of_stream();
        }
    }

    /// Pushes a picture, unless the pipeline is paused: the newest pictures are in the call's own queue.
    fn push(&mut self, frame: &ReceivedFrame) -> Result<(), String> {
        let now = self.video.current_running_time().filter(|_| self.video.current_state() == gst::State::Playing);
        let Some(now) = now else { return Ok(()) };
        let info = pictures::info(&frame.picture)?;
        if self.info.as_ref() != Some(&info) {
            let caps = info.to_caps().map_err(|error| format!("cannot describe the pictures: {error}"))?;
            self.video.set_caps(Some(&caps));
            self.info = Some(info.clone());
        }
        let mut buffer = pictures::to_buffer(&frame.picture, &info)?;
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(now);
            let age = frame.age.and_then(|age| gst::ClockTime::try_from(age).ok());
            if let Some(captured_at) = age.and_then(|age| now.checked_sub(age)) {
                gst::ReferenceTimestampMeta::add(buffer, &CAPTURE, captured_at, None);
            }
        }
        if let Err(error) = self.video.push_buffer(buffer) {
            gst::debug!(CATEGORY, obj = self.video, "the pipeline refuses a picture: {error}");
        }
        Ok(())
    }
}

impl ObjectImpl for Source {
    fn properties() -> &'static [glib::ParamSpec] {
        settings::of_source()
    }

    fn signals() -> &'static [Signal] {
        static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
        SIGNALS
            .get_or_init(|| vec![session::send_message(|element| element.downcast_ref::<LockstepSrc>()?.imp().call())])
    }

    fn set_property(&self, _id: usize, value: &glib::Value, property: &glib::ParamSpec) {
        self.settings().set(property.name(), value);
    }

    fn property(&self, _id: usize, property: &glib::ParamSpec) -> glib::Value {
        self.settings().get(property)
    }

    fn constructed(&self) {
        self.parent_constructed();
        self.obj().set_element_flags(gst::ElementFlags::SOURCE);
        let template = self.obj().pad_template("src");
        match template.map(|template| self.add_output(&template, "src")) {
            Some(Ok((appsrc, _))) => {
                // The call's own queue drops pictures if the pipeline is slow, so that none is stale.
                appsrc.set_max_bytes(1);
                appsrc.set_block(true);
                self.state().video = Some(appsrc);
            }
            Some(Err(error)) => gst::error!(CATEGORY, imp = self, "cannot add the pad for pictures: {error}"),
            None => {}
        }
    }
}

impl GstObjectImpl for Source {}

impl ElementImpl for Source {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Lockstep source",
                "Source/Network",
                "Receives pictures and sound from the other end of a Lockstep call",
                "The authors of Lockstep",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: OnceLock<Vec<gst::PadTemplate>> = OnceLock::new();
        TEMPLATES.get_or_init(|| {
            let template = |name, presence, caps| gst::PadTemplate::new(name, gst::PadDirection::Src, presence, &caps);
            [
                template("src", gst::PadPresence::Always, pictures::caps()),
                template("audio_src", gst::PadPresence::Request, sound::caps(1)),
            ]
            .into_iter()
            .flatten()
            .collect()
        })
    }

    fn request_new_pad(
        &self,
        template: &gst::PadTemplate,
        _name: Option<&str>,
        _caps: Option<&gst::Caps>,
    ) -> Option<gst::Pad> {
        let is_new = {
            let state = self.state();
            state.audio.is_none() && state.running.is_none()
        };
        if !is_new {
            gst::error!(
                CATEGORY,
                imp = self,
                "cannot add another pad for sound: there is one, or the call has started"
            );
            return None;
        }
        match self.add_output(template, "audio_src") {
            Ok((appsrc, pad)) => {
                appsrc.set_caps(Some(&sound::caps(1)));
                let _ = appsrc.sync_state_with_parent();
                self.state().audio = Some(appsrc);
                Some(pad.upcast())
            }
            Err(error) => {
                gst::error!(CATEGORY, imp = self, "cannot add the pad for sound: {error}");
                None
            }
        }
    }

    fn release_pad(&self, pad: &gst::Pad) {
        let audio = self.state().audio.take();
        let _ = self.obj().remove_pad(pad);
        if let Some(appsrc) = audio {
            let _ = appsrc.set_state(gst::State::Null);
            let _ = self.obj().remove(&appsrc);
        }
    }

    fn change_state(&self, transition: gst::StateChange) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        if transition == gst::StateChange::ReadyToPaused
            && let Err(reason) = self.start()
        {
            gst::element_imp_error!(self, gst::ResourceError::Settings, ("{reason}"));
            return Err(gst::StateChangeError);
        }
        let success = self.parent_change_state(transition);
        let stops = transition == gst::StateChange::PausedToReady
            || (transition == gst::StateChange::ReadyToPaused && success.is_err());
        let running = if stops { self.state().running.take() } else { None };
        if let Some((session, frames)) = running {
            session.stop();
            let _ = frames.join();
        }
        success
    }
}

impl BinImpl for Source {}
