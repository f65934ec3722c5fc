//! `lockstepsink` sends a stream to the other end of a call.
//!
//! The call starts with the first caps, since its first message names the format of the pictures. Buffers of live sources
//! leave at once; others leave at their time. The capture time of a picture is its running time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gst::glib;
use gst::glib::subclass::Signal;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_app::{AppSink, AppSinkCallbacks};
use gst_video::VideoInfo;
use lockstep::Call;

use crate::session::{self, CATEGORY, Session};
use crate::settings::{self, Settings};
use crate::sound::{self, SoundQueue};
use crate::{messages, pictures};

glib::wrapper! {
    pub struct LockstepSink(ObjectSubclass<Sink>) @extends gst::Bin, gst::Element, gst::Object, @implements gst::ChildProxy;
}

/// Registers the element.
pub fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "lockstepsink", gst::Rank::NONE, LockstepSink::static_type())
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    info: Option<VideoInfo>,
    /// The sound that waits; none without a pad for it.
    sound: Option<(AppSink, SoundQueue)>,
}

/// The element.
#[derive(Default)]
pub struct Sink {
    settings: Mutex<Settings>,
    state: Mutex<State>,
}

#[glib::object_subclass]
impl ObjectSubclass for Sink {
    const NAME: &'static str = "GstLockstepSink";
    type Type = LockstepSink;
    type ParentType = gst::Bin;
}

impl Sink {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self) -> Option<Arc<Call>> {
        self.state().session.as_ref().map(|session| Arc::clone(session.call()))
    }

    /// Adds an `appsink` behind a ghost pad of `template`.
    fn add_input(
        &self,
        template: &gst::PadTemplate,
        name: &str,
        take: fn(&Self, &gst::Sample) -> Result<(), gst::FlowError>,
    ) -> Result<(AppSink, gst::GhostPad), glib::BoolError> {
        let appsink = AppSink::builder().caps(template.caps()).build();
        appsink.set_property("enable-last-sample", false);
        let weak = self.downgrade();
        let new_sample = move |appsink: &AppSink| {
            let sample = appsink.pull_sample().map_err(|_| gst::FlowError::Flushing)?;
            let this = weak.upgrade().ok_or(gst::FlowError::Flushing)?;
            take(&this, &sample)?;
            Ok(gst::FlowSuccess::Ok)
        };
        appsink.set_callbacks(AppSinkCallbacks::builder().new_sample(new_sample).build());
        self.obj().add(&appsink)?;
        let missing = || glib::bool_error!("the appsink has no sink pad");
        let target = appsink.static_pad("sink").ok_or_else(missing)?;
        let weak = self.downgrade();
        target.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |pad, info| {
            match (weak.upgrade(), info.event().map(|event| event.view())) {
                (Some(this), Some(gst::EventView::Caps(caps))) => this.on_caps(caps.caps()),
                (_, Some(gst::EventView::Segment(_))) => pace(pad),
                _ => {}
            }
            gst::PadProbeReturn::Ok
        });
        let pad = gst::GhostPad::builder_from_template_with_target(template, &target)?.name(name).build();
        self.obj().add_pad(&pad)?;
        Ok((appsink, pad))
    }

    /// Starts the call with the first format of pictures, and announces later frame rates.
    fn on_caps(&self, caps: &gst::CapsRef) {
        let Ok(info) = VideoInfo::from_caps(caps) else { return };
        let format = pictures::format(&info);
        let mut state = self.state();
        state.info = Some(info);
        if let Some(session) = &state.session {
            session.call().set_frame_rate(format.frame_rate);
            return;
        }
        let mut builder = Call::builder().send_frames(format);
        if let Some((_, queue)) = state.sound.clone() {
            builder = builder.microphone(move || {
                queue.clear();
                Ok(Box::new(queue.clone()))
            });
        }
        let settings = self.settings().clone();
        let started = Session::start(self.obj().upcast_ref(), &settings, builder);
        match started {
            Ok((session, ticket)) => {
                state.session = Some(session);
                drop(state);
                if let Some(ticket) = ticket {
                    self.settings().ticket = Some(ticket.clone());
                    self.obj().notify("ticket");
                    session::post(self.obj().upcast_ref(), messages::of_ticket(&ticket));
                }
            }
            Err(reason) => {
                drop(state);
                gst::element_imp_error!(self, gst::ResourceError::Settings, ("{reason}"));
            }
        }
    }

    /// The age of a buffer: the pipeline's time that has passed since its running time.
    fn age(&self, sample: &gst::Sample) -> Duration {
        let segment = sample.segment().and_then(|segment| segment.downcast_ref::<gst::ClockTime>());
        let pts = sample.buffer().and_then(gst::BufferRef::pts);
        let running_time = segment.and_then(|segment| segment.to_running_time(pts?));
        let age = self.obj().current_running_time().zip(running_time).map(|(now, at)| now.saturating_sub(at));
        age.map_or(Duration::ZERO, Duration::from)
    }

    fn take_picture(&self, sample: &gst::Sample) -> Result<(), gst::FlowError> {
        let now = Instant::now();
        let captured_at = now.checked_sub(self.age(sample)).unwrap_or(now);
        let (call, info) = {
            let state = self.state();
            let (Some(session), Some(info)) = (&state.session, &state.info) else {
                return Err(gst::FlowError::NotNegotiated);
            };
            if session.is_over().load(Ordering::Acquire) {
                return Err(gst::FlowError::Eos);
            }
            (Arc::clone(session.call()), info.clone())
        };
        let picture = sample.buffer().ok_or_else(|| "the sample has no buffer".to_owned());
        let picture = picture.and_then(|buffer| pictures::from_buffer(buffer, &info)).map_err(|reason| {
            gst::element_imp_error!(self, gst::StreamError::Format, ("{reason}"));
            gst::FlowError::Error
        })?;
        if call.send_frame(picture, captured_at) {
            gst::debug!(CATEGORY, imp = self, "a picture replaced one that waited for the encoder");
        }
        Ok(())
    }

    fn take_sound(&self, sample: &gst::Sample) -> Result<(), gst::FlowError> {
        let channels = sample.caps().and_then(|caps| caps.structure(0)?.get::<i32>("channels").ok());
        let channels = channels.and_then(|channels| usize::try_from(channels).ok()).unwrap_or(1);
        let bytes = sample.buffer().and_then(|buffer| buffer.map_readable().ok()).ok_or(gst::FlowError::Error)?;
        let queue = self.state().sound.as_ref().map(|(_, queue)| queue.clone());
        if let Some(queue) = queue {
            queue.push(&bytes, channels);
        }
        Ok(())
    }
}

/// Paces buffers: those of a live source leave at once, since they are late by definition. Others leave at their time.
fn pace(pad: &gst::Pad) {
    let mut query = gst::query::Latency::new();
    let is_live = pad.peer_query(&mut query) && query.result().0;
    if let Some(appsink) = pad.parent_element().and_downcast::<AppSink>() {
        appsink.set_sync(!is_live);
    }
}

impl ObjectImpl for Sink {
    fn properties() -> &'static [glib::ParamSpec] {
        settings::of_sink()
    }

    fn signals() -> &'static [Signal] {
        static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
        SIGNALS
            .get_or_init(|| vec![session::send_message(|element| element.downcast_ref::<LockstepSink>()?.imp().call())])
    }

    fn set_property(&self, _id: usize, value: &glib::Value, property: &glib::ParamSpec) {
        let settings = {
            let mut settings = self.settings();
            settings.set(property.name(), value);
            settings.clone()
        };
        let Some(call) = self.call() else { return };
        match property.name() {
            "max-bitrate" => call.set_max_bitrate(settings.bitrate_cap()),
            "latency" => {
                if let Err(error) = call.set_latency(settings.latency.into()) {
                    gst::warning!(CATEGORY, imp = self, "cannot change the latency: {error}");
                }
            }
            _ => {}
        }
    }

    fn property(&self, _id: usize, property: &glib::ParamSpec) -> glib::Value {
        self.settings().get(property)
    }

    fn constructed(&self) {
        self.parent_constructed();
        self.obj().set_element_flags(gst::ElementFlags::SINK);
        let template = self.obj().pad_template("sink");
        let added = template.map(|template| self.add_input(&template, "sink", Self::take_picture));
        if let Some(Err(error)) = added {
            gst::error!(CATEGORY, imp = self, "cannot add the pad for pictures: {error}");
        }
    }
}

impl GstObjectImpl for Sink {}

impl ElementImpl for Sink {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Lockstep sink",
                "Sink/Network",
                "Sends pictures and sound to the other end of a Lockstep call",
                "The authors of Lockstep",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: OnceLock<Vec<gst::PadTemplate>> = OnceLock::new();
        TEMPLATES.get_or_init(|| {
            let template = |name, presence, caps| gst::PadTemplate::new(name, gst::PadDirection::Sink, presence, &caps);
            let sound = sound::caps(gst::IntRange::new(1, 2));
            [
                template("sink", gst::PadPresence::Always, pictures::caps()),
                template("audio_sink", gst::PadPresence::Request, sound),
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
            state.sound.is_none() && state.session.is_none()
        };
        if !is_new {
            gst::error!(
                CATEGORY,
                imp = self,
                "cannot add another pad for sound: there is one, or the call has started"
            );
            return None;
        }
        match self.add_input(template, "audio_sink", Self::take_sound) {
            Ok((appsink, pad)) => {
                let _ = appsink.sync_state_with_parent();
                self.state().sound = Some((appsink, SoundQueue::default()));
                Some(pad.upcast())
            }
            Err(error) => {
                gst::error!(CATEGORY, imp = self, "cannot add the pad for sound: {error}");
                None
            }
        }
    }

    fn release_pad(&self, pad: &gst::Pad) {
        let sound = self.state().sound.take();
        let _ = self.obj().remove_pad(pad);
        if let Some((appsink, _)) = sound {
            let _ = appsink.set_state(gst::State::Null);
            let _ = self.obj().remove(&appsink);
        }
    }

    fn change_state(&self, transition: gst::StateChange) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        let success = self.parent_change_state(transition)?;
        if transition == gst::StateChange::PausedToReady {
            let session = {
                let mut state = self.state();
                state.info = None;
                state.session.take()
            };
            if let Some(session) = session {
                session.stop();
            }
        }
        Ok(success)
    }
}

impl BinImpl for Sink {}
