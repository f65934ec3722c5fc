//! Content of a window: large remote pictures, the small local one, text, and buttons that appear with the mouse. It is a
//! function of its input, so tests run it without a window system.

use eframe::egui::{
    Align2, Area, CentralPanel, Color32, ColorImage, Context, CornerRadius, CursorIcon, Event, FontId, Frame, Id, Key,
    Margin, Order, Painter, Pos2, Rect, RichText, Stroke, StrokeKind, TextureFilter, TextureHandle, TextureOptions, Ui,
    Vec2, ViewportCommand, vec2,
};
use lockstep_vp8::Picture;

use super::{Button, ESCAPE, WindowContent};
use crate::colour;

/// Share of the window's sides that the local picture takes.
const OWN_SHARE: f32 = 0.25;
/// Share of the window's height that the row of small pictures takes.
const ROW_SHARE: f32 = 0.2;
/// Distance of text and of the local picture from the edge, points.
const MARGIN: f32 = 12.0;
/// Seconds after the last movement of the mouse in which the buttons are visible.
const BUTTON_SECONDS: f64 = 2.5;
/// Background of the pictures.
const GROUND: Color32 = Color32::from_rgb(24, 26, 28);
/// Background of text on pictures.
const SHADE: Color32 = Color32::from_black_alpha(150);
/// Colour of text.
const WORDS: Color32 = Color32::from_gray(240);
/// Background of a highlighted button.
const HIGHLIGHT: Color32 = Color32::from_rgb(176, 48, 40);
/// Key of the list of keys.
const HELP: char = '?';
/// Key of full screen.
const FULL_SCREEN: char = 'f';

/// Smooth scaling in both directions.
const SMOOTH: TextureOptions = TextureOptions { mipmap_mode: Some(TextureFilter::Linear), ..TextureOptions::LINEAR };

/// The newest content of one sink.
pub(super) struct Newest {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) is_large: bool,
    /// A picture that is not drawn yet.
    pub(super) picture: Option<Picture>,
}

/// The texture of one sink.
#[derive(Default)]
struct Remote {
    number: u64,
    name: String,
    is_large: bool,
    texture: Option<TextureHandle>,
    /// Width and height on the display, pixels.
    shown_size: Option<(usize, usize)>,
}

impl Remote {
    /// Whether there is anything to show.
    fn is_visible(&self) -> bool {
        self.texture.is_some() || !self.name.is_empty()
    }
}

/// The drawn content of a window, between two frames.
#[derive(Default)]
pub(super) struct View {
    remote: Vec<Remote>,
    own: Shown,
    notice: Shown,
    lists_keys: bool,
    is_full_screen: bool,
    /// Time of the last movement of the mouse, or of the keyboard's focus.
    active_at: Option<f64>,
}

/// A picture and its texture.
#[derive(Default)]
struct Shown(Option<(Picture, TextureHandle)>);

impl Shown {
    /// The texture of `picture`, which is converted if it is a new one.
    fn texture(
        &mut self,
        context: &Context,
        picture: Option<&Picture>,
        options: TextureOptions,
    ) -> Option<&TextureHandle> {
        let Some(picture) = picture else {
            self.0 = None;
            return None;
        };
        match &mut self.0 {
            Some((shown, _)) if shown == picture => {}
            Some((shown, texture)) => {
                texture.set(image_of(context, picture), options);
                shown.clone_from(picture);
            }
            None => {
                self.0 = Some((picture.clone(), context.load_texture("picture", image_of(context, picture), options)))
            }
        }
        self.0.as_ref().map(|(_, texture)| texture)
    }
}

/// The picture in red, green and blue. Textures have a maximum size; larger pictures lose rows and columns.
fn image_of(context: &Context, picture: &Picture) -> ColorImage {
    let (width, height) = (picture.width(), picture.height());
    let rgb = colour::picture_to_rgb(picture);
    let step = width.max(height).div_ceil(context.input(|input| input.max_texture_side).max(1));
    if step <= 1 {
        return ColorImage::from_rgb([width, height], &rgb);
    }
    let rows = (0..height).step_by(step).flat_map(|y| (0..width).step_by(step).map(move |x| 3 * (y * width + x)));
    let pixels = rows.map(|at| Color32::from_rgb(rgb[at], rgb[at + 1], rgb[at + 2])).collect();
    ColorImage::new([width.div_ceil(step), height.div_ceil(step)], pixels)
}

/// The largest centred rectangle inside `room` with the ratio of `size`.
fn fit(room: Rect, size: Vec2) -> Rect {
    let scale = (room.size() / size).min_elem();
    Rect::from_center_size(room.center(), size * scale)
}

/// Rectangles of `count` pictures in `room`: the grid that leaves the least room empty for pictures of 16:9.
fn grid(room: Rect, count: usize) -> Vec<Rect> {
    let width_of = |columns: usize| {
        let (across, down) = (room.width() / columns as f32, room.height() / count.div_ceil(columns) as f32);
        across.min(down * 16.0 / 9.0)
    };
    let best = (1..=count).max_by(|&one, &other| width_of(one).total_cmp(&width_of(other)));
    let columns = best.unwrap_or(1);
    let size = vec2(room.width() / columns as f32, room.height() / count.div_ceil(columns) as f32);
    let tile = |index: usize| {
        let (row, column) = (index / columns, index % columns);
        // The last row is centred.
        let missing = columns - (count - row * columns).min(columns);
        let left = (column as f32 + missing as f32 / 2.0) * size.x;
        Rect::from_min_size(room.min + vec2(left, row as f32 * size.y), size)
    };
    (0..count).map(tile).collect()
}

/// Rectangles of `count` pictures in `room`: a grid, or, beside two or more others, one large picture over a row of small
/// ones.
fn places(room: Rect, count: usize, large: Option<usize>) -> Vec<Rect> {
    let Some(large) = large.filter(|_| count > 2) else { return grid(room, count) };
    let (upper, lower) = room.split_top_bottom_at_fraction(1.0 - ROW_SHARE);
    let width = lower.width() / (count - 1) as f32;
    let mut places: Vec<Rect> = (0..count - 1)
        .map(|index| Rect::from_min_size(lower.min + vec2(index as f32 * width, 0.0), vec2(width, lower.height())))
        .collect();
    places.insert(large, upper);
    places
}

/// Writes on a shade, and returns the room that both take.
fn write(painter: &Painter, at: Pos2, align: Align2, text: &str, size: f32) -> Rect {
    let galley = painter.layout(text.to_owned(), FontId::proportional(size), WORDS, 0.9 * painter.clip_rect().width());
    let around = align.anchor_size(at, galley.size() + vec2(16.0, 8.0));
    painter.rect_filled(around, CornerRadius::same(6), SHADE);
    painter.galley(around.min + vec2(8.0, 4.0), galley, WORDS);
    around
}

/// Part of a texture: all of it, or its mirror image.
fn whole(is_mirrored: bool) -> Rect {
    let (left, right) = if is_mirrored { (1.0, 0.0) } else { (0.0, 1.0) };
    Rect::from_min_max(Pos2::new(left, 0.0), Pos2::new(right, 1.0))
}

impl View {
    /// Takes the newest content of each sink.
    pub(super) fn take(&mut self, context: &Context, newest: Vec<Newest>) {
        self.remote.retain(|remote| newest.iter().any(|newest| newest.number == remote.number));
        for Newest { number, name, is_large, picture } in newest {
            let place = self.remote.iter().position(|remote| remote.number == number).unwrap_or_else(|| {
                self.remote.push(Remote { number, ..Remote::default() });
                self.remote.len() - 1
            });
            let remote = &mut self.remote[place];
            (remote.name, remote.is_large) = (name, is_large);
            if let Some(picture) = picture {
                let image = image_of(context, &picture);
                match &mut remote.texture {
                    Some(texture) => texture.set(image, SMOOTH),
                    None => remote.texture = Some(context.load_texture("picture", image, SMOOTH)),
                }
            }
        }
    }

    /// Width and height of a sink's pictures on the display, in pixels.
    pub(super) fn shown_size(&self, number: u64) -> Option<(usize, usize)> {
        self.remote.iter().find(|remote| remote.number == number)?.shown_size
    }

    /// Shows everything, and returns the keys that the user pressed, and those of the buttons.
    pub(super) fn show(&mut self, context: &Context, content: &WindowContent) -> Vec<char> {
        let mut pressed = Vec::new();
        for key in keys(context) {
            match key {
                HELP => self.lists_keys = !self.lists_keys,
                FULL_SCREEN => self.set_full_screen(context, !self.is_full_screen),
                ESCAPE if self.lists_keys => self.lists_keys = false,
                ESCAPE if self.is_full_screen => self.set_full_screen(context, false),
                key => pressed.push(key),
            }
        }
        let panel = CentralPanel::default().frame(Frame::NONE.fill(GROUND));
        panel.show(context, |ui| self.pictures(ui, content));
        if self.lists_keys {
            self.list_keys(context, content);
        }
        let is_visible = self.is_active(context);
        if !is_visible && self.is_full_screen {
            context.set_cursor_icon(CursorIcon::None);
        }
        let opacity = context.animate_bool(Id::new("buttons"), is_visible);
        if opacity > 0.0 {
            self.buttons(context, content, opacity, &mut pressed);
        }
        pressed
    }

    /// Whether the buttons are visible: after a movement of the mouse, and while the keyboard has chosen one.
    fn is_active(&mut self, context: &Context) -> bool {
        let (now, moved) = context.input(|input| {
            (input.time, input.pointer.delta() != Vec2::ZERO || input.pointer.any_down() || input.key_pressed(Key::Tab))
        });
        if moved || context.memory(|memory| memory.focused().is_some()) {
            self.active_at = Some(now);
        }
        self.active_at.is_some_and(|at| now - at < BUTTON_SECONDS)
    }

    fn set_full_screen(&mut self, context: &Context, is_full_screen: bool) {
        self.is_full_screen = is_full_screen;
        context.send_viewport_cmd(ViewportCommand::Fullscreen(is_full_screen));
    }

    /// The remote pictures, each with its name. Returns the place of the local one, if it stands among them.
    fn remote_pictures(&mut self, ui: &Ui) -> Option<Rect> {
        let (painter, scale) = (ui.painter(), ui.ctx().pixels_per_point());
        let visible: Vec<&mut Remote> = self.remote.iter_mut().filter(|remote| remote.is_visible()).collect();
        let large = visible.iter().position(|remote| remote.is_large);
        // In the corner the local picture would cover small ones.
        let is_among_them = visible.len() > 2;
        let mut places = places(ui.max_rect(), visible.len() + usize::from(is_among_them), large);
        let own_place = places.pop_if(|_| is_among_them);
        for (remote, tile) in visible.into_iter().zip(places) {
            let mut place = tile;
            if let Some(texture) = &remote.texture {
                place = fit(place, texture.size_vec2());
                painter.image(texture.id(), place, whole(false), Color32::WHITE);
                remote.shown_size = Some(((scale * place.width()) as usize, (scale * place.height()) as usize));
            }
            if !remote.name.is_empty() {
                let corner = place.left_bottom() + 0.5 * vec2(MARGIN, -MARGIN);
                write(&painter.with_clip_rect(tile), corner, Align2::LEFT_BOTTOM, &remote.name, 15.0);
            }
        }
        own_place
    }

    fn pictures(&mut self, ui: &Ui, content: &WindowContent) {
        let (room, painter, context) = (ui.max_rect(), ui.painter(), ui.ctx());
        let notice = &content.notice;
        let code = self.notice.texture(context, notice.picture.as_ref(), TextureOptions::NEAREST);
        if let Some(texture) = code {
            painter.image(texture.id(), fit(room.shrink(MARGIN), texture.size_vec2()), whole(false), Color32::WHITE);
        }
        let is_covered = notice.picture.is_some() || notice.replaces_pictures;
        let own_place = if is_covered { None } else { self.remote_pictures(ui) };
        if !notice.words.is_empty() {
            write(painter, room.center(), Align2::CENTER_CENTER, &notice.words, 22.0);
        }
        if !content.words.is_empty() {
            write(painter, room.min + Vec2::splat(MARGIN), Align2::LEFT_TOP, &content.words, 15.0);
        }
        let mut corner = room.max - Vec2::splat(MARGIN);
        if !content.details.is_empty() {
            let at = Pos2::new(room.center().x, corner.y);
            corner.y = write(painter, at, Align2::CENTER_BOTTOM, &content.details, 13.0).min.y - MARGIN;
        }
        if let Some(texture) = self.own.texture(context, content.own.as_ref(), SMOOTH) {
            let size = fit(Rect::from_min_size(Pos2::ZERO, OWN_SHARE * room.size()), texture.size_vec2()).size();
            let in_corner = Rect::from_min_size(corner - size, size);
            let place = own_place.map_or(in_corner, |tile| fit(tile, texture.size_vec2()));
            painter.image(texture.id(), place, whole(content.is_mirrored), Color32::WHITE);
            painter.rect_stroke(
                place,
                CornerRadius::ZERO,
                Stroke::new(1.0, Color32::from_gray(208)),
                StrokeKind::Outside,
            );
        }
    }

    /// The buttons of the content, then those of the window.
    fn buttons(&mut self, context: &Context, content: &WindowContent, opacity: f32, pressed: &mut Vec<char>) {
        let full = if self.is_full_screen { "Leave full screen" } else { "Full screen" };
        let area = Area::new(Id::new("buttons")).order(Order::Foreground);
        area.anchor(Align2::CENTER_BOTTOM, vec2(0.0, -3.0 * MARGIN)).show(context, |ui| {
            ui.set_opacity(opacity);
            Frame::NONE.fill(SHADE).corner_radius(CornerRadius::same(10)).inner_margin(Margin::same(8)).show(
                ui,
                |ui| {
                    ui.horizontal(|ui| {
                        for button in &content.buttons {
                            if add_button(ui, button) {
                                pressed.push(button.key);
                            }
                        }
                        if add_button(ui, &own_button(FULL_SCREEN, full)) {
                            self.set_full_screen(context, !self.is_full_screen);
                        }
                        if add_button(ui, &own_button(HELP, "Keys")) {
                            self.lists_keys = !self.lists_keys;
                        }
                    });
                },
            );
        });
    }

    fn list_keys(&mut self, context: &Context, content: &WindowContent) {
        let own = [own_button(FULL_SCREEN, "Full screen"), own_button(HELP, "Keys")];
        let area = Area::new(Id::new("keys")).order(Order::Foreground);
        area.anchor(Align2::CENTER_CENTER, Vec2::ZERO).show(context, |ui| {
            Frame::NONE
                .fill(Color32::from_black_alpha(215))
                .corner_radius(CornerRadius::same(10))
                .inner_margin(Margin::same(16))
                .show(ui, |ui| {
                    for button in content.buttons.iter().chain(&own) {
                        let line = format!("{}   {}", button.key, button.name);
                        ui.label(RichText::new(line).color(WORDS).size(16.0));
                    }
                });
        });
    }
}

fn own_button(key: char, name: &str) -> Button {
    Button { key, name: name.to_owned(), is_highlighted: false }
}

/// Adds a button, and returns whether it was pressed.
fn add_button(ui: &mut Ui, button: &Button) -> bool {
    use eframe::egui::Button as Widget;

    let fill = if button.is_highlighted { HIGHLIGHT } else { Color32::from_gray(60) };
    let widget = Widget::new(RichText::new(&button.name).color(WORDS).size(15.0)).fill(fill);
    let response = ui.add(widget.min_size(vec2(0.0, 32.0)).corner_radius(CornerRadius::same(8)));
    response.on_hover_text(format!("key {}", button.key)).clicked()
}

/// Keys that were pressed. A held key counts once.
fn keys(context: &Context) -> Vec<char> {
    let key = |event: &Event| match event {
        Event::Key { key: Key::Escape, pressed: true, repeat: false, .. } => Some(ESCAPE),
        // A key with Shift may be released as another one, and its next press would count as held.
        Event::Text(text) if text == "?" => Some(HELP),
        Event::Key { key, pressed: true, repeat: false, modifiers, .. } if !modifiers.command && !modifiers.alt => {
            let mut letters = key.name().chars();
            letters.next().filter(|letter| letter.is_ascii_alphabetic() && letters.next().is_none())
        }
        _ => None,
    };
    context.input(|input| input.events.iter().filter_map(key).map(|key| key.to_ascii_lowercase()).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;

    use super::*;

    fn picture(width: usize, height: usize) -> Picture {
        Picture::from_i420(width, height, vec![128; Picture::i420_length(width, height)]).unwrap()
    }

    /// A window with two buttons, and the keys that it returned.
    fn window() -> (Harness<'static>, Rc<RefCell<String>>) {
        let pressed = Rc::new(RefCell::new(String::new()));
        let (mut view, keys) = (View::default(), pressed.clone());
        let button = |key, name: &str| Button { key, name: name.to_owned(), is_highlighted: key == 'm' };
        let content = WindowContent {
            own: Some(picture(64, 36)),
            is_mirrored: true,
            words: "good".to_owned(),
            details: "delay 80 ms".to_owned(),
            notice: Notice { words: "camera off".to_owned(), ..Notice::default() },
            buttons: vec![button('m', "Unmute"), button('q', "Leave")],
        };
        let app = move |context: &Context| {
            let picture = Some(picture(320, 180));
            let anna = Newest { number: 0, name: "anna".to_owned(), is_large: false, picture };
            view.take(context, vec![anna, Newest { number: 1, name: String::new(), is_large: false, picture: None }]);
            keys.borrow_mut().extend(view.show(context, &content));
        };
        (Harness::builder().with_size(vec2(640.0, 360.0)).with_step_dt(0.05).build(app), pressed)
    }

    use crate::Notice;

    #[test]
    fn buttons_appear_with_the_mouse_and_vanish() {
        let (mut window, pressed) = window();
        window.run_steps(2);
        assert!(window.query_by_label("Unmute").is_none(), "no mouse yet");
        window.hover_at(Pos2::new(300.0, 100.0));
        window.hover_at(Pos2::new(310.0, 110.0));
        window.run_steps(10);
        window.get_by_label("Unmute").click();
        window.run_steps(5);
        assert_eq!(*pressed.borrow(), "m");
        window.run_steps(80);
        assert!(window.query_by_label("Unmute").is_none(), "the mouse rests");
    }

    #[test]
    fn each_key_press_is_reported_once_short_or_held() {
        let (mut window, pressed) = window();
        for key in [Key::M, Key::V, Key::A, Key::Escape] {
            window.key_press(key);
            window.run_steps(2);
        }
        assert_eq!(*pressed.borrow(), "mva\u{1b}");
    }

    #[test]
    fn escape_leaves_the_list_of_keys_before_the_call() {
        let (mut window, pressed) = window();
        window.event(Event::Text("?".to_owned()));
        window.run_steps(3);
        assert!(window.query_by_label_contains("q   Leave").is_some());
        window.key_press(Key::Escape);
        window.run_steps(3);
        assert!(window.query_by_label_contains("q   Leave").is_none());
        assert_eq!(*pressed.borrow(), "");
    }

    #[test]
    fn pictures_larger_than_a_texture_are_reduced() {
        let context = Context::default();
        context.input_mut(|input| input.max_texture_side = 100);
        assert_eq!(image_of(&context, &picture(320, 180)).size, [80, 45]);
        assert_eq!(image_of(&context, &picture(1, 1_601)).size, [1, 95]);
    }

    #[test]
    fn grid_of_pictures_fills_the_window() {
        let room = Rect::from_min_size(Pos2::ZERO, vec2(1_600.0, 900.0));
        let sizes = |count| grid(room, count).iter().map(|tile| (tile.width() as u32, tile.height() as u32)).collect();
        let sizes: [Vec<(u32, u32)>; 3] = [1, 2, 5].map(sizes);
        assert_eq!(sizes[0], [(1_600, 900)]);
        assert_eq!(sizes[1].len(), 2);
        assert_eq!(sizes[2], vec![(533, 450); 5]);
        assert!((grid(room, 5)[3].left() - 533.3 / 2.0).abs() < 1.0, "the last row is centred");
        assert!(grid(room, 0).is_empty());
    }

    #[test]
    fn large_picture_stands_over_a_row_of_the_others() {
        let room = Rect::from_min_size(Pos2::ZERO, vec2(1_000.0, 500.0));
        let sizes = |count, large| places(room, count, large).iter().map(Rect::size).collect::<Vec<_>>();
        let small = vec2(500.0, 100.0);
        assert_eq!(sizes(3, Some(1)), [small, vec2(1_000.0, 400.0), small]);
        assert_eq!(sizes(2, Some(1)), sizes(2, None), "two stand side by side");
        let corners: Vec<f32> = places(room, 3, Some(0)).iter().map(|place| place.left()).collect();
        assert_eq!(corners, [0.0, 0.0, 500.0]);
    }

    #[test]
    fn tile_knows_its_size_and_an_empty_one_takes_no_room() {
        let mut view = View::default();
        let mut sizes = Vec::new();
        let newest = |number, picture| Newest { number, name: String::new(), is_large: false, picture };
        let context = Context::default();
        for _ in 0..2 {
            let input = eframe::egui::RawInput {
                screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(640.0, 360.0))),
                ..Default::default()
            };
            let _ = context.run(input, |context| {
                view.take(context, vec![newest(0, None), newest(1, Some(picture(320, 180)))]);
                view.show(context, &WindowContent::default());
            });
            sizes = vec![view.shown_size(0), view.shown_size(1)];
        }
        assert_eq!(sizes, [None, Some((640, 360))]);
    }

    #[test]
    fn picture_keeps_its_ratio() {
        let room = Rect::from_min_size(Pos2::ZERO, vec2(640.0, 400.0));
        assert_eq!(fit(room, vec2(320.0, 180.0)), Rect::from_min_size(Pos2::new(0.0, 20.0), vec2(640.0, 360.0)));
    }
}
